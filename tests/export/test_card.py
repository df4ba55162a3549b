"""Model cards of every family: what they say about loading is run, and gives the model that was trained."""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from actdeny_train.export.export import export
from actdeny_train.models.family import Family
from actdeny_train.training.record import describe

FAMILIES = {
    "qwen2_5_vl": "actdeny_train.models.tiny",
    "ovis2_5": "actdeny_train.models.tiny_ovis2_5",
    "video_llama_3": "actdeny_train.models.tiny_video_llama_3",
}
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_layers": 1, "num_vision_layers": 1, "vocab_size": 400}


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[str], tuple[Path, Family]]:
    """Export a finished run of a family: ``exported("ovis2_5")`` gives the folder and the model."""

    def make(name: str) -> tuple[Path, Family]:
        tiny = importlib.import_module(FAMILIES[name])
        tiny.build(tmp_path / "tiny", seed=0, size=tiny.TinySize(**SIZES))
        family = importlib.import_module(f"actdeny_train.models.{name}").load(str(tmp_path / "tiny"))
        run = tmp_path / "run"
        run.mkdir()
        values = {
            "name": "run",
            "model": {"_target_": f"actdeny_train.models.{name}.load", "checkpoint": str(tmp_path / "tiny")},
            "optimizer": {"lr": {"llm": 1e-6}},
        }
        (run / "config.yaml").write_text(yaml.safe_dump(values))
        (run / "run.json").write_text(json.dumps(describe(family, [], 0)))
        (run / "model").mkdir()
        with torch.no_grad():
            for parameter in family.parameters():
                parameter.add_(0.01)
        family.save(run / "model")
        return export(run, tmp_path / "out"), family

    return make


def run_snippet(folder: Path) -> dict[str, Any]:
    """Run the first Python block of a card and return its names."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```", card, re.DOTALL)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found.group(1).replace("FOLDER", str(folder)), names)
    return names


@pytest.mark.parametrize("name", ["qwen2_5_vl", "video_llama_3"])
def test_plain_transformers_loads_the_folder_as_the_card_says(
    exported: Callable[[str], tuple[Path, Family]], name: str
) -> None:
    folder, family = exported(name)
    assert "with plain transformers" in (folder / "README.md").read_text()
    made = run_snippet(folder)
    weights = made["model"].state_dict()
    expected = family.model.state_dict()
    assert weights.keys() == expected.keys() and all(torch.equal(weights[key], expected[key]) for key in expected)
    own = family.processor.processor  # type: ignore[attr-defined]
    assert type(made["processor"]) is type(own) and made["processor"].chat_template == own.chat_template


def test_ovis_loads_with_this_package_as_the_card_says(exported: Callable[[str], tuple[Path, Family]]) -> None:
    folder, family = exported("ovis2_5")
    card = (folder / "README.md").read_text()
    assert "Transformers has no class for Ovis2.5" in card and "plain transformers" not in card
    made = run_snippet(folder)["family"]
    assert made.fingerprint() == family.fingerprint()
    assert made.processor.fingerprint == family.processor.fingerprint


REMOTE_CONFIG = """
from transformers import PreTrainedConfig

class Ovis2_5_Config(PreTrainedConfig):
    model_type = "ovis2_5"
"""
REMOTE_MODEL = """
from torch import nn
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM
from .configuration_ovis2_5 import Ovis2_5_Config

class Ovis2_5(PreTrainedModel):
    config_class = Ovis2_5_Config

    def __init__(self, config):
        super().__init__(config)
        settings = dict(config.llm_config)
        settings.pop("model_type")
        self.llm = Qwen3ForCausalLM(Qwen3Config(**settings))
        self.vte = nn.Embedding(config.visual_vocab_size, config.hidden_size)
        self.post_init()
"""


def test_remote_code_copied_into_an_ovis_folder_is_found_and_gets_the_weights(
    exported: Callable[[str], tuple[Path, Family]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Stand-ins with the official files' and classes' names and two of the modules; the official code needs flash-attn."""
    folder, family = exported("ovis2_5")
    with pytest.raises(ValueError, match=r"trust_remote_code=True|custom code"):
        AutoConfig.from_pretrained(folder, trust_remote_code=False)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    for name, code in (("configuration", REMOTE_CONFIG), ("modeling", REMOTE_MODEL)):
        (folder / f"{name}_ovis2_5.py").write_text(code)
    model, info = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True, output_loading_info=True)
    assert type(model).__name__ == "Ovis2_5" and not info["missing_keys"]
    assert torch.equal(model.vte.weight, family.model.vte.weight)
    assert torch.equal(model.llm.lm_head.weight, family.model.llm.lm_head.weight)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.get_vocab() == family.processor.tokenizer.get_vocab()  # type: ignore[attr-defined]


def test_a_run_without_a_record_promises_nothing(
    exported: Callable[[str], tuple[Path, Family]], tmp_path: Path
) -> None:
    exported("qwen2_5_vl")
    (tmp_path / "run" / "run.json").unlink()
    card = (export(tmp_path / "run", tmp_path / "again") / "README.md").read_text()
    assert "from_pretrained" not in card and "Load it with the function under `model`" in card
