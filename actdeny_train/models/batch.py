"""Clips and questions -> one forest with its visual inputs: the batch of training and of evaluation alike."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from actdeny_train.models.family import Processor, Visual
from actdeny_train.trees import Forest, PromptTree
from actdeny_train.types import Frames, Question


@dataclass(frozen=True, eq=False)
class Asked:
    """A clip's frames (of several clips, for questions about several) and the questions about them.

    ``choices[q]`` are the answers of question q that become leaves: the target alone in training, all of them for scoring.
    """

    frames: tuple[Frames, ...]
    questions: tuple[Question, ...]
    choices: tuple[tuple[int, ...], ...]

    @classmethod
    def for_training(cls, frames: Sequence[Frames], questions: Sequence[Question]) -> "Asked":
        """One leaf a question: its right answer."""
        return cls(tuple(frames), tuple(questions), tuple((q.target,) for q in questions))

    @classmethod
    def for_scoring(cls, frames: Sequence[Frames], questions: Sequence[Question]) -> "Asked":
        """One leaf for every choice of every question."""
        return cls(tuple(frames), tuple(questions), tuple(tuple(range(len(q.answers))) for q in questions))


@dataclass(frozen=True, eq=False)
class Batch:
    """One forest, what the encoder needs for it, and its questions (``forest.leaf_question`` indexes them)."""

    forest: Forest
    visual: Visual
    questions: tuple[Question, ...]

    @classmethod
    def of(cls, processor: Processor, asked: Sequence[Asked]) -> "Batch":
        """Tokenise every leaf whole, merge each clip's sequences into a tree, and plant the trees side by side."""
        trees: list[PromptTree] = []
        joined: list[Visual] = []
        questions: list[Question] = []
        for one in asked:
            visuals = [processor.visual(frames) for frames in one.frames]
            sequences = [
                processor.sequence(visuals, q.text, q.answers[choice], question=len(questions) + i, choice=choice)
                for i, (q, choices) in enumerate(zip(one.questions, one.choices, strict=True))
                for choice in choices
            ]
            trees.append(PromptTree.merge(sequences))
            joined.append(Visual.join(visuals))
            questions += one.questions
        return cls(Forest.plant(trees, [v.num_tokens for v in joined]), Visual.join(joined), tuple(questions))

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on another device."""
        return dataclasses.replace(self, forest=self.forest.to(device), visual=self.visual.to(device))
