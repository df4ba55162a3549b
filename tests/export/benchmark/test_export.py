"""All formats: what goes in, what is refused, the same bytes every time, and no video."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.export.benchmark.export import FORMATS, export_benchmark
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.types import Clip, Question


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_same_questions_give_the_same_bytes(
    clips: list[Clip], questions: list[Question], video_root: Path, tmp_path: Path
) -> None:
    folders = export_benchmark(clips, questions, tmp_path / "a", video_root=video_root)
    assert folders == [tmp_path / "a" / name for name in FORMATS]
    export_benchmark(clips, questions, tmp_path / "b", formats=FORMATS[::-1], video_root=video_root)
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_there_is_no_video_and_no_absolute_path(
    clips: list[Clip], questions: list[Question], video_root: Path, tmp_path: Path
) -> None:
    export_benchmark(clips, questions, tmp_path, video_root=video_root)
    files = content(tmp_path)
    assert {Path(name).suffix for name in files} == {"", ".jsonl", ".md", ".parquet", ".py", ".sha256", ".tsv", ".yaml"}
    assert [name for name in files if not Path(name).suffix] == ["lmms_eval/_default_template_yaml"]
    assert not [
        name for name, data in files.items() if str(video_root).encode() in data or str(tmp_path).encode() in data
    ]


def test_what_exists_is_not_overwritten(clips: list[Clip], questions: list[Question], tmp_path: Path) -> None:
    export_benchmark(clips, questions, tmp_path, formats=["lmms_eval"])
    before = content(tmp_path)
    with pytest.raises(
        DataError, match=r"lmms_eval already exists and is never overwritten\. Give another folder, or remove it\."
    ):
        export_benchmark(clips, questions, tmp_path)
    assert content(tmp_path) == before


def test_unknown_formats_and_names(clips: list[Clip], questions: list[Question], tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"no export format 'vlmeval'\. Formats: lmms_eval, vlmevalkit, hf\. Did you mean 'vlmevalkit' or 'lmms_eval'",
    ):
        export_benchmark(clips, questions, tmp_path, formats=["vlmeval"])
    with pytest.raises(ConfigError, match="name of the exported benchmark is 'my bench', but must be letters, digits"):
        export_benchmark(clips, questions, tmp_path, name="my bench")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_video_leaves_nothing_behind(clips: list[Clip], questions: list[Question], tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"The video 'Archery/context_only/0.mp4' cannot be read under .* its checksum goes into the export",
    ):
        export_benchmark(clips, questions, tmp_path / "out", video_root=tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "tool"), [("lmms_eval", "lmms-eval"), ("vlmevalkit", "VLMEvalKit")])
def test_parts_of_videos_are_refused_where_whole_ones_are_shown(
    clips: list[Clip], questions: list[Question], tmp_path: Path, name: str, tool: str
) -> None:
    parts = [dataclasses.replace(clip, start_s=1.0, end_s=2.5) if clip.id == "x" else clip for clip in clips]
    with pytest.raises(DataError) as error:
        export_benchmark(parts, questions, tmp_path, formats=[name])
    assert str(error.value) == (
        f"{tool} shows models whole videos, but 1 clips are parts of one, the first 'x' ('x y.mp4' from 1.0 to 2.5 s). Cut them into files "
        "of their own, or export as hf, which keeps the times."
    )
    assert list(tmp_path.iterdir()) == []


def change(question: Question, **values: Any) -> Question:
    return dataclasses.replace(question, **values)


def test_questions_that_no_export_can_hold(clips: list[Clip], questions: list[Question], tmp_path: Path) -> None:
    one = questions[0]
    many = tuple(str(i) for i in range(21))
    refused = {
        "There are no questions to export": [],
        "Two questions have the id": [one, one],
        "about the clips elsewhere, but an exported question is about exactly one of the 28": [change(one, clip_ids=("elsewhere",))],
        "is about the clips x, Archery/presence/0, but": [change(one, clip_ids=("x", "Archery/presence/0"))],
        "has kind 'denial', but its clip is of kind 'presence'": [change(one, kind="denial")],
        "has 21 choices, but at most 20": [change(one, choices=many, answers=many)],
        "has a NUL character": [change(one, text="a\0b")],
        "which UTF-8 cannot hold": [change(one, text="\ud800")],
        "would both be called 'standard_a_b'": [change(one, prompt="a-b"), change(one, id="2", prompt="a_b")],
    }  # fmt: skip
    for text, asked in refused.items():
        with pytest.raises(DataError, match=text):
            export_benchmark(clips, asked, tmp_path)
    outside = dataclasses.replace(clips[0], path="../a.mp4")
    with pytest.raises(DataError, match=r"The path '\.\./a\.mp4' of clip .* leaves the dataset's root"):
        export_benchmark([outside], [one], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_graph_questions_measure_no_denial(small_clips: Path, tmp_path: Path) -> None:
    from actdeny_train.datasets.manifest import read_manifest

    clip = next(iter(read_manifest(small_clips / "manifest.jsonl")))
    question = GraphQuestions().ask(clip, load_ucf101(), seed=0)
    with pytest.raises(
        DataError, match=r"Only questions whose kind is that of their clip measure denial .* leave graph questions out"
    ):
        export_benchmark([clip], [question], tmp_path)
