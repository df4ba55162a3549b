"""From an answer to a prediction: the choice it implies, and the fingerprints of all that it rests on."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence

from actdeny_train.evaluation.bare import is_bare
from actdeny_train.evaluation.parsing import parse
from actdeny_train.evaluation.scoring import Answer
from actdeny_train.types import ClipGroup, Frames, ParseStatus, Prediction, Question


def predict(
    question: Question, answer: Answer, group: ClipGroup, frames: Sequence[Frames], fingerprints: Mapping[str, str]
) -> Prediction:
    """Return the prediction of an answer.

    Of a response, the choice is what the parser finds in it; of scores alone, the answer with the highest log-probability, the
    first of equals. A score that is not finite is an error of the model, not a wrong answer: status ``error``, no choice, no
    log-probabilities. ``frames`` has those of each of the question's clips, none for a model that was shown none; ``fingerprints``
    are those of model and video.
    """
    finite = all(math.isfinite(value) for value in answer.logprobs)
    choice: int | None
    if not finite:
        choice, status = None, ParseStatus.ERROR
    elif answer.text is not None:
        parsed = parse(answer.text, question, finished=answer.finished)
        choice, status = parsed.choice, parsed.status
    else:
        choice, status = max(range(len(answer.logprobs)), key=lambda i: answer.logprobs[i]), ParseStatus.OK
    seen = {"frames": " ".join(map(frames_fingerprint, frames))} if frames else {}
    return Prediction(
        question_id=question.id,
        clip_ids=question.clip_ids,
        action=group.action,
        source=group.source,
        setup=question.setup,
        prompt=question.prompt,
        kind=question.kind,
        group=question.group,
        target=question.target,
        choice=choice,
        status=status,
        num_choices=len(question.choices),
        primary_distractor=question.primary_distractor,
        none_choice=question.none_choice,
        permutation=question.permutation,
        rotation_of=question.rotation_of,
        logprobs=answer.logprobs if finite else (),
        text=answer.text,
        bare=None if answer.text is None else is_bare(answer.text, question.answers),
        frame_indices=tuple(int(i) for one in frames for i in one.indices),
        frame_times_s=tuple(float(t) for one in frames for t in one.time_s),
        frames_per_clip=tuple(len(one.indices) for one in frames) if len(frames) > 1 else (),
        fingerprints={**fingerprints, "question": question_fingerprint(question), **seen},
    )


def question_fingerprint(question: Question) -> str:
    """Return a short hash of what is asked: text, answers, choices and target; of clips inside the text, their places and order."""
    parts: list[object] = [question.text, question.answers, question.choices, question.target]
    if question.clip_places:
        parts += [question.clip_places, question.clip_ids]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]


def frames_fingerprint(frames: Frames) -> str:
    """Return a short hash of the pixels and times that the model saw."""
    digest = hashlib.sha256(frames.pixels.tobytes())
    digest.update(frames.time_s.tobytes())
    return digest.hexdigest()[:16]
