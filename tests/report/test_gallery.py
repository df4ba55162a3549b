"""Which wrong answers are shown, what is said of them, and their pictures against the videos' frames."""

import base64
import io
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from actdeny_train.errors import DataError
from actdeny_train.report.gallery import (
    HEIGHT_PX,
    StoredFrames,
    choose_wrong,
    confidence,
    error_kind,
    make_gallery,
    probabilities,
)
from actdeny_train.report.runs import SavedRun, load_runs
from actdeny_train.types import ParseStatus, Prediction
from actdeny_train.video.decode import read_frames
from actdeny_train.video.sampling import Middle


def prediction(**values: Any) -> Prediction:
    defaults: dict[str, Any] = {
        "question_id": "q",
        "clip_ids": ("c",),
        "action": "Archery",
        "source": "s",
        "setup": "standard",
        "prompt": "plain",
        "kind": "context_only",
        "group": "s",
        "target": 2,
        "choice": 0,
        "status": ParseStatus.OK,
        "num_choices": 3,
        "none_choice": 2,
        "primary_distractor": 0,
    }
    return Prediction(**{**defaults, **values})


# Which ones

WRONG = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(["standard", "four_choices"]), st.integers(0, 3), st.floats(0.1, 0.9)
    ),
    max_size=14,
)


@given(drawn=WRONG, most=st.integers(0, 8), turned=st.booleans())
@settings(max_examples=60, deadline=None)
def test_classes_are_balanced_whatever_the_order(
    drawn: list[tuple[str, str, int, float]], most: int, turned: bool
) -> None:
    wrong = [
        prediction(
            question_id=f"q{i}",
            action=action,
            setup=setup,
            clip_ids=(f"{action}{clip}",),
            logprobs=(math.log(p), math.log((1 - p) / 2), math.log((1 - p) / 2)),
        )
        for i, (action, setup, clip, p) in enumerate(drawn)
    ]
    chosen = choose_wrong(wrong, most)
    assert chosen == choose_wrong(wrong[::-1] if turned else wrong, most)
    assert len(chosen) == min(most, len(wrong)) and len({p.question_id for p in chosen}) == len(chosen)
    available, shown = Counter(p.action for p in wrong), Counter(p.action for p in chosen)
    for count in shown.values():
        # No class is shown twice more often than another that has more to show.
        assert all(count - shown[other] <= 1 for other in available if shown[other] < available[other])


def test_kinds_of_error_and_setups_have_their_turn_and_the_surest_comes_first() -> None:
    def sure(name: str, p: float, clip: str, setup: str = "standard", **values: Any) -> Prediction:
        rest = math.log((1 - p) / 2)
        return prediction(question_id=name, setup=setup, clip_ids=(clip,), logprobs=(math.log(p), rest, rest), **values)

    yes = [sure(f"yes{i}", 0.9 - i / 100, f"c{i}", "yes_no_primary", none_choice=None) for i in range(3)]
    lured = [
        sure("low", 0.5, "c3"),
        sure("high", 0.6, "c4"),
        sure("same clip", 0.7, "c0"),
        sure("other", 0.3, "c6", "x"),
    ]
    silent = prediction(question_id="silent", status=ParseStatus.REFUSAL, choice=None, clip_ids=("c5",))
    chosen = [p.question_id for p in choose_wrong([silent, *lured, *yes], 8)]
    # Kinds in turn; then setups (x before standard); then clips (c0 was shown before c3 and comes last); then the surest.
    assert chosen == ["yes0", "high", "silent", "other", "yes1", "yes2", "low", "same clip"]


def test_probabilities_are_a_softmax_of_the_scores() -> None:
    p = prediction(logprobs=(math.log(0.3), math.log(0.15), math.log(0.05)))
    assert probabilities(p) == pytest.approx((0.6, 0.3, 0.1))
    assert confidence(p) == pytest.approx(0.6)
    assert confidence(replace(p, logprobs=())) is None
    assert confidence(replace(p, choice=None, status=ParseStatus.UNPARSED)) is None
    assert probabilities(replace(p, logprobs=(-1000.0, -1001.0, -1002.0))) == pytest.approx(
        (0.665, 0.245, 0.09), abs=5e-4
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({}, "primary distractor"),
        ({"choice": 1}, "another action"),
        ({"kind": "presence", "target": 1, "primary_distractor": None}, "another action"),
        ({"kind": "presence", "target": 1, "choice": 2, "primary_distractor": None}, "false denial"),
        ({"choice": None, "status": ParseStatus.TRUNCATED}, "truncated"),
        ({"none_choice": None, "primary_distractor": None, "num_choices": 2, "target": 1}, "says yes"),
        ({"none_choice": None, "primary_distractor": None, "num_choices": 2, "target": 0, "choice": 1}, "says no"),
    ],
)
def test_kinds_of_error(values: dict[str, Any], kind: str) -> None:
    assert error_kind(prediction(**values)) == kind


# What is shown


def pixels_of(uri: str) -> np.ndarray:
    head, _, data = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))


