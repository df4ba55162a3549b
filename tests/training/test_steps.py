"""Steps made in the data workers: the plan's clips, the source's questions, the same bytes in any process."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from actdeny_train.datasets.reader import ClipReader
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.questions.mixture import Mixture
from actdeny_train.training.plan import Plan
from actdeny_train.training.run import TrainRun
from actdeny_train.training.steps import Step, StepDataset


@pytest.fixture
def make_dataset(
    make_run: Callable[..., tuple[TrainRun, dict[str, Any]]], tiny_family: Callable[..., Qwen25VL]
) -> Callable[..., StepDataset]:
    """Make the steps of ``train_config`` with overrides: ``make_dataset("seed=1", rank=1, world_size=2)``."""

    def make(*overrides: str, **ranks: int) -> StepDataset:
        run, _ = make_run(*overrides)
        data = run.data.build()
        plan = Plan(data.usable("train"), run.batch, run.seed)
        read = ClipReader(data, run.frames)
        return StepDataset(plan, read, tiny_family().processor, Mixture(run.questions), data.labels, **ranks)

    return make


def tensors(step: Step) -> list[torch.Tensor]:
    """Return all tensors of a step."""
    found: list[torch.Tensor] = []
    for batch in step.batches:
        values = [getattr(batch.forest, field.name) for field in dataclasses.fields(batch.forest)]
        found += [v for v in (*values, *batch.visual.inputs.values()) if isinstance(v, torch.Tensor)]
    return found


def test_a_step_asks_the_plans_clips_the_sources_questions(make_dataset: Callable[..., StepDataset]) -> None:
    dataset = make_dataset("batch.clips_per_micro_batch=3", "batch.num_steps=4", "seed=5")
    assert len(dataset) == 4
    step = dataset[3]
    turns = dataset.plan.step(3)
    assert step.number == 3 and [len(batch.questions) for batch in step.batches] == [9, 3]
    assert any(turn.questions == range(6, 9) for turn in turns), (
        "the third epoch asks each clip's third set of questions"
    )
    expected = [
        dataset.source.ask(turn.clip, dataset.labels, seed=5, index=index) for turn in turns for index in turn.questions
    ]
    assert [question for batch in step.batches for question in batch.questions] == expected
    assert step.weights == ((1.0,) * 9, (1.0,) * 3)
    for batch in step.batches:
        targets = [q.target for q in batch.questions]
        assert batch.forest.leaf_question.tolist() == list(range(len(targets)))
        assert batch.forest.leaf_choice.tolist() == targets, "one leaf a question: its right answer"


def test_a_repeated_clip_weighs_nothing(make_dataset: Callable[..., StepDataset]) -> None:
    first, second = (make_dataset("batch.clips_per_step=3", rank=rank, world_size=2)[0] for rank in (0, 1))
    assert first.weights == ((1.0,) * 6,)
    assert second.weights == ((1.0,) * 3 + (0.0,) * 3,)
    assert second.batches[0].questions[3:] == first.batches[0].questions[:3]


def test_steps_are_the_same_in_a_worker_process(make_dataset: Callable[..., StepDataset]) -> None:
    dataset = make_dataset("batch.num_steps=2")
    for ours, theirs in zip([dataset[0], dataset[1]], DataLoader(dataset, batch_size=None, num_workers=1), strict=True):
        assert theirs.number == ours.number and theirs.weights == ours.weights
        torch.testing.assert_close(tensors(theirs), tensors(ours), rtol=0, atol=0)


def test_a_step_moves_to_another_device_as_a_whole(make_dataset: Callable[..., StepDataset]) -> None:
    step = make_dataset()[0]
    moved = step.to("meta")
    assert {tensor.device.type for tensor in tensors(moved)} == {"meta"} and len(tensors(moved)) == len(tensors(step))
    assert {tensor.device.type for tensor in tensors(step)} == {"cpu"} and moved.weights == step.weights
