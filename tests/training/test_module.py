"""One training step: its loss and gradient against transformers' own model, one question a sequence; what trains and what stops it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import pytest
import torch
from lightning import Callback
from safetensors.torch import load_file
from torch import Tensor

from actdeny_train.datasets.reader import ClipReader
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.models.tuning import train_only
from actdeny_train.questions.mixture import Mixture
from actdeny_train.training.module import TrainingError
from actdeny_train.training.plan import Plan
from actdeny_train.training.run import TrainRun

ONE_STEP = ("batch.num_steps=1", "batch.questions_per_clip=14", "optimizer.clip_norm=null")

MakeRun = Callable[..., tuple[TrainRun, dict[str, Any]]]


class Watch(Callback):
    """Keeps the weights before each step, and the gradients and logged values after it."""

    def __init__(self) -> None:
        self.weights: list[dict[str, Tensor]] = []
        self.gradients: list[dict[str, Tensor]] = []
        self.logged: list[dict[str, float]] = []

    def on_train_batch_start(self, trainer: lightning.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self.weights.append({name: p.detach().clone() for name, p in pl_module.family.named_parameters()})

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        named = pl_module.family.named_parameters()
        self.gradients.append({name: p.grad.clone() for name, p in named if p.grad is not None})
        self.logged.append({name: float(value) for name, value in trainer.callback_metrics.items()})


@pytest.fixture(scope="module")
def references() -> dict[str, Any]:
    """What ``reference`` has computed."""
    return {}


@pytest.fixture
def reference(
    make_run: MakeRun,
    tiny_family: Callable[..., Qwen25VL],
    alone: Callable[..., Tensor],
    references: dict[str, Any],
) -> tuple[float, dict[str, Tensor]]:
    """Loss and gradient of the first step by transformers' own model, one question a sequence: the mean over all answer tokens."""
    if not references:
        run, _ = make_run(*ONE_STEP)
        data = run.data.build()
        read, source, family = ClipReader(data, run.frames), Mixture(run.questions), tiny_family()
        logprobs = []
        for turn in Plan(data.usable("train"), run.batch, run.seed).step(0):
            visual = family.processor.visual(read(turn.clip))
            for index in range(14):
                question = source.ask(turn.clip, data.labels, seed=run.seed, index=index)
                answer = question.answers[question.target]
                sequence = family.processor.sequence([visual], question.text, answer, question=0, choice=0)
                logprobs.append(alone(family.model, sequence, [visual]))
        lengths = [len(one) for one in logprobs]
        assert len(lengths) == 4 * 14 and max(lengths) >= 5 * min(lengths), "the law needs answers of different lengths"
        loss = -torch.cat(logprobs).mean()
        loss.backward()
        references["loss"] = float(loss.detach())
        references["gradient"] = gradients_of(family)
    return references["loss"], references["gradient"]


def gradients_of(family: Qwen25VL) -> dict[str, Tensor]:
    return {name: p.grad for name, p in family.named_parameters() if p.grad is not None}


