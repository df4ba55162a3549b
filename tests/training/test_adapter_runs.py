"""Whole runs with adapters, coarse weights, 8-bit AdamW and chosen layers: what changes, what is left, what is saved."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from lightning import Callback
from safetensors.torch import load_file
from torch import Tensor
from transformers import AutoModelForImageTextToText

from actdeny_train import config
from actdeny_train.errors import CheckpointError, ConfigError
from actdeny_train.models.adapters import adapted_layers
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.training.dry_run import dry_run
from actdeny_train.training.module import TrainingError
from actdeny_train.training.run import TrainRun
from callbacks.frozen_weights import FrozenWeights

OPTIMIZER = "optimizer={{_target_: actdeny_train.training.run.OptimizerSettings, lr: {{{}}}, warmup_ratio: 0.3}}"
PROJECTOR_AND_LLM = OPTIMIZER.format("projector: 1e-2, llm: 1e-2")
LORA = ("tuning.adapter={parts: [llm], rank: 4, alpha: 8}", PROJECTOR_AND_LLM)
DORA = ("tuning.adapter={parts: [llm], rank: 4, alpha: 8, dora: true}", PROJECTOR_AND_LLM)
QLORA = (*LORA, "tuning.frozen={vision: int8, llm: nf4}", "optimizer.moments=8bit")
RUNS = {"LoRA": LORA, "DoRA": DORA, "QLoRA": QLORA}

Fit = Callable[..., Path]
MakeFamily = Callable[..., Qwen25VL]


class Stop(Callback):
    """Breaks the run off after ``step`` steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == self.step:
            raise RuntimeError("stop")


class Live(Callback):
    """Keeps what the model computes, and its tensors, at the end of the training."""

    def __init__(self, inputs: dict[str, Tensor]) -> None:
        self.inputs = inputs
        self.tensors: dict[str, Tensor] = {}

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self.tensors = {name: t.detach().clone() for name, t in pl_module.family.state_dict().items()}
        self.logits = run_alone(pl_module.family.model, self.inputs)


