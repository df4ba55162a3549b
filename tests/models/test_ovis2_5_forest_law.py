"""The law for Ovis2.5: a forest gives what the model, held to the official numbers, gives for one conversation at a time."""

import copy

import pytest
import torch
from transformers.models.qwen3 import modeling_qwen3

from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import PARTS
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.ovis2_5 import Ovis25
from actdeny_train.models.ovis2_5.config import Ovis25Config
from actdeny_train.models.ovis2_5.model import Ovis25Model
from actdeny_train.models.tuning import set_modes, train_only

HEADS = {
    "two queries a key": {"num_attention_heads": 2, "num_key_value_heads": 1},
    "as many keys": {"num_attention_heads": 2, "num_key_value_heads": 2},
    "4 queries, 2 keys": {"num_attention_heads": 4, "num_key_value_heads": 2},
}
UNUSED = "visual_tokenizer.vit.vision_model.post_layernorm."


@pytest.fixture
def full_precision(monkeypatch):
    """Transformers computes norms in float32 whatever it is given; there a float64 gradient ends at 1e-7."""

    def norm(self, hidden):
        return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    monkeypatch.setattr(modeling_qwen3.Qwen3RMSNorm, "forward", norm)


@pytest.fixture
def make_pair(tiny_ovis, tiny_ovis_folder):
    """Make a family and a model of its own with the same random weights: ``make_pair(dtype, tied=True, **llm_config)``."""

    def make(dtype, tied=True, thinking=False, **llm_config):
        config = Ovis25Config.from_pretrained(tiny_ovis_folder)
        for name, value in {**(llm_config or HEADS["two queries a key"]), "tie_word_embeddings": tied}.items():
            setattr(config.llm_config, name, value)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = Ovis25Model(config).to(dtype)
            with torch.no_grad():  # away from the zeros and ones of an initialisation, so that everything matters
                for parameter in model.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
                model.vte.weight.mul_(4)
        reference = copy.deepcopy(model)
        reference.llm.set_attn_implementation("sdpa")
        return Ovis25(model, tiny_ovis(tokens_per_frame=(4, 30), thinking=thinking).processor), reference.eval()

    return make


@pytest.fixture
def asked(make_frames, make_question):
    """Three trees: a large clip, a small clip with more frames, and a question to the blind."""
    large, small = make_frames(3, 140, 168, seed=1), make_frames(8, 56, 84, fps=1.5, seed=2)
    numbers = make_question("Which action?\n1. archery\n2. bowling", ["1", "2", "10", "11"], target=2)
    words = make_question("Does a person draw a bow?", ["yes", "no"])
    return [
        Asked.for_scoring([large], [numbers, words]),
        Asked.for_scoring([small], [words, numbers]),
        Asked.for_scoring([], [make_question("Which clip shows it?", ["1", "2"], target=1)]),
    ]


def sequences_of(processor, asked):
    """Every (question, answer) as a sequence of its own, in the order of the forest's leaves."""
    for one in asked:
        visuals = [processor.visual(frames) for frames in one.frames]
        for question, choices in zip(one.questions, one.choices, strict=True):
            for choice in choices:
                yield (
                    processor.sequence(visuals, question.text, question.answers[choice], question=0, choice=choice),
                    visuals,
                )


def official_inputs(sequence, visuals):
    """Return what the official code would get: the last visual token is the video's end, the first its start."""
    ids = torch.from_numpy(sequence.ids).clone()
    visual = torch.from_numpy(sequence.visual)
    ids[visual >= 0] = -300
    if len(visuals):
        ids[visual == 0] = -303
        ids[visual == visuals[0].num_tokens - 1] = -304
    inputs = visuals[0].inputs if visuals else {}
    return ids[None], inputs.get("pixel_values"), inputs.get("grid_thws")


def alone(model, sequence, visuals):
    """Return the (K,) log-probabilities of a sequence's answer tokens, given by the model on official inputs."""
    ids, pixels, grids = official_inputs(sequence, visuals)
    logits = model(ids, pixel_values=pixels, grid_thws=grids).logits[0]
    rows = torch.arange(sequence.answer_start, len(sequence.ids))
    return torch.log_softmax(logits[rows - 1], dim=-1)[torch.arange(len(rows)), ids[0, rows]]


def forest_loss(family, batch):
    hidden = family(batch.forest, family.see(batch.visual))
    return -LanguageHead().token_logprobs(family, batch.forest, hidden).mean()


def loss_alone(reference, processor, asked):
    return -torch.cat([alone(reference, *pair) for pair in sequences_of(processor, asked)]).mean()


