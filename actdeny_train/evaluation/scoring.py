"""Scoring: the log-probability of every complete answer of every question of a forest, and the choice it implies."""

import hashlib
import json
from collections.abc import Mapping, Sequence

import torch

from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.models.heads import LanguageHead
from actdeny_train.types import Clip, Frames, ParseStatus, Prediction, Question


def score(family: Family, batch: Batch) -> list[tuple[float, ...]]:
    """Return for each question the log-probability (nats, end of turn included) of each of its answers, in their order.

    A plain sum over the answer's tokens, never divided by its length: with the end of turn, it is the probability that the model
    gives exactly this answer, so "1" and "11" are compared fairly. Where answers are whole phrases, long ones are less likely.
    """
    head = LanguageHead()
    with torch.no_grad():
        hidden = family(batch.forest, family.encode(batch.visual))
        leaves = head.leaf_logprobs(batch.forest, head.token_logprobs(family, batch.forest, hidden))
    scores: list[list[float]] = [[0.0] * len(q.answers) for q in batch.questions]
    for question, choice, value in zip(
        batch.forest.leaf_question.tolist(), batch.forest.leaf_choice.tolist(), leaves.tolist(), strict=True
    ):
        scores[question][choice] = value
    return [tuple(s) for s in scores]


def predict(
    question: Question, logprobs: Sequence[float], clip: Clip, frames: Frames, fingerprints: Mapping[str, str]
) -> Prediction:
    """Return the prediction: the answer with the highest log-probability, the first of equals.

    A score that is not finite is an error of the model, not a wrong answer: status ``error``, no choice, no log-probabilities.
    """
    finite = all(torch.isfinite(torch.tensor(logprobs)).tolist())
    return Prediction(
        question_id=question.id,
        clip_ids=question.clip_ids,
        action=clip.action,
        source=clip.source,
        setup=question.setup,
        prompt=question.prompt,
        kind=question.kind,
        group=question.group,
        target=question.target,
        choice=max(range(len(logprobs)), key=lambda i: logprobs[i]) if finite else None,
        status=ParseStatus.OK if finite else ParseStatus.ERROR,
        num_choices=len(question.choices),
        primary_distractor=question.primary_distractor,
        none_choice=question.none_choice,
        permutation=question.permutation,
        logprobs=tuple(logprobs) if finite else (),
        frame_indices=tuple(int(i) for i in frames.indices),
        frame_times_s=tuple(float(t) for t in frames.time_s),
        fingerprints={**fingerprints, "question": question_fingerprint(question), "frames": frames_fingerprint(frames)},
    )


def question_fingerprint(question: Question) -> str:
    """Return a short hash of what is asked: text, answers, choices and target."""
    parts = [question.text, question.answers, question.choices, question.target]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]


def frames_fingerprint(frames: Frames) -> str:
    """Return a short hash of the pixels and times that the model saw."""
    digest = hashlib.sha256(frames.pixels.tobytes())
    digest.update(frames.time_s.tobytes())
    return digest.hexdigest()[:16]
