"""VideoLLaMA3 through the tools: trained, and its export evaluated, as any family."""

import json

import pytest
import yaml

from actdeny_train import cli, config
from actdeny_train.models import video_llama_3

MODEL = {"_target_": "actdeny_train.models.video_llama_3.load", "tokens_per_frame": [4, 4], "compress": True}


@pytest.fixture
def run(capsys):
    """Run a tool on a config of the Qwen2.5-VL tests with another model: ``run(tool, path, checkpoint, *arguments, **values)``."""

    def run(tool, path, checkpoint, *arguments, **values):
        values = {**yaml.safe_load(path.read_text()), "model": {**MODEL, "checkpoint": str(checkpoint)}, **values}
        path.write_text(yaml.safe_dump(values))
        config.check(path)
        assert tool([str(path), *arguments]) == 0, capsys.readouterr()
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_a_training_is_planned_done_exported_and_evaluated(run, tiny_folder, train_config, evaluate_config, tmp_path):
    said = run(cli.train, train_config, tiny_folder, "--dry-run")
    assert "Time 0.1s:<|video_pad|><|video_pad|>,Time 0.4s:" in said
    run(cli.train, train_config, tiny_folder)
    trained = tmp_path / "checkpoints" / "run"
    family = video_llama_3.load(str(trained / "model"))
    assert family.fingerprint() != video_llama_3.load(str(tiny_folder)).fingerprint()
    assert family.processor.processor.video_processor.tokens_per_frame == [4, 4]
    assert cli.export([str(trained), str(tmp_path / "exported")]) == 0
    assert "AutoModelForImageTextToText" in (tmp_path / "exported/README.md").read_text()
    run(cli.evaluate, evaluate_config, tmp_path / "exported")
    (metrics,) = (tmp_path / "runs").rglob("metrics.json")
    assert json.loads(metrics.read_text())


@pytest.mark.slow
def test_adapters_on_coarse_weights(run, official_folder, train_config, tmp_path):
    """LoRA on the language model of a checkpoint in the authors' layout: what is written loads as a converted one."""
    settings = {
        "tuning": {"adapter": {"parts": ["llm"], "rank": 2}, "frozen": {"llm": "int8", "vision": "int8"}},
        "optimizer": {"lr": {"llm": 1e-3, "projector": 1e-3}},
    }
    run(cli.train, train_config, official_folder, **settings)
    trained = video_llama_3.load(str(tmp_path / "checkpoints/run/model"))
    start = dict(video_llama_3.load(str(official_folder)).named_parameters())
    assert {name for name, _ in trained.named_parameters()} == set(start)
    changed = {name for name, parameter in trained.named_parameters() if not parameter.equal(start[name])}
    assert any(".q_proj." in name and "language_model" in name for name in changed)
    assert any("projector" in name for name in changed)
    vision = [(p, start[name]) for name, p in trained.named_parameters() if "vision_model" in name]
    assert all((p - before).abs().max() <= 0.01 * before.abs().max() for p, before in vision)
