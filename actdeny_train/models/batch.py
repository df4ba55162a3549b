"""Clips and questions -> one forest with its visual inputs: the batch of training and of evaluation alike."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from actdeny_train.models.family import Processor, Visual
from actdeny_train.trees import Forest, PromptTree, TokenSequence
from actdeny_train.types import Frames, Question


@dataclass(frozen=True, eq=False)
class Asked:
    """A clip's frames (of several clips, for questions about several; of none, for questions to the blind) and the questions.

    ``choices[q]`` are the answers of question q that become leaves: the target alone in training, all of them for scoring.
    ``clip_ids`` are those of the frames where questions show the clips in the order of their own ``clip_ids``; else all questions
    show them in the order of the frames.
    """

    frames: tuple[Frames, ...]
    questions: tuple[Question, ...]
    choices: tuple[tuple[int, ...], ...]
    clip_ids: tuple[str, ...] = ()

    @classmethod
    def for_training(
        cls, frames: Sequence[Frames], questions: Sequence[Question], clip_ids: Sequence[str] = ()
    ) -> "Asked":
        """One leaf a question: its right answer."""
        return cls(tuple(frames), tuple(questions), tuple((q.target,) for q in questions), tuple(clip_ids))

    @classmethod
    def for_scoring(
        cls, frames: Sequence[Frames], questions: Sequence[Question], clip_ids: Sequence[str] = ()
    ) -> "Asked":
        """One leaf for every choice of every question."""
        choices = tuple(tuple(range(len(q.answers))) for q in questions)
        return cls(tuple(frames), tuple(questions), choices, tuple(clip_ids))


@dataclass(frozen=True, eq=False)
class AskedTree:
    """One clip and its questions as a tree. ``num_tokens_alone`` counts the tokens of its sequences, one at a time."""

    tree: PromptTree
    visual: Visual
    questions: tuple[Question, ...]
    num_tokens_alone: int

    @classmethod
    def of(cls, processor: Processor, asked: Asked) -> "AskedTree":
        """Tokenise every leaf whole and merge the sequences."""
        visuals = [processor.visual(frames) for frames in asked.frames]
        sequences = []
        for i, (q, choices) in enumerate(zip(asked.questions, asked.choices, strict=True)):
            order = [asked.clip_ids.index(clip) for clip in q.clip_ids] if asked.clip_ids else range(len(visuals))
            shown, places = [visuals[clip] for clip in order], q.clip_places if visuals else ()
            for choice in choices:
                made = processor.sequence(shown, q.text, q.answers[choice], question=i, choice=choice, places=places)
                sequences.append(_refer(made, visuals, order))
        num_alone = sum(len(sequence.ids) for sequence in sequences)
        return cls(PromptTree.merge(sequences), Visual.join(visuals), asked.questions, num_alone)


def _refer(sequence: TokenSequence, visuals: Sequence[Visual], order: Sequence[int]) -> TokenSequence:
    """Return a sequence that shows ``visuals`` in ``order``, its visual places counted in their own order instead."""
    starts = np.concatenate(([0], np.cumsum([visual.num_tokens for visual in visuals])))
    table = np.concatenate([[-1], *(np.arange(starts[i], starts[i + 1]) for i in order)])
    return dataclasses.replace(sequence, visual=table[sequence.visual + 1])


@dataclass(frozen=True, eq=False)
class Batch:
    """One forest, what the encoder needs for it, and its questions (``forest.leaf_question`` indexes them)."""

    forest: Forest
    visual: Visual
    questions: tuple[Question, ...]
    num_tokens_alone: int = 0
    """Tokens of the forest's sequences, one at a time."""

    @classmethod
    def of(cls, processor: Processor, asked: Sequence[Asked]) -> "Batch":
        """Make a tree of each clip and plant the trees side by side."""
        return cls.plant([AskedTree.of(processor, one) for one in asked])

    @classmethod
    def plant(cls, asked: Sequence[AskedTree]) -> "Batch":
        """Plant trees side by side."""
        trees: list[PromptTree] = []
        questions: list[Question] = []
        for one in asked:
            leaves = (dataclasses.replace(leaf, question=leaf.question + len(questions)) for leaf in one.tree.leaves)
            trees.append(dataclasses.replace(one.tree, leaves=tuple(leaves)))
            questions += one.questions
        return cls(
            Forest.plant(trees, [one.visual.num_tokens for one in asked]),
            Visual.join([one.visual for one in asked]),
            tuple(questions),
            sum(one.num_tokens_alone for one in asked),
        )

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on another device."""
        return dataclasses.replace(self, forest=self.forest.to(device), visual=self.visual.to(device))


def pack(trees: Sequence[AskedTree], max_tokens: int) -> Iterator[list[AskedTree]]:
    """Yield the trees in groups of at most ``max_tokens`` tokens, in their order; a larger tree is a group of its own."""
    group: list[AskedTree] = []
    num_tokens = 0
    for tree in trees:
        if group and num_tokens + len(tree.tree) > max_tokens:
            yield group
            group, num_tokens = [], 0
        group.append(tree)
        num_tokens += len(tree.tree)
    if group:
        yield group
