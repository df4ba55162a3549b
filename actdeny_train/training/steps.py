"""A step of the plan -> its forests, made in the data workers: decode, ask, tokenise, merge."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset

from actdeny_train.actions.labels import LabelSet
from actdeny_train.models.batch import Asked, Batch
from actdeny_train.models.family import Processor
from actdeny_train.questions.source import QuestionSource
from actdeny_train.training.plan import Plan, Turn
from actdeny_train.types import Clip, Frames


@dataclass(frozen=True, eq=False)
class Step:
    """The forests of one process in one optimiser step. ``weights`` has one number a question, forest by forest."""

    number: int
    batches: tuple[Batch, ...]
    weights: tuple[tuple[float, ...], ...]

    def to(self, device: torch.device | str) -> "Step":
        """Return the step on another device (Lightning calls this)."""
        return dataclasses.replace(self, batches=tuple(batch.to(device) for batch in self.batches))


@dataclass(frozen=True, eq=False)
class StepDataset(Dataset[Step]):
    """Maps a step's number to its forests. Holds nothing but settings, so it pickles into workers."""

    plan: Plan
    read_frames: Callable[[Clip], Frames]
    processor: Processor
    source: QuestionSource
    labels: LabelSet
    rank: int = 0
    world_size: int = 1

    def __len__(self) -> int:
        return self.plan.num_steps

    def __getitem__(self, number: int) -> Step:
        micro_batches = self.plan.micro_batches(number, self.rank, self.world_size)
        batches = tuple(Batch.of(self.processor, [self._ask(turn) for turn in turns]) for turns in micro_batches)
        weights = tuple(tuple(turn.weight for turn in turns for _ in turn.questions) for turns in micro_batches)
        return Step(number, batches, weights)

    def _ask(self, turn: Turn) -> Asked:
        questions = [
            self.source.ask(turn.clip, self.labels, seed=self.plan.seed, index=index) for index in turn.questions
        ]
        return Asked.for_training([self.read_frames(turn.clip)], questions)
