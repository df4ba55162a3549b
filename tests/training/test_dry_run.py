"""The plan of a training, checked against counts that do not come from the plan."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.datasets.reader import ClipReader
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.questions.mixture import Mixture
from actdeny_train.training.dry_run import dry_run
from actdeny_train.training.plan import Plan
from actdeny_train.training.run import TrainRun

MakeRun = Callable[..., tuple[TrainRun, dict[str, Any]]]


def snapshot(*folders: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for folder in folders for file in folder.rglob("*")}


def test_parts_with_their_parameters_and_rates(make_run: MakeRun, tiny_family: Callable[..., Qwen25VL]) -> None:
    run, _ = make_run("optimizer.lr={llm: 3e-4}")
    text = "\n".join(dry_run(run))
    counts = {"vision": [0, 0], "projector": [0, 0], "llm": [0, 0]}
    for name, parameter in tiny_family().model.named_parameters():
        part = "projector" if ".merger." in name else "vision" if "visual" in name else "llm"
        counts[part][0] += parameter.numel()
        counts[part][1] += 1
    for part, rate in {"vision": "0.001", "projector": "0.001", "llm": "0.0003"}.items():
        number, tensors = counts[part]
        assert re.search(
            rf"{part} +{number:,} parameters in {tensors} tensors, learning rate {rate}$", text, re.MULTILINE
        )
    optimizer = "{_target_: actdeny_train.training.run.OptimizerSettings, lr: {projector: 1e-5}}"
    text = "\n".join(dry_run(make_run(f"optimizer={optimizer}")[0]))
    assert re.search(r"vision .*, frozen$", text, re.MULTILINE) and re.search(r"llm .*, frozen$", text, re.MULTILINE)
    assert re.search(r"projector .*, learning rate 1e-05$", text, re.MULTILINE)


def test_the_sample_and_the_tokens_are_those_of_the_first_forest(
    make_run: MakeRun, tiny_family: Callable[..., Qwen25VL]
) -> None:
    run, _ = make_run("batch.questions_per_clip=5")
    text = "\n".join(dry_run(run))
    data, processor = run.data.build(), tiny_family().processor
    assert "data: 6 train clips of 2 sources, 0 quarantined; 6 steps of 4 clips x 5 questions" in text
    sequences, num_visual = [], 0
    for turn in Plan(data.usable("train"), run.batch, run.seed).step(0)[:2]:
        visual = processor.visual(ClipReader(data, run.frames)(turn.clip))
        num_visual += visual.num_tokens
        for index in range(5):
            question = Mixture(run.questions).ask(turn.clip, data.labels, seed=run.seed, index=index)
            answer = question.answers[question.target]
            sequences.append(processor.sequence([visual], question.text, answer, question=0, choice=0))
            if len(sequences) == 1:
                trained, length = len(sequences[0].ids) - sequences[0].answer_start, len(sequences[0].ids)
                assert f"sample: question {question.id!r}" in text
                assert f"  trained tokens: {answer + '<|im_end|>'!r} ({trained} of {length})" in text
                for line in question.text.splitlines():
                    assert f"{line}" in text
                assert "  | <|im_start|>assistant" in text, "the prompt as the model sees it"
    alone = sum(len(sequence.ids) for sequence in sequences)
    answers = sum(len(sequence.ids) - sequence.answer_start for sequence in sequences)
    found = re.search(
        r"forest: ([\d,]+) \((\d+) visual, (\d+) trained\); one question a sequence would take ([\d,]+)", text
    )
    assert found is not None
    assert found[2] == str(num_visual) and found[3] == str(answers) and found[4] == f"{alone:,}"
    assert num_visual < int(found[1].replace(",", "")) < alone


@pytest.mark.parametrize(("dtype", "num_bytes"), [("float32", 4), ("bfloat16", 2)])
def test_the_memory_plan_adds_up(
    make_run: MakeRun, tiny_family: Callable[..., Qwen25VL], dtype: str, num_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actdeny_train.training.dry_run.GIB", 1)  # bytes: a tiny model is 0.00 GiB
    optimizer = "{_target_: actdeny_train.training.run.OptimizerSettings, lr: {llm: 1e-5}}"
    run, _ = make_run(f"model.dtype={dtype}", f"optimizer={optimizer}", "hardware.checkpoint_gradients=true")
    text = list(dry_run(run))[-1]
    family = tiny_family()
    total = num_bytes * sum(p.numel() for p in family.parameters())
    llm = num_bytes * sum(p.numel() for _, p in family.part_parameters()["llm"])
    assert f"weights {total:.2f} GiB, gradients {llm:.2f}, AdamW moments {2 * llm:.2f}," in text
    rows, logits = re.search(r"logits of (\d+) predicting rows (\d+)\.000", text).groups()  # type: ignore[union-attr]
    assert int(logits) == int(rows) * family.model.lm_head.out_features * 4
    assert text.endswith("(recomputed layer by layer)")


def test_nothing_is_written(make_run: MakeRun, tiny_folder: Path, small_clips: Path, tmp_path: Path) -> None:
    run, _ = make_run()
    run.data.build().usable("train")  # verified once, and remembered
    before = snapshot(tmp_path, tiny_folder, small_clips)
    assert list(dry_run(run))
    assert snapshot(tmp_path, tiny_folder, small_clips) == before


def test_the_memory_plan_counts_what_bfloat16_adamw_and_the_inputs_take(
    make_run: MakeRun, tiny_family: Callable[..., Qwen25VL], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actdeny_train.training.dry_run.GIB", 1)
    optimizer = "{_target_: actdeny_train.training.run.OptimizerSettings, lr: {projector: 1e-5, llm: 1e-5}}"
    run, _ = make_run(f"optimizer={optimizer}", "hardware.precision=bfloat16")
    *_, disk, memory = dry_run(run)
    family = tiny_family()
    parts = family.part_parameters()
    total = sum(p.numel() for p in family.parameters())
    trained = sum(p.numel() for part in ("projector", "llm") for _, p in parts[part])
    largest = sum(p.numel() for _, p in parts["llm"] if p.ndim > 1)
    data = run.data.build()
    inputs = 0
    for turn in Plan(data.usable("train"), run.batch, run.seed).step(0):
        visual = family.processor.visual(ClipReader(data, run.frames)(turn.clip)).inputs
        inputs += 4 * visual["pixel_values_videos"].numel() + 8 * visual["video_grid_thw"].numel()
    assert (
        f"bfloat16 copies {2 * trained:.2f}, AdamW at work {4 * largest:.2f}, inputs of a step {inputs:.2f}" in memory
    )
    assert f", together {4 * total + 14 * trained + 4 * largest + inputs:.2f};" in memory
    assert disk.startswith(f"last.ckpt: {4 * total + 8 * trained:.2f} GiB on the disk")
    *_, memory = dry_run(make_run(f"optimizer={optimizer}")[0])
    assert "bfloat16 copies 0.00" in memory


def test_weights_that_training_refuses_are_told_beforehand(make_run: MakeRun) -> None:
    lines = list(dry_run(make_run("model.dtype=bfloat16", "optimizer.lr={llm: 1e-5}")[0]))
    assert any(line.startswith("training will refuse this model: The weights of ") for line in lines)
    assert not any("refuse" in line for line in dry_run(make_run()[0]))
