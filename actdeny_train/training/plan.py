"""Which clips, with which of their questions, make which step: decided before step 0 from the seed alone.

Every process computes the same plan and takes its own share, so a resumed run, or one on other devices, sees the same steps.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch.utils.data import Sampler

from actdeny_train.draw import Draw
from actdeny_train.training.run import BatchSettings
from actdeny_train.types import Clip


@dataclass(frozen=True)
class Turn:
    """One clip's turn in a step: the clip, the indices of the questions asked, and their weight in the loss.

    Weight 0 stands where a device has no clip left in a step: it repeats one so that all devices compute alike.
    """

    clip: Clip
    questions: range
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Plan:
    """All steps of a run over ``clips``."""

    clips: Sequence[Clip]
    settings: BatchSettings
    seed: int

    @property
    def num_steps(self) -> int:
        """How many optimiser steps the run has."""
        if self.settings.num_steps is not None:
            return self.settings.num_steps
        assert self.settings.num_epochs is not None
        return -(-len(self.clips) * self.settings.num_epochs // self.settings.clips_per_step)

    def step(self, number: int) -> list[Turn]:
        """Return the turns of step ``number`` (0-based). Epochs follow each other without a gap; the last step may be short."""
        first = number * self.settings.clips_per_step
        end = first + self.settings.clips_per_step
        if self.settings.num_epochs is not None:
            end = min(end, len(self.clips) * self.settings.num_epochs)
        return [self._turn(place) for place in range(first, end)]

    def micro_batches(self, number: int, rank: int = 0, world_size: int = 1) -> list[list[Turn]]:
        """Return one process's turns of a step, cut into forests; every process gets the same number of forests."""
        turns = self.step(number)
        size = self.settings.clips_per_micro_batch
        share = -(-len(turns) // world_size)
        mine = turns[rank * share : (rank + 1) * share]
        mine += [Turn(turns[0].clip, turns[0].questions, weight=0.0)] * (share - len(mine))
        return [mine[i : i + size] for i in range(0, share, size)]

    def _turn(self, place: int) -> Turn:
        epoch, i = divmod(place, len(self.clips))
        order = _order(self.seed, epoch, len(self.clips))
        count = self.settings.questions_per_clip
        begin = epoch * count if self.settings.new_questions_each_epoch else 0
        return Turn(self.clips[order[i]], range(begin, begin + count))


@functools.lru_cache(maxsize=2)
def _order(seed: int, epoch: int, num_clips: int) -> list[int]:
    return Draw(seed, "order of clips", epoch).shuffle(range(num_clips))


class StepSampler(Sampler[int]):
    """Step numbers from ``start`` on. Its length counts all steps, since Lightning continues its own count after a resume."""

    def __init__(self, num_steps: int, start: int) -> None:
        self.num_steps = num_steps
        self.start = start

    def __len__(self) -> int:
        return self.num_steps

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.num_steps))
