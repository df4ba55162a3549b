"""Views: what is left of a video, and that an evaluation shows a model just that."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actdeny_train import config
from actdeny_train.errors import ConfigError
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.views import show
from actdeny_train.types import Clip, ClipKind, Frames

CLIP = Clip(id="c", path="-", action="Archery", kind=ClipKind.PRESENCE, split="test", source="g01")


def test_one_frame_is_the_middle_one(make_frames: Callable[..., Frames]) -> None:
    frames = make_frames(8)
    one = show(frames, "one_frame", CLIP, 0)
    assert (one.indices.tolist(), one.time_s.tolist()) == ([4], [1.0])
    assert np.array_equal(one.pixels, frames.pixels[4:5])
    assert show(make_frames(1), "one_frame", CLIP, 0).indices.tolist() == [0]


def test_shuffled_frames_are_the_same_pictures_at_the_same_times(make_frames: Callable[..., Frames]) -> None:
    frames = make_frames(8)
    shuffled = show(frames, "shuffled_frames", CLIP, 0)
    assert np.array_equal(shuffled.time_s, frames.time_s) and np.array_equal(shuffled.indices, frames.indices)
    order = [next(i for i in range(8) if np.array_equal(frames.pixels[i], image)) for image in shuffled.pixels]
    assert sorted(order) == list(range(8)) and order != list(range(8))
    assert shuffled.notes == (f"pictures in the order {', '.join(map(str, order))}",)
    again = show(frames, "shuffled_frames", CLIP, 0)
    assert np.array_equal(again.pixels, shuffled.pixels)
    others = [show(frames, "shuffled_frames", dataclasses.replace(CLIP, id=f"c{i}"), 0).notes for i in range(20)]
    assert len(set(others)) == 20
    assert show(frames, "video", CLIP, 0) is frames


def test_an_evaluation_shows_what_the_view_leaves(answer: Callable[..., Any], tmp_path: Path) -> None:
    def lines(view: str) -> list[dict[str, Any]]:
        answer(f"name={view}", f"view={view}", "ask=[{source: {_target_: actdeny_train.questions.mcq.Standard}}]")
        text = (tmp_path / "runs" / view / "predictions.jsonl").read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    video, blind, one, shuffled = (lines(v) for v in ("video", "text_only", "one_frame", "shuffled_frames"))
    assert {len(line["frame_indices"]) for line in video} == {len(line["frame_indices"]) for line in shuffled} == {4}
    assert {len(line["frame_indices"]) for line in one} == {1}
    assert all(line["frame_indices"] == [] and not {"frames", "video"} & set(line["fingerprints"]) for line in blind)
    for a, b in ((video, blind), (video, one), (video, shuffled), (one, blind)):
        assert [x["question_id"] for x in a] == [x["question_id"] for x in b]
        assert any(x["logprobs"] != y["logprobs"] for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("override", ["view=text_only", "answers=both", "max_new_tokens=3"])
def test_answers_given_in_another_way_do_not_go_into_one_score(
    evaluate_config: Path, make_run: Callable[..., Any], override: str
) -> None:
    control = "model={_target_: actdeny_train.evaluation.controls.AlwaysNone}"
    evaluate(make_run(control), values=config.read(evaluate_config, [control]))
    key = override.partition("=")[0]
    with pytest.raises(
        ConfigError, match=rf"were given under {key}=.*, now {key} is .*, and a score must not mix the two"
    ):
        evaluate(make_run(control, override), values=config.read(evaluate_config, [control, override]))


def test_a_view_that_does_not_exist(make_run: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match=r"view must be Literal\[.*'one_frame'"):
        make_run("view=two_frames")
