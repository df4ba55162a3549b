"""The law for VideoLLaMA3: a forest gives what transformers' own model gives for one sequence at a time, compressed or not."""

import copy

import pytest
import torch
from transformers import AutoConfig, VideoLlama3ForConditionalGeneration
from transformers.models.qwen2 import modeling_qwen2
from transformers.models.video_llama_3 import modeling_video_llama_3

from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import PARTS
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.tuning import set_modes, train_only
from actdeny_train.models.video_llama_3 import VideoLlama3

HEADS = {
    "two queries a key": {"num_attention_heads": 2, "num_key_value_heads": 1},
    "as many keys": {"num_attention_heads": 2, "num_key_value_heads": 2},
    "4 queries, 2 keys": {"num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 128},
}
compressed = pytest.mark.parametrize("compress", [False, True], ids=["all tokens", "compressed"])


@pytest.fixture
def full_precision(monkeypatch):
    """Transformers computes norms and vision rotations in float32 whatever it is given; there a float64 gradient ends at 1e-7."""

    def norm(self, hidden):
        return self.weight * hidden * torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def rotate(q, k, cos, sin):
        cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
        return tuple(x * cos + modeling_video_llama_3.rotate_half(x) * sin for x in (q, k))

    monkeypatch.setattr(modeling_qwen2.Qwen2RMSNorm, "forward", norm)
    monkeypatch.setattr(modeling_video_llama_3, "apply_rotary_pos_emb_vision", rotate)


@pytest.fixture
def make_pair(tiny_family, tiny_folder):
    """Make a family and transformers' own model with the same random weights: ``make_pair(dtype, compress, **text_config)``."""

    def make(dtype, compress=True, **text_config):
        config = AutoConfig.from_pretrained(tiny_folder)
        for name, value in (text_config or HEADS["two queries a key"]).items():
            setattr(config.text_config, name, value)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = VideoLlama3ForConditionalGeneration(config).to(dtype)
            with torch.no_grad():  # away from the small and zero values of an initialisation: everything matters
                for parameter in model.parameters():
                    parameter.add_(0.1 * torch.randn_like(parameter))
        reference = copy.deepcopy(model)
        reference.set_attn_implementation("sdpa")
        return VideoLlama3(model, tiny_family(tokens_per_frame=(4, 30), compress=compress).processor), reference.eval()

    return make


@pytest.fixture
def asked(make_clip, make_question):
    """Three trees: a large clip, a small clip, and four clips in one question."""
    large, small, single = (
        make_clip(3, 140, 168, seed=1),
        make_clip(6, 56, 84, fps=1.5, seed=2),
        make_clip(1, 56, 56, seed=3),
    )
    numbers = make_question("Which action?\n1. archery\n2. bowling", ["1", "2", "10", "11"], target=2)
    words = make_question("Does a person draw a bow?", ["yes", "no"])
    which = make_question("Which clip shows it?", ["1", "2", "3", "4"], target=1)
    return [
        Asked.for_scoring([large], [numbers, words]),
        Asked.for_scoring([small], [words, numbers]),
        Asked.for_scoring([large, small, single, small], [which]),
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


def forest_loss(family, batch):
    hidden = family(batch.forest, family.encode(batch.visual))
    return -LanguageHead().token_logprobs(family, batch.forest, hidden).mean()


def loss_alone(alone, reference, processor, asked):
    return -torch.cat([alone(reference, *pair) for pair in sequences_of(processor, asked)]).mean()


def assert_same_gradients(ours, theirs, tolerance):
    """Compare the gradients of all parameters that train in ``ours``, relative to the largest of each parameter."""
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if not parameter.requires_grad:
            assert parameter.grad is None, name
            continue
        other = expected[name].grad
        assert other.abs().max() > 0, name
        difference = (parameter.grad - other).abs().max() / other.abs().max()
        assert difference < tolerance, f"{name}: {difference:.2e}"


@compressed
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-5)])
def test_scores_are_those_of_sequences_alone(make_pair, asked, alone, heads, dtype, tolerance, compress):
    family, reference = make_pair(dtype, compress, **heads)
    batch = Batch.of(family.processor, asked)
    with torch.no_grad():
        head = LanguageHead()
        tokens = head.token_logprobs(family, batch.forest, family(batch.forest, family.encode(batch.visual)))
        leaves = head.leaf_logprobs(batch.forest, tokens)
        expected = [alone(reference, *pair) for pair in sequences_of(family.processor, asked)]
    assert len(leaves) == 16
    assert len(batch.forest.ids) < sum(len(s.ids) for s, _ in sequences_of(family.processor, asked)) / 3
    mask = batch.visual.inputs["video_compression_mask"]
    assert batch.visual.num_tokens == int(mask.sum()) and bool(mask.all()) is not compress
    assert leaves.std() > 0.5, "answers that all score the same would prove nothing"
    torch.testing.assert_close(tokens, torch.cat(expected), rtol=0, atol=tolerance * tokens.abs().max().item())
    torch.testing.assert_close(leaves, torch.stack([e.sum() for e in expected]), rtol=tolerance, atol=tolerance)