def test_pictures_are_the_frames_that_the_model_saw(two_runs: tuple[Path, Path], small_clips: Path) -> None:
    run, _ = load_runs(two_runs)
    gallery = make_gallery(run)
    assert gallery.num_wrong > len(gallery.shown) == 60
    for fooled in gallery.shown[:3]:
        clip = run.clips[fooled.prediction.clip_ids[0]]
        everything = read_frames(small_clips / clip.path, Middle(1000))
        assert [p.time_s for p in fooled.pictures] == pytest.approx(fooled.prediction.frame_times_s)
        for index, picture in zip(fooled.prediction.frame_indices, fooled.pictures, strict=True):
            shown = pixels_of(picture.uri)
            assert shown.shape == (HEIGHT_PX, HEIGHT_PX, 3)
            wanted = Image.fromarray(everything.pixels[index]).resize((HEIGHT_PX, HEIGHT_PX), Image.Resampling.BICUBIC)
            assert np.abs(shown.astype(float) - np.asarray(wanted, dtype=float)).mean() < 5


def test_at_most_six_pictures_evenly_chosen(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    change(folder, frame_indices=list(range(8)), frame_times_s=[i / 8 for i in range(8)])
    (fooled, *_) = make_gallery(*load_runs([folder])).shown
    # Middles of 6 equal strides of 8 frames: (2 i + 1) 8 / 12.
    assert [p.time_s for p in fooled.pictures] == pytest.approx([0 / 8, 2 / 8, 3 / 8, 4 / 8, 6 / 8, 7 / 8])
    assert fooled.num_frames == 8


def test_choices_are_marked(two_runs: tuple[Path, Path]) -> None:
    run, _ = load_runs(two_runs)
    for fooled in make_gallery(run).shown:
        p, question = fooled.prediction, run.questions[fooled.prediction.question_id]
        assert [c.is_target for c in fooled.choices].index(True) == p.target
        assert [c.is_chosen for c in fooled.choices].index(True) == p.choice
        assert sum(c.p or 0 for c in fooled.choices) == pytest.approx(1)
        assert fooled.confidence == fooled.choices[p.choice or 0].p
        if p.none_choice is None:
            assert [(c.label, c.text) for c in fooled.choices] == [("yes", ""), ("no", "")]
            assert fooled.asked.startswith("Is a person or group of people ")
        else:
            assert tuple(c.text for c in fooled.choices) == question.choices and fooled.asked == ""


def change(folder: Path, **values: object) -> None:
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    changed = (json.dumps({**json.loads(line), **values}) + "\n" for line in lines)
    (folder / "predictions.jsonl").write_text("".join(changed))


def change_record(folder: Path, **values: object) -> SavedRun:
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, **values}))
    (run,) = load_runs([folder])
    return run


def test_a_missing_video_is_told(make_run: Callable[..., Path], tmp_path: Path) -> None:
    run = change_record(make_run(), video_root=str(tmp_path / "moved"))
    (fooled, *_) = make_gallery(run).shown
    path = run.clips[fooled.prediction.clip_ids[0]].path
    assert fooled.pictures == ()
    assert fooled.note == f"video '{path}' does not exist. Check the path and the dataset's root."


def test_no_folder_of_videos(make_run: Callable[..., Path]) -> None:
    (fooled, *_) = make_gallery(change_record(make_run(), video_root=None)).shown
    assert (fooled.pictures, fooled.note) == ((), "run.json names no folder of videos")


def test_a_model_that_saw_nothing(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    change(folder, frame_indices=[], frame_times_s=[])
    (fooled, *_) = make_gallery(*load_runs([folder])).shown
    assert (fooled.pictures, fooled.note) == ((), "the model saw no frames")


def test_a_model_that_saw_shuffled_frames(make_run: Callable[..., Path]) -> None:
    (fooled, *_) = make_gallery(change_record(make_run(), view="shuffled_frames")).shown
    assert len(fooled.pictures) == 6 and fooled.note == "The model saw these pictures in random order."


def test_a_video_that_became_shorter(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    change(folder, frame_indices=[0, 99], frame_times_s=[0.0, 12.0])
    (fooled, *_) = make_gallery(*load_runs([folder])).shown
    assert fooled.note == "the model saw frame 99 of the clip, which now has 8 frames. Restore the video."


def test_without_questions_nothing_is_shown(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    (folder / "questions.jsonl").unlink()
    gallery = make_gallery(*load_runs([folder]))
    assert gallery.shown == () and gallery.num_wrong > 0
    assert gallery.note == "The run folder has no questions.jsonl: evaluate again to see clips."


def test_questions_of_another_evaluation(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    (run,) = load_runs([folder])
    (folder / "questions.jsonl").write_text("")
    (emptied,) = load_runs([folder])
    first = choose_wrong([p for p in run.predictions if not p.is_right and p.setup != "graph_vqa"], 1)[0]
    with pytest.raises(DataError) as error:
        make_gallery(emptied)
    assert str(error.value) == (
        f"{folder / 'questions.jsonl'} has no question {first.question_id!r} with {first.num_choices} choices, which predictions.jsonl "
        "answers. The two files belong to different evaluations: evaluate again under another name."
    )


def test_stored_frames_choose_themselves() -> None:
    sampling = StoredFrames((1, 4))
    assert sampling.choose(5, np.arange(5.0)).tolist() == [1, 4]
    assert str(sampling) == "stored(2 frames)"