def assert_same_gradients(ours, theirs, tolerance):
    """Compare the gradients of all parameters that train in ``ours``, relative to the largest of each parameter."""
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if not parameter.requires_grad or name.startswith(UNUSED):
            assert parameter.grad is None, name
            continue
        other = expected[name].grad
        assert other.abs().max() > 0, name
        difference = (parameter.grad - other).abs().max() / other.abs().max()
        assert difference < tolerance, f"{name}: {difference:.2e}"


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_scores_are_those_of_sequences_alone(make_pair, asked, heads, dtype, tolerance):
    family, reference = make_pair(dtype, **heads)
    batch = Batch.of(family.processor, asked)
    with torch.no_grad():
        head = LanguageHead()
        tokens = head.token_logprobs(family, batch.forest, family(batch.forest, family.encode(batch.visual)))
        leaves = head.leaf_logprobs(batch.forest, tokens)
        expected = [alone(reference, *pair) for pair in sequences_of(family.processor, asked)]
    num_alone = sum(len(s.ids) for s, _ in sequences_of(family.processor, asked))
    assert len(leaves) == 14 and len(batch.forest.ids) < num_alone / 3
    assert leaves.std() > 0.5, "answers that all score the same would prove nothing"
    torch.testing.assert_close(tokens, torch.cat(expected), rtol=0, atol=tolerance * tokens.abs().max().item())
    torch.testing.assert_close(leaves, torch.stack([e.sum() for e in expected]), rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_loss_and_all_gradients_are_those_of_sequences_alone(make_pair, asked, heads, tied):
    family, reference = make_pair(torch.float64, tied, **heads)
    loss = forest_loss(family, Batch.of(family.processor, asked))
    expected = loss_alone(reference, family.processor, asked)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert_same_gradients(family.model, reference, 1e-9)


def test_gradients_in_float32(make_pair, asked):
    family, reference = make_pair(torch.float32)
    forest_loss(family, Batch.of(family.processor, asked)).backward()
    loss_alone(reference, family.processor, asked).backward()
    assert_same_gradients(family.model, reference, 1e-5)


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("checkpointed", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("parts", [PARTS, ("projector",), ("projector", "llm"), ("vision",), ("llm",)], ids="+".join)
def test_a_part_that_trains_gets_the_gradient_of_the_whole(make_pair, asked, parts, checkpointed, monkeypatch):
    """Frozen parts run without gradients and in eval mode, activations are recomputed: the numbers stay the same."""
    monkeypatch.setattr("actdeny_train.models.ovis2_5.model.CHUNK", 7)
    family, reference = make_pair(torch.float64)
    if checkpointed:
        family.checkpoint_gradients()
    train_only(family, parts)
    set_modes(family)
    loss = forest_loss(family, Batch.of(family.processor, asked))
    expected = loss_alone(reference, family.processor, asked)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert_same_gradients(family.model, reference, 1e-9)
    trained = {part for part, named in family.part_parameters().items() if any(p.grad is not None for _, p in named)}
    assert trained == set(parts)


def test_the_loss_is_the_one_of_official_labels(make_pair, make_frames, make_question):
    """One question, one leaf: our mean over answer tokens against labels with everything else masked."""
    family, reference = make_pair(torch.float32)
    question = make_question("What happens?", ["a person bows", "10"])
    asked = [Asked.for_training([make_frames(4)], [question])]
    ((sequence, visuals),) = sequences_of(family.processor, asked)
    labels = torch.full((len(sequence.ids),), -100)
    labels[sequence.answer_start :] = torch.from_numpy(sequence.ids[sequence.answer_start :])
    ids, pixels, grids = official_inputs(sequence, visuals)
    with torch.no_grad():
        expected = reference(ids, pixel_values=pixels, grid_thws=grids, labels=labels[None]).loss
        loss = forest_loss(family, Batch.of(family.processor, asked))
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    assert family.processor.decode(labels[labels != -100].tolist()) == "a person bows<|im_end|>"


def test_mixed_precision_gives_the_same_to_its_own_precision(make_pair, asked):
    family, _ = make_pair(torch.float32)
    batch = Batch.of(family.processor, asked)
    exact = forest_loss(family, batch)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = forest_loss(family, batch)
    mixed.backward()
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, exact, rtol=0.02, atol=0)
    named = family.model.named_parameters()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for n, p in named if not n.startswith(UNUSED))


@pytest.mark.parametrize("thinking", [False, True])
def test_what_another_tree_holds_does_not_matter(make_pair, asked, thinking):
    family, _ = make_pair(torch.float64, thinking=thinking)
    head = LanguageHead()
    scores = []
    for trees in (asked, asked[:1], asked[::-1]):
        batch = Batch.of(family.processor, trees)
        with torch.no_grad():
            tokens = head.token_logprobs(family, batch.forest, family(batch.forest, family.encode(batch.visual)))
        scores.append(head.leaf_logprobs(batch.forest, tokens))
    torch.testing.assert_close(scores[0][:6], scores[1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(scores[0][:6], scores[2][-6:], rtol=1e-9, atol=1e-9)


def test_tokens_that_follow_see_what_a_longer_prompt_sees(make_pair, make_frames, make_question):
    """Reading the answer token by token behind the cache gives the hidden rows of the whole forest."""
    family, _ = make_pair(torch.float64)
    question = make_question("What happens?", ["a person bows and leaves", "1"])
    batch = Batch.of(family.processor, [Asked.for_training([make_frames(4)], [question])])
    with torch.no_grad():
        tokens, cache = family.encode(batch.visual), family.new_cache()
        whole = family(batch.forest, tokens)
        family(batch.forest, tokens, cache)
        start, total = int(batch.forest.predict_rows[0]) + 1, len(batch.forest.ids)
        sees = torch.arange(total) < start
        for row in range(start, total - 1):
            sees = torch.cat((sees, torch.ones(1, dtype=torch.bool)))
            hidden = family.extend(batch.forest.ids[row : row + 1], torch.tensor([[row]]), sees[None], cache)
            torch.testing.assert_close(hidden[0], whole[row - start + 1], rtol=1e-9, atol=1e-9)