def largest_difference(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """Return the largest difference of two gradients, relative to the largest entry."""
    assert a.keys() == b.keys()
    scale = max(float(value.abs().max()) for value in b.values())
    return max(float((a[name] - b[name]).abs().max()) for name in b) / scale


@pytest.mark.parametrize("clips_per_micro_batch", [1, 2, 3, 4])
def test_loss_and_gradient_do_not_depend_on_how_a_step_is_cut(
    fit: Callable[..., Path], reference: tuple[float, dict[str, Tensor]], clips_per_micro_batch: int
) -> None:
    watch = Watch()
    fit(*ONE_STEP, f"batch.clips_per_micro_batch={clips_per_micro_batch}", callbacks=[watch])
    loss, gradient = reference
    assert watch.logged[0]["loss"] == pytest.approx(loss, rel=1e-6)
    assert largest_difference(watch.gradients[0], gradient) < 1e-5
    norm = torch.cat([g.flatten() for g in gradient.values()]).norm()
    assert watch.logged[0]["gradient_norm"] == pytest.approx(float(norm), rel=1e-5)


def test_recomputed_activations_give_the_same_gradient(
    fit: Callable[..., Path], reference: tuple[float, dict[str, Tensor]]
) -> None:
    watch = Watch()
    fit(*ONE_STEP, "hardware.checkpoint_gradients=true", callbacks=[watch])
    assert watch.logged[0]["loss"] == pytest.approx(reference[0], rel=1e-6)
    assert largest_difference(watch.gradients[0], reference[1]) < 1e-5


def test_bfloat16_computes_near_float32_on_float32_weights(
    fit: Callable[..., Path], reference: tuple[float, dict[str, Tensor]]
) -> None:
    watch = Watch()
    model = fit(*ONE_STEP, "hardware.precision=bfloat16", callbacks=[watch])
    assert watch.logged[0]["loss"] == pytest.approx(reference[0], rel=1e-2)
    assert 1e-5 < largest_difference(watch.gradients[0], reference[1]) < 0.1
    assert {weight.dtype for weight in load_file(model / "model.safetensors").values()} == {torch.float32}


def test_a_step_is_adamw_with_each_parts_rate_and_without_decay_of_norms_and_biases(fit: Callable[..., Path]) -> None:
    watch = Watch()
    rates = {"vision": 1e-2, "projector": 2e-2, "llm": 3e-2}
    overrides = [f"optimizer.lr.{part}={rate}" for part, rate in rates.items()]
    fit("batch.num_steps=2", "optimizer.eps=1.0", "optimizer.weight_decay=0.5", *overrides, callbacks=[watch])
    before, after = watch.weights
    for name, gradient in watch.gradients[0].items():
        part = "projector" if ".merger." in name else "vision" if ".visual." in name else "llm"
        decay = 0.5 if gradient.ndim > 1 else 0.0
        rate = rates[part]  # the warm-up is one step long
        expected = before[name] * (1 - rate * decay) - rate * gradient / (gradient.abs() + 1.0)
        torch.testing.assert_close(after[name], expected, rtol=1e-6, atol=1e-8)
    assert {part: watch.logged[0][f"lr/{part}"] for part in rates} == pytest.approx(rates)


def test_the_gradient_is_clipped_as_a_whole_and_logged_before(fit: Callable[..., Path]) -> None:
    watch = Watch()
    fit("batch.num_steps=1", "optimizer.clip_norm=0.25", callbacks=[watch])
    norm = torch.cat([g.flatten() for g in watch.gradients[0].values()]).norm()
    assert float(norm) == pytest.approx(0.25, rel=1e-4) and watch.logged[0]["gradient_norm"] > 0.5


@pytest.mark.parametrize(
    "precision", ["float32", "bfloat16"]
)  # autocast keeps copies of weights it first met in no_grad
@pytest.mark.parametrize("trained", [("llm",), ("projector",), ("vision",), ("projector", "llm"), ("vision", "llm")])
def test_frozen_parts_keep_every_bit_and_trained_ones_change(
    fit: Callable[..., Path], tiny_family: Callable[..., Qwen25VL], trained: tuple[str, ...], precision: str
) -> None:
    before = {name: p.detach().clone() for name, p in tiny_family().named_parameters()}
    family = tiny_family()
    lr = ", ".join(f"{part}: 1e-2" for part in trained)
    fit(
        "batch.num_steps=2",
        f"optimizer={{_target_: actdeny_train.training.run.OptimizerSettings, lr: {{{lr}}}}}",
        "hardware.checkpoint_gradients=true",
        f"hardware.precision={precision}",
        family=family,
    )
    for part, named in family.part_parameters().items():
        changed = [name for name, p in named if not torch.equal(p, before[name])]
        assert bool(changed) == (part in trained), part
        if part in trained:
            assert len(changed) > 0.8 * len(named)
        else:
            assert not any(p.requires_grad or p.grad is not None for _, p in named)


def test_a_trained_part_that_no_gradient_reaches_stops_the_run(
    fit: Callable[..., Path], tiny_family: Callable[..., Qwen25VL], monkeypatch: pytest.MonkeyPatch
) -> None:
    family = tiny_family()
    encode = family.encode
    monkeypatch.setattr(family, "encode", lambda visual: encode(visual).detach())
    with pytest.raises(TrainingError) as caught:
        fit(family=family)
    assert str(caught.value) == (
        "No gradient reaches vision, projector in the first step, so training would leave it as it is. Freeze it (leave out "
        "optimizer.lr.vision) or mend the model."
    )


def test_a_loss_that_is_not_finite_names_its_clip_and_keeps_the_last_state(
    fit: Callable[..., Path],
    make_run: MakeRun,
    tiny_family: Callable[..., Qwen25VL],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    run, _ = make_run()
    data = run.data.build()
    plan = Plan(data.usable("train"), run.batch, run.seed)
    seen = {turn.clip.id for turn in plan.step(0)}
    clip = next(turn.clip for turn in plan.step(1) if turn.clip.id not in seen)
    poisoned = ClipReader(data, run.frames)(clip).pixels
    family = tiny_family()
    visual = family.processor.visual

    def spoil(frames: Any) -> Any:
        made = visual(frames)
        if np.array_equal(frames.pixels, poisoned):
            made.inputs["pixel_values_videos"][3, 5] = torch.inf
        return made

    monkeypatch.setattr(family.processor, "visual", spoil)
    settings = ("output.save_every_steps=1", "batch.clips_per_micro_batch=4")
    with pytest.raises(TrainingError) as caught:
        fit(*settings, family=family)
    assert str(caught.value) == (
        f"The loss of step 1 is nan: it comes from 1 clip ({clip.id}), first question '{clip.id}|graph_vqa:full|0'. "
        "The last saved state is untouched. Look at these clips; if they are sound, lower the learning rates or use "
        "hardware.precision=float32."
    )
    saved = torch.load(tmp_path / "checkpoints" / "run" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 1
    assert all(bool(torch.isfinite(weight).all()) for weight in saved["state_dict"].values())
    assert fit(*settings, resume=True).is_dir(), "with a sound clip the run goes on"


def test_a_gradient_that_is_not_finite_changes_no_weight(
    fit: Callable[..., Path], tiny_family: Callable[..., Qwen25VL]
) -> None:
    family = tiny_family()
    train_only(family, ["llm"])
    before = {name: p.detach().clone() for name, p in family.named_parameters()}
    spoiled = family.part_parameters()["llm"][3][1]
    spoiled.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(TrainingError, match=r"^The gradient of step 0 is (nan|inf): it comes from 4 clips \("):
        fit(family=family)
    assert all(torch.equal(p, before[name]) for name, p in family.named_parameters())