def run_alone(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    """Return the logits of transformers' own forward pass."""
    training = model.training
    with torch.no_grad():
        logits = model.eval()(**inputs).logits
    model.train(training)
    return logits  # type: ignore[no-any-return]


@pytest.fixture
def inputs(tiny_family: MakeFamily, make_frames: Callable[..., Any]) -> dict[str, Tensor]:
    """A prompt with a clip, for transformers' own model."""
    processor = tiny_family().processor
    visual = processor.visual(make_frames(4))
    text = "<|vision_start|>" + "<|video_pad|>" * visual.num_tokens + "<|vision_end|>What does the person do?"
    encoded = processor.processor.tokenizer(text, return_tensors="pt")
    kinds = 2 * (encoded["input_ids"] == processor.processor.video_token_id).long()
    return {**encoded, **visual.inputs, "mm_token_type_ids": kinds}


@pytest.mark.parametrize("overrides", RUNS.values(), ids=RUNS)
def test_the_finished_model_is_plain_and_computes_what_training_ended_with(
    fit: Fit, inputs: dict[str, Tensor], tiny_folder: Path, overrides: tuple[str, ...]
) -> None:
    live = Live(inputs)
    model = fit(*overrides, "batch.num_steps=3", callbacks=[live, FrozenWeights()])
    base = run_alone(AutoModelForImageTextToText.from_pretrained(tiny_folder), inputs)
    assert float((live.logits - base).abs().max()) > 0.1, "three steps at a high rate are far away"
    loaded = run_alone(AutoModelForImageTextToText.from_pretrained(model), inputs)
    torch.testing.assert_close(loaded, live.logits, rtol=1e-5, atol=2e-5)
    weights, before = (load_file(folder / "model.safetensors") for folder in (model, tiny_folder))
    assert {name: (t.shape, t.dtype) for name, t in weights.items()} == {
        n: (t.shape, t.dtype) for n, t in before.items()
    }
    assert sorted(path.name for path in (model.parent / "adapter").iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]


@pytest.mark.parametrize("overrides", [LORA, DORA], ids=["LoRA", "DoRA"])
def test_the_saved_adapter_is_the_model_for_those_who_have_the_base(
    fit: Fit, inputs: dict[str, Tensor], tiny_folder: Path, overrides: tuple[str, ...]
) -> None:
    live = Live(inputs)
    model = fit(*overrides, "batch.num_steps=3", callbacks=[live])
    base = AutoModelForImageTextToText.from_pretrained(tiny_folder)
    loaded = peft.PeftModel.from_pretrained(base, model.parent / "adapter")
    torch.testing.assert_close(run_alone(loaded, inputs), live.logits, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("overrides", RUNS.values(), ids=RUNS)
def test_base_weights_keep_every_bit_and_every_adapter_and_full_weight_changes(
    fit: Fit, tiny_family: MakeFamily, inputs: dict[str, Tensor], overrides: tuple[str, ...]
) -> None:
    class Start(Callback):
        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self.tensors = {name: t.detach().clone() for name, t in pl_module.family.state_dict().items()}

    start, live, family = Start(), Live(inputs), tiny_family()
    fit(*overrides, "batch.num_steps=3", callbacks=[start, live], family=family)
    assert start.tensors.keys() == live.tensors.keys()
    for name, before in start.tensors.items():
        trains = "lora_" in name or ".merger." in name
        assert torch.equal(live.tensors[name], before) is not trains, name
    if overrides is not QLORA:
        plain = tiny_family().state_dict()
        kept = {name.replace(".base_layer.", "."): t for name, t in live.tensors.items() if "lora_" not in name}
        assert kept.keys() == plain.keys()
        assert all(torch.equal(kept[name], t) for name, t in plain.items() if ".merger." not in name)


@pytest.mark.parametrize("overrides", RUNS.values(), ids=RUNS)
def test_a_resumed_run_ends_as_one_that_was_not_interrupted(
    fit: Fit, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    whole = fit(*overrides, "name=whole")
    for step in (3, 5):
        with pytest.raises(RuntimeError, match="stop"):
            fit(*overrides, callbacks=[Stop(step)], resume=step > 3)
    resumed = fit(*overrides, resume=True)
    for file in ("model/model.safetensors", "adapter/adapter_model.safetensors", "adapter/adapter_config.json"):
        assert (resumed.parent / file).read_bytes() == (whole.parent / file).read_bytes(), file
    states = [torch.load(folder.parent / "last.ckpt", weights_only=True) for folder in (whole, resumed)]
    one, other = (state["optimizer_states"][0]["state"] for state in states)
    assert _flat(one).keys() == _flat(other).keys()
    assert all(torch.equal(value, _flat(other)[key]) for key, value in _flat(one).items())


def _flat(values: Any, key: str = "") -> dict[str, Tensor]:
    if isinstance(values, dict):
        return {k: t for name, value in values.items() for k, t in _flat(value, f"{key}.{name}").items()}
    return {key: torch.as_tensor(values)}


def test_the_state_holds_what_trains_alone(fit: Fit, tmp_path: Path, tiny_family: MakeFamily) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        fit(*LORA, callbacks=[Stop(3)])
    path = tmp_path / "checkpoints" / "run" / "last.ckpt"
    saved = torch.load(path, weights_only=True)
    assert saved["state_dict"] and all("lora_" in name or ".merger." in name for name in saved["state_dict"])
    name = next(iter(saved["state_dict"]))
    saved["state_dict"]["family.other"] = saved["state_dict"].pop(name)
    torch.save(saved, path)
    with pytest.raises(CheckpointError) as caught:
        fit(*LORA, resume=True)
    assert str(caught.value) == (
        f"The saved state does not fit what trains: {name}, family.other differ. Resume with the config and the packages that the run "
        "began with, or start it again."
    )


def test_a_run_does_not_go_on_with_another_adapter(fit: Fit) -> None:
    with pytest.raises(RuntimeError, match="stop"):
        fit(*LORA, callbacks=[Stop(3)])
    with pytest.raises(ConfigError, match="started with other settings under tuning"):
        fit(*LORA, "tuning.adapter.alpha=16", resume=True)


def test_the_last_layers_alone_train(fit: Fit, tiny_family: MakeFamily) -> None:
    family, before = tiny_family(), tiny_family()
    fit(
        OPTIMIZER.format("llm: 1e-2"),
        "tuning.only={llm: ['layers.-1:']}",
        "batch.num_steps=2",
        "hardware.checkpoint_gradients=true",
        family=family,
    )
    plain = dict(before.named_parameters())
    changed = {name for name, p in family.named_parameters() if not torch.equal(p, plain[name])}
    expected = {name for name in plain if ".language_model.layers.1." in name}
    assert changed <= expected and len(changed) > 0.8 * len(expected)
    for name in changed:
        assert ".layers.1." in name


def test_a_step_of_an_adapter_is_adamw_at_the_rate_of_its_part(fit: Fit) -> None:
    weights: list[dict[str, Tensor]] = []
    gradients: list[dict[str, Tensor]] = []

    class Watch(Callback):
        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            named = pl_module.family.named_parameters()
            weights.append({n: p.detach().clone() for n, p in named if p.requires_grad})

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            named = pl_module.family.named_parameters()
            gradients.append({n: p.grad.clone() for n, p in named if p.requires_grad})
            logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})

    logged: list[dict[str, float]] = []
    overrides = ("optimizer.lr={projector: 2e-2, llm: 3e-2}", "optimizer.eps=1.0", "optimizer.weight_decay=0.5")
    fit(*DORA, *overrides, "batch.num_steps=2", callbacks=[Watch()])
    before, after = weights
    assert any("magnitude" in name for name in before)
    for name, gradient in gradients[0].items():
        rate = 3e-2 if "lora_" in name else 2e-2
        decay = 0.5 if gradient.ndim > 1 else 0.0
        expected = before[name] * (1 - rate * decay) - rate * gradient / (gradient.abs() + 1.0)
        torch.testing.assert_close(after[name], expected, rtol=1e-6, atol=1e-8)
    assert (logged[0]["lr/projector"], logged[0]["lr/llm"]) == pytest.approx((2e-2, 3e-2))


def test_8_bit_adamw_stays_near_adamw_and_keeps_bytes(fit: Fit, tmp_path: Path) -> None:
    start = ("batch.num_steps=3", OPTIMIZER.format("llm: 1e-3"))
    exact = load_file(fit(*start) / "model.safetensors")
    coarse = load_file(fit(*start, "name=coarse", "optimizer.moments=8bit") / "model.safetensors")
    differences = torch.cat([(exact[name] - coarse[name]).flatten() for name in exact])
    assert 0 < float(differences.norm() / torch.cat([t.flatten() for t in exact.values()]).norm()) < 0.01
    states = torch.load(tmp_path / "checkpoints" / "coarse" / "last.ckpt", weights_only=True)["optimizer_states"][0]
    kept = _flat(states["state"])
    moments = {key: t for key, t in kept.items() if key.endswith(("state1", "state2"))}
    assert {t.dtype for t in moments.values() if t.numel() >= 4096} == {torch.uint8}
    assert {t.dtype for t in moments.values() if t.numel() < 4096} == {torch.float32}


def test_an_adapter_that_no_gradient_reaches_stops_the_run(fit: Fit, tiny_family: MakeFamily) -> None:
    """As where a family uses a layer's weights without calling it, which its adapter would never see."""
    family = tiny_family()
    mlp = family.model.model.language_model.layers[1].mlp
    mlp.forward = lambda x: torch.nn.functional.linear(x, mlp.up_proj.weight)[..., : x.shape[-1]]
    with pytest.raises(TrainingError) as caught:
        fit(*LORA, family=family)
    place = "model.model.language_model.layers.1.mlp"
    assert str(caught.value) == (
        "No gradient reaches 3 adapted layers in the first step, so training would leave them as they are: "
        f"{place}.gate_proj, {place}.up_proj, {place}.down_proj. Leave them out with tuning.adapter.targets."
    )


def test_a_bfloat16_run_keeps_its_frozen_weights_in_bfloat16(fit: Fit) -> None:
    class End(Callback):
        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.tensors = dict(pl_module.family.state_dict())

    live = End()
    overrides = ("hardware.precision=bfloat16", "batch.num_steps=3", "tuning.adapter={parts: [llm], rank: 4, alpha: 8}")
    frozen = "tuning.frozen={vision: bfloat16, llm: bfloat16}"
    coarse = fit(*overrides, PROJECTOR_AND_LLM, frozen, "name=coarse", callbacks=[live, FrozenWeights()])
    base = {name: t.dtype for name, t in live.tensors.items() if "base_layer.weight" in name}
    assert set(base.values()) == {torch.bfloat16}
    assert {t.dtype for name, t in live.tensors.items() if "lora_" in name} == {torch.float32}
    plain = fit(*overrides, PROJECTOR_AND_LLM, "name=plain")
    files = [load_file(folder.parent / "adapter" / "adapter_model.safetensors") for folder in (coarse, plain)]
    assert all(torch.equal(files[0][name], t) for name, t in files[1].items()), "the same steps, bit by bit"
    assert {t.dtype for t in load_file(coarse / "model.safetensors").values()} == {torch.float32}


def test_adapters_alone_may_train_on_a_model_loaded_in_bfloat16(fit: Fit) -> None:
    settings = ("model.dtype=bfloat16", "hardware.precision=bfloat16", "batch.num_steps=2", LORA[0])
    model = fit(*settings, OPTIMIZER.format("llm: 1e-2"), callbacks=[FrozenWeights()])
    assert {t.dtype for t in load_file(model / "model.safetensors").values()} == {torch.bfloat16}
    adapter = load_file(model.parent / "adapter" / "adapter_model.safetensors")
    assert {t.dtype for t in adapter.values()} == {torch.float32}
    with pytest.raises(ConfigError, match=r"^The weights of projector are coarser than float32, so small"):
        fit(*settings, PROJECTOR_AND_LLM, "name=other")


def test_the_record_names_the_packages(fit: Fit) -> None:
    model = fit(*LORA, "batch.num_steps=1")
    packages = json.loads((model.parent / "run.json").read_text(encoding="utf-8"))["packages"]
    assert packages["peft"] == peft.__version__ and "bitsandbytes" in packages


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("tuning.adapter.rnk=3", "unknown key 'tuning.adapter.rnk'. Did you mean 'rank'?"),
        (
            "tuning.frozen={llm: nf5}",
            "tuning.frozen must be dict[str, Literal['bfloat16', 'int8', 'nf4']] (at llm: Input should be",
        ),
        ("tuning.adapter.dropout=0.1", "tuning.adapter.dropout is 0.1, but must be 0."),
        ("tuning.adapter.parts=[vision]", "tuning.adapter.parts names vision, which has no learning rate."),
    ],
)
def test_settings_are_refused_when_the_config_is_read(
    make_run: Callable[..., tuple[TrainRun, dict[str, Any]]], override: str, text: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(text)):
        make_run(*LORA, override)


