"""Language models without clips: scores and responses are those of transformers' own model, one sequence at a time."""

import json
import shutil

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    Qwen3Config,
)

from actdeny_train.errors import CheckpointError, ConfigError, DataError
from actdeny_train.evaluation.scoring import answer, score
from actdeny_train.models import causal_lm
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.tiny import make_tokenizer

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "initializer_range": 0.5}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48, "head_dim": 8, **SMALL}
CONFIGS = {
    "llama": lambda n: LlamaConfig(vocab_size=n, **HEADS),
    "qwen3": lambda n: Qwen3Config(vocab_size=n, **HEADS),
    "gemma2, windows and capped logits": lambda n: Gemma2Config(
        vocab_size=n, sliding_window=8, final_logit_softcapping=3.0, **HEADS
    ),
    "gpt2, learned positions": lambda n: GPT2Config(
        vocab_size=n, n_embd=32, n_layer=2, n_head=4, n_positions=256, initializer_range=0.5
    ),
    "mamba, no attention": lambda n: MambaConfig(vocab_size=n, state_size=4, **SMALL),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Make a checkpoint of each architecture, with a tokenizer trained on the spot: ``folders(name)``."""
    root = tmp_path_factory.mktemp("causal")
    tokenizer = make_tokenizer(400)
    tokenizer.chat_template = TEMPLATE

    def make(name):
        folder = root / name.split(",")[0]
        if not folder.exists():
            config = CONFIGS[name](len(tokenizer))
            config.bos_token_id, config.eos_token_id = None, tokenizer.eos_token_id
            torch.manual_seed(0)
            model = AutoModelForCausalLM.from_config(config)
            model.generation_config.pad_token_id = tokenizer.pad_token_id
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def asked(make_question):
    numbers = make_question("Quale frase?\n1: Il re spinge\n2: La zia preme", ["1", "2", "10", "11"], target=1)
    return [
        Asked.for_scoring([], [numbers, make_question("Is it archery? Answer", ["yes", "no", "no one"])]),
        Asked.for_scoring([], [make_question("Intruso: ", ["1", "2", "3"])]),
    ]


@pytest.mark.parametrize("layout", ["chat", "continuation"])
@pytest.mark.parametrize("name", CONFIGS)
def test_scores_are_those_of_the_model_alone(folders, asked, name, layout):
    family = causal_lm.load(str(folders(name)), layout=layout).eval()
    tokenizer, reference = family.processor.tokenizer, AutoModelForCausalLM.from_pretrained(folders(name)).eval()
    batch = Batch.of(family.processor, asked)
    found = score(family, batch)
    different = set()
    for question, scores in zip(batch.questions, found, strict=True):
        for text, value in zip(question.answers, scores, strict=True):
            if layout == "chat":
                head = f"<|im_start|>user\n{question.text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
                start, whole = tokenizer(head)["input_ids"], tokenizer(f"{head}{text}<|im_end|>")["input_ids"]
            else:  # blanks at the end of a text belong to the continuation
                start = tokenizer(question.text.rstrip())["input_ids"]
                whole = tokenizer(f"{question.text} {text}")["input_ids"]
            with torch.no_grad():
                logprobs = reference(torch.tensor([whole])).logits[0].log_softmax(dim=-1)
            expected = sum(float(logprobs[i - 1, whole[i]]) for i in range(len(start), len(whole)))
            assert value == pytest.approx(expected, abs=1e-4)
            different.add(round(value, 3))
    assert len(different) > 8


@pytest.mark.parametrize("name", ["llama", "qwen3", "mamba, no attention"])
def test_responses_are_those_of_greedy_generation(folders, asked, name):
    family = causal_lm.load(str(folders(name))).eval()
    reference = AutoModelForCausalLM.from_pretrained(folders(name)).eval()
    batch = Batch.of(family.processor, asked)
    answers = answer(family, batch, "both", max_new_tokens=6)
    assert [a.logprobs for a in answers] == [pytest.approx(s) for s in score(family, batch)]
    for question, one in zip(batch.questions, answers, strict=True):
        prompt = torch.tensor([family.processor.tokenizer(family.processor._prompt(question.text))["input_ids"]])
        made = reference.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False)
        ids = made[0, prompt.shape[1] :].tolist()
        assert one.finished == (ids[-1] in family.processor.stop_ids)
        assert one.text == family.processor.decode(ids[:-1] if one.finished else ids)


def test_layout_follows_the_tokenizer(folders, tmp_path):
    assert causal_lm.load(str(folders("llama"))).processor.layout == "chat"
    plain = tmp_path / "plain"
    shutil.copytree(folders("llama"), plain)
    (plain / "chat_template.jinja").unlink()
    assert causal_lm.load(str(plain)).processor.layout == "continuation"
    with pytest.raises(ConfigError, match=r"tokenizer has no chat template. Set model.layout to continuation"):
        causal_lm.load(str(plain), layout="chat")
    (plain / "chat_template.jinja").write_text("{{ raise_exception('no') }}")
    with pytest.raises(
        CheckpointError, match=r"chat template cannot write a user's and an assistant's turn: no. Set model.l"
    ):
        causal_lm.load(str(plain))


def test_the_end_of_a_turn_is_the_templates_own(folders, tmp_path):
    folder = tmp_path / "gemma"
    shutil.copytree(folders("llama"), folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE.replace("<|im_end|>", "<|vision_end|>"))
    processor = causal_lm.load(str(folder)).processor
    ends = processor.tokenizer.convert_tokens_to_ids(["<|vision_end|>", "<|im_end|>"])
    assert processor.stop_ids == tuple(sorted(ends))
    assert processor.sequence([], "?", "1", question=0, choice=0).ids[-1] == ends[0]


def test_fingerprints_tell_layouts_apart(folders):
    made = [
        causal_lm.load(str(folders("llama")), layout=layout, thinking=thinking).processor.fingerprint
        for layout, thinking in (("chat", False), ("chat", True), ("continuation", False))
    ]
    assert len(set(made)) == 3


def test_what_a_language_model_refuses(folders, make_frames, tmp_path):
    processor = causal_lm.load(str(folders("llama"))).processor
    with pytest.raises(ConfigError, match=r"cannot be shown a video. Set view to text_only"):
        processor.visual(make_frames(1))
    with pytest.raises(DataError, match=r"holds the tokenizer's special token '<\|im_end\|>'"):
        processor.sequence([], "a<|im_end|>", "1", question=0, choice=0)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(
        CheckpointError, match=r"lacks weights \(\*.safetensors\); tokenizer \(tokenizer.json or vocab.json\) \(found"
    ):
        causal_lm.load(str(tmp_path))


def test_a_saved_model_is_the_same(folders, asked, tmp_path):
    family = causal_lm.load(str(folders("qwen3"))).eval()
    assert {part: len(p) > 0 for part, p in family.part_parameters().items()} == {
        "vision": False, "projector": False, "llm": True
    }  # fmt: skip
    family.save(tmp_path / "saved")
    again = causal_lm.load(str(tmp_path / "saved")).eval()
    assert again.fingerprint() == family.fingerprint() and again.processor.fingerprint == family.processor.fingerprint
    batch = Batch.of(family.processor, asked)
    assert score(again, batch) == score(family, batch)
