"""From answers to predictions: the choice that is meant, in any order; what is not finite is an error and never a wrong answer."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.evaluation.predictions import frames_fingerprint, predict, question_fingerprint
from actdeny_train.evaluation.scoring import Answer
from actdeny_train.questions.mcq import Standard
from actdeny_train.types import Clip, ClipGroup, ClipKind, Frames, ParseStatus, Question

CLIP = Clip(id="c", path="-", action="Archery", kind=ClipKind.CONTEXT_ONLY, split="test", source="g01")
GROUP = ClipGroup.of(CLIP)
FRAMES = Frames(
    pixels=np.zeros((3, 4, 4, 3), dtype=np.uint8),
    time_s=np.array([0.0, 0.5, 1.25]),
    indices=np.array([2, 6, 15]),
    num_decoded=20,
    sampling="middle(3)",
)


def standard(clip: Clip = CLIP) -> Question:
    return Standard().ask(clip, load_ucf101(), seed=0)


def reordered(question: Question, order: list[int]) -> Question:
    """Return the question with its choices in another order: place i of the new one holds choice ``order[i]``."""
    where = {old: new for new, old in enumerate(order)}
    return dataclasses.replace(
        question,
        choices=tuple(question.choices[i] for i in order),
        target=where[question.target],
        primary_distractor=None if question.primary_distractor is None else where[question.primary_distractor],
        none_choice=None if question.none_choice is None else where[question.none_choice],
        permutation=tuple(question.permutation[i] for i in order),
    )


@given(st.permutations(range(11)), st.lists(st.floats(-50, 0), min_size=11, max_size=11, unique=True))
def test_a_prediction_names_the_same_choice_in_any_order(order: list[int], meanings: list[float]) -> None:
    """A model whose score depends on the choice alone chooses one and the same, and is right in both orders or in none."""
    question = standard()
    shuffled = reordered(question, order)
    first = predict(question, Answer(tuple(meanings)), GROUP, (FRAMES,), {})
    second = predict(shuffled, Answer(tuple(meanings[i] for i in order)), GROUP, (FRAMES,), {})
    assert first.choice is not None and second.choice is not None
    assert first.permutation[first.choice] == second.permutation[second.choice]
    assert question.choices[first.choice] == shuffled.choices[second.choice]
    assert first.is_right == second.is_right
    assert (first.choice == first.none_choice) == (second.choice == second.none_choice)
    assert (first.choice == first.primary_distractor) == (second.choice == second.primary_distractor)


@given(st.lists(st.sampled_from([-3.0, -2.0, -1.0]), min_size=11, max_size=11))
def test_the_first_of_equals_is_chosen(scores: list[float]) -> None:
    assert predict(standard(), Answer(tuple(scores)), GROUP, (FRAMES,), {}).choice == scores.index(max(scores))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [0, 5, 10])
def test_a_score_that_is_not_finite_is_an_error(value: float, place: int) -> None:
    scores = [-float(i) for i in range(11)]
    scores[place] = value
    made = predict(standard(), Answer(tuple(scores)), GROUP, (FRAMES,), {})
    assert (made.status, made.choice, made.logprobs, made.is_right) == (ParseStatus.ERROR, None, (), False)


def test_a_prediction_tells_all_that_metrics_need() -> None:
    question = standard()
    made = predict(
        question, Answer(tuple(-float(i) for i in range(11))), GROUP, (FRAMES,), {"weights": "w", "processor": "p"}
    )
    for name in ("clip_ids", "setup", "prompt", "kind", "group", "target", "primary_distractor", "none_choice"):
        assert getattr(made, name) == getattr(question, name)
    assert (made.question_id, made.action, made.source, made.num_choices) == (question.id, "Archery", "g01", 11)
    assert made.frame_indices == (2, 6, 15) and made.frame_times_s == (0.0, 0.5, 1.25)
    assert made.text is None
    assert made.fingerprints == {
        "weights": "w",
        "processor": "p",
        "question": question_fingerprint(question),
        "frames": frames_fingerprint(FRAMES),
    }


def test_a_questions_fingerprint_sees_what_is_asked_and_nothing_else() -> None:
    question = standard()
    same = dataclasses.replace(question, id="other", group="other", permutation=())
    assert question_fingerprint(same) == question_fingerprint(question)
    for change in (
        {"text": question.text + " "},
        {"choices": question.choices[::-1]},
        {"answers": question.answers[::-1]},
        {"target": (question.target + 1) % 11},
    ):
        assert question_fingerprint(dataclasses.replace(question, **change)) != question_fingerprint(question)  # type: ignore[arg-type]


def test_the_frames_fingerprint_sees_every_pixel_and_time() -> None:
    pixels = FRAMES.pixels.copy()
    pixels[2, 3, 3, 1] = 1
    for change in ({"pixels": pixels}, {"time_s": FRAMES.time_s + 1e-9}):
        assert frames_fingerprint(dataclasses.replace(FRAMES, **change)) != frames_fingerprint(FRAMES)  # type: ignore[arg-type]
    assert frames_fingerprint(dataclasses.replace(FRAMES, pixels=FRAMES.pixels.copy())) == frames_fingerprint(FRAMES)


def test_a_response_is_parsed_and_kept_beside_the_scores() -> None:
    question = standard()
    scores = tuple(-float(i) for i in range(11))
    made = predict(question, Answer(scores, "Answer: 10", True), GROUP, (FRAMES,), {})
    assert (made.choice, made.status, made.text, made.logprobs) == (9, ParseStatus.OK, "Answer: 10", scores)
    for text, finished, status in (
        ("<think>It may be", True, ParseStatus.TRUNCATED),
        ("The video shows a", False, ParseStatus.TRUNCATED),
        ("12", True, ParseStatus.UNPARSED),
        ("I'm sorry, but I cannot view the video.", True, ParseStatus.REFUSAL),
    ):
        made = predict(question, Answer((), text, finished), GROUP, (FRAMES,), {})
        assert (made.choice, made.status, made.text, made.is_right) == (None, status, text, False)


def test_a_model_that_was_shown_nothing_has_no_frames() -> None:
    made = predict(standard(), Answer(text="1"), GROUP, (), {"weights": "w"})
    assert (made.frame_indices, made.frame_times_s) == ((), ())
    assert set(made.fingerprints) == {"weights", "question"}