def lines_of(run: TrainRun) -> tuple[str, str, str]:
    lines = list(dry_run(run))
    return "\n".join(lines), lines[-2], lines[-1]


def test_the_plan_counts_adapters_and_coarse_weights(
    make_run: Callable[..., tuple[TrainRun, dict[str, Any]]],
    tiny_family: MakeFamily,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    fit: Fit,
) -> None:
    monkeypatch.setattr("actdeny_train.training.dry_run.GIB", 1)
    family = tiny_family()
    counts = {part: sum(p.numel() for _, p in named) for part, named in family.part_parameters().items()}
    linears = [m for m in family.model.model.language_model.modules() if isinstance(m, torch.nn.Linear)]
    adapter = sum(4 * (m.in_features + m.out_features) for m in linears)
    text, disk, memory = lines_of(make_run(*LORA)[0])
    assert re.search(rf"^  llm +{counts['llm']:,} parameters in 26 tensors, frozen$", text, re.MULTILINE)
    assert re.search(
        rf"^    adapter +{adapter:,} parameters in 28 tensors, learning rate 0\.01: LoRA of rank 4, alpha 8, on 14 linear layers$",
        text,
        re.MULTILINE,
    )
    assert re.search(
        rf"^  projector +{counts['projector']:,} parameters in .* tensors, learning rate 0\.01$", text, re.MULTILINE
    )
    trained = 4 * (adapter + counts["projector"])
    weights = 4 * (sum(counts.values()) + adapter)
    assert f"weights {weights:.2f} GiB, gradients {trained:.2f}, AdamW moments {2 * trained:.2f}," in memory
    assert disk.startswith(f"last.ckpt: {3 * trained:.2f} GiB")
    size = (fit(*LORA, "batch.num_steps=1").parent / "last.ckpt").stat().st_size
    assert 0.9 * size < 3 * trained < 1.1 * size + 50_000, "the frozen weights are not in it"

    text, _, memory = lines_of(make_run(*QLORA)[0])
    assert re.search(
        rf"^  llm +{counts['llm']:,} parameters in 26 tensors, frozen, its linear layers kept in nf4$",
        text,
        re.MULTILINE,
    )
    assert re.search(
        rf"^  vision +{counts['vision']:,} parameters .*, frozen, its linear layers kept in int8$", text, re.MULTILINE
    )
    stored = float(re.search(r"weights ([\d.]+) GiB", memory).group(1))  # type: ignore[union-attr]
    num_linear = sum(m.weight.numel() for m in linears)
    assert stored < weights - 4 * num_linear + 0.6 * num_linear + 14 * 1100 + 16 * 64 - 3 * 0.9 * (
        counts["vision"] // 2
    )
    assert "AdamW at work 0.00" in memory