@compressed
@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
def test_loss_and_all_gradients_are_those_of_sequences_alone(make_pair, asked, alone, heads, compress):
    family, reference = make_pair(torch.float64, compress, **heads)
    loss = forest_loss(family, Batch.of(family.processor, asked))
    expected = loss_alone(alone, reference, family.processor, asked)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert_same_gradients(family.model, reference, 1e-9)


@compressed
def test_gradients_in_float32(make_pair, asked, alone, compress):
    family, reference = make_pair(torch.float32, compress)
    forest_loss(family, Batch.of(family.processor, asked)).backward()
    loss_alone(alone, reference, family.processor, asked).backward()
    assert_same_gradients(family.model, reference, 1e-5)


@pytest.mark.usefixtures("full_precision")
@pytest.mark.parametrize("checkpointed", [False, True], ids=["kept", "recomputed"])
@pytest.mark.parametrize("parts", [PARTS, ("projector",), ("projector", "llm"), ("vision",), ("llm",)], ids="+".join)
def test_a_part_that_trains_gets_the_gradient_of_the_whole(make_pair, asked, alone, parts, checkpointed):
    """Frozen parts run without gradients and in eval mode, activations are recomputed: the numbers stay the same."""
    family, reference = make_pair(torch.float64)
    if checkpointed:
        family.checkpoint_gradients()
    train_only(family, parts)
    set_modes(family)
    loss = forest_loss(family, Batch.of(family.processor, asked))
    expected = loss_alone(alone, reference, family.processor, asked)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=0)
    assert_same_gradients(family.model, reference, 1e-9)
    trained = {part for part, named in family.part_parameters().items() if any(p.grad is not None for _, p in named)}
    assert trained == set(parts)


def test_a_frozen_tower_keeps_nothing_for_the_backward_pass(make_pair, asked):
    family, _ = make_pair(torch.float32)
    visual = Batch.of(family.processor, asked).visual
    train_only(family, ("projector",))
    seen = []
    family.model.model.vision_model.register_forward_hook(lambda _, __, out: seen.append(out.last_hidden_state))
    assert family.encode(visual).requires_grad and not seen[0].requires_grad
    train_only(family, ("llm",))
    assert not family.encode(visual).requires_grad
    train_only(family, ("vision",))
    assert family.encode(visual).requires_grad and seen[2].requires_grad


@compressed
def test_the_loss_is_the_one_that_transformers_computes_from_labels(make_pair, make_clip, make_question, compress):
    """One question, one leaf: our mean over answer tokens against ``labels=`` with everything else masked."""
    family, reference = make_pair(torch.float32, compress)
    question = make_question("What happens?", ["a person bows", "10"])
    asked = [Asked.for_training([make_clip(4)], [question])]
    ((sequence, (visual,)),) = sequences_of(family.processor, asked)
    labels = torch.full((len(sequence.ids),), -100)
    labels[sequence.answer_start :] = torch.from_numpy(sequence.ids[sequence.answer_start :])
    with torch.no_grad():
        expected = reference(
            input_ids=torch.from_numpy(sequence.ids)[None], labels=labels[None], **visual.inputs
        ).loss  # its own positions, and its own check that tokens and features are as many
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
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in family.parameters())


def test_what_another_tree_holds_does_not_matter(make_pair, asked):
    family, _ = make_pair(torch.float64)
    head = LanguageHead()
    scores = []
    for trees in (asked, asked[:1], asked[::-1]):
        batch = Batch.of(family.processor, trees)
        with torch.no_grad():
            tokens = head.token_logprobs(family, batch.forest, family(batch.forest, family.encode(batch.visual)))
        scores.append(head.leaf_logprobs(batch.forest, tokens))
    torch.testing.assert_close(scores[0][:6], scores[1], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(scores[0][:6], scores[2][-6:], rtol=1e-9, atol=1e-9)