def test_the_plan_tells_how_much_of_a_part_trains(make_run: Callable[..., tuple[TrainRun, dict[str, Any]]]) -> None:
    text, *_ = lines_of(make_run(OPTIMIZER.format("llm: 1e-3"), "tuning.only={llm: ['layers.-1:']}")[0])
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 64 + 32 + 32 + 64 * 2
    assert re.search(
        rf"^  llm .* parameters in 26 tensors; {layer:,} in 12 of them train, learning rate 0\.001$", text, re.MULTILINE
    )


@pytest.mark.parametrize("name", ["qwen3b_lora", "qwen3b_qlora"])
def test_the_shipped_configs_hold_together(name: str) -> None:
    path = Path(__file__).resolve().parents[2] / "configs" / f"{name}.yaml"
    run = config.parse(config.read(path), TrainRun, str(path))
    assert run.name == name and run.tuning.adapter is not None and run.tuning.adapter.parts == ("llm",)


def test_runs_without_adapters_do_not_wait_for_peft() -> None:
    import subprocess

    code = "import sys; import actdeny_train.training.train; sys.exit('peft' in sys.modules or 'bitsandbytes' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_new_adapters_lie_where_they_are_meant_to(fit: Fit, tiny_family: MakeFamily) -> None:
    family = tiny_family()
    fit(*LORA, "tuning.adapter.targets={llm: ['layers.-1:.self_attn.q_proj']}", "batch.num_steps=1", family=family)
    assert not list(adapted_layers(family)), "merged at the end"
    plain = dict(tiny_family().named_parameters())
    changed = {n for n, p in family.named_parameters() if not torch.equal(p, plain[n]) and ".merger." not in n}
    assert changed == {"model.model.language_model.layers.1.self_attn.q_proj.weight"}
