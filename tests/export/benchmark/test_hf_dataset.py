"""The Hub dataset: rows that give back each question, a card that names the files, and the videos' checksums."""

import builtins
import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet
import pytest
import yaml

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.evaluation.parsing import parse
from actdeny_train.export.benchmark.export import export_benchmark
from actdeny_train.types import Clip, ClipKind, Question

QUESTION = tuple(Question.__slots__)

VERIFY = """
import pathlib, videos
root, row, sums = VALUE
print(json.dumps([videos.video_path(row), videos.changed(row), videos.verify(pathlib.Path(sums), pathlib.Path(root))]))
"""

MISSING = """
import videos
try:
    videos.video_path(VALUE)
except FileNotFoundError as error:
    print(json.dumps(str(error)))
"""


@pytest.fixture(scope="module")
def folder(
    clips: list[Clip], questions: list[Question], video_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("out")
    return export_benchmark(clips, questions, out, formats=["hf"], video_root=video_root)[0]


def front(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])
    return values


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of all files that the card names."""
    files = [folder / data["path"] for config in front(folder)["configs"] for data in config["data_files"]]
    assert sorted(files) == sorted(folder.rglob("*.parquet"))
    return [row for file in files for row in pyarrow.parquet.read_table(file).to_pylist()]


def question_of(row: dict[str, Any]) -> Question:
    return Question(**{k: tuple(row[k]) if isinstance(row[k], list) else row[k] for k in QUESTION})


def test_rows_are_the_questions_and_their_clips(folder: Path, clips: list[Clip], questions: list[Question]) -> None:
    found = rows(folder)
    assert {q.id: q for q in map(question_of, found)} == {q.id: q for q in questions} and len(found) == len(questions)
    by_id = {clip.id: clip for clip in clips}
    for row in found:
        clip = by_id[row["clip_ids"][0]]
        assert (row["video"], row["action"], row["source"], row["split"]) == (
            clip.path,
            clip.action,
            clip.source,
            "test",
        )
        assert row["start_s"] is row["end_s"] is None
        assert row["video_sha256"] == hashlib.sha256(clip.id.encode()).hexdigest()


def test_an_oracle_scores_all_or_nothing_however_it_says_it(folder: Path, oracle: Any) -> None:
    for row in rows(folder):
        question = question_of(row)
        for say in oracle.styles.values():
            for shift in (0, 1):
                answer = (question.target + shift) % len(question.choices)
                assert parse(say(row, answer), question).choice == answer


def test_one_config_a_setup(folder: Path, questions: list[Question]) -> None:
    configs = front(folder)["configs"]
    assert [config["config_name"] for config in configs] == list(dict.fromkeys(q.setup for q in questions))
    assert [config.get("default", False) for config in configs] == [True] + [False] * (len(configs) - 1)
    for config in configs:
        table = pandas.read_parquet(folder / config["data_files"][0]["path"])
        asked = [q for q in questions if q.setup == config["config_name"]]
        assert sorted(table["id"]) == sorted(q.id for q in asked)
        assert f"| `{config['config_name']}` | test | {len(asked)} |" in (folder / "README.md").read_text(
            encoding="utf-8"
        )


def test_videos_are_found_and_verified(
    folder: Path, clips: list[Clip], tmp_path: Path, run_alone: Callable[..., Any]
) -> None:
    root = tmp_path / "copies"
    for clip in clips:
        (root / clip.path).parent.mkdir(parents=True, exist_ok=True)
        (root / clip.path).write_bytes(clip.id.encode())
    row = rows(folder)[0]
    sums = str(folder / "videos.sha256")

    def verify() -> Any:
        return run_alone(folder, VERIFY, (str(root), row, sums), ACTDENY_VIDEO_ROOT=str(root))

    assert verify() == [str(root / row["video"]), False, []]
    subprocess.run(["sha256sum", "--quiet", "--check", sums], cwd=root, check=True)
    (root / row["video"]).write_bytes(b"other")
    (root / "x y.mp4").unlink()
    assert verify() == [str(root / row["video"]), True, [row["video"], "x y.mp4"]]
    assert run_alone(folder, MISSING, row) == (
        f"There is no video {row['video']!r}. Give root, or set ACTDENY_VIDEO_ROOT, to the folder that {row['video']!r} is relative to."
    )


def test_odd_names_of_videos_are_verified_too(
    questions: list[Question], tmp_path: Path, run_alone: Callable[..., Any]
) -> None:
    names = ["a\nb.mp4", "ü.mp4", "a  b.mp4"]
    clips = [Clip(id=n, path=n, action="Archery", kind=ClipKind.PRESENCE, split="test", source=n) for n in names]
    template = next(q for q in questions if q.kind == "presence")
    asked = [
        Question(**{k: getattr(template, k) for k in QUESTION} | {"id": n, "clip_ids": (n,), "group": n}) for n in names
    ]
    for name in names:
        (tmp_path / name).write_text(name)
    (folder,) = export_benchmark(clips, asked, tmp_path / "out", formats=["hf"], video_root=tmp_path)
    subprocess.run(["sha256sum", "--quiet", "--check", str(folder / "videos.sha256")], cwd=tmp_path, check=True)
    code = "import pathlib, videos\nprint(json.dumps(videos.verify(pathlib.Path(VALUE[0]), pathlib.Path(VALUE[1]))))"
    assert run_alone(folder, code, [str(folder / "videos.sha256"), str(tmp_path)]) == []
    (tmp_path / names[0]).write_text("changed")
    assert run_alone(folder, code, [str(folder / "videos.sha256"), str(tmp_path)]) == [names[0]]


def test_without_a_root_checksums_are_null(clips: list[Clip], questions: list[Question], tmp_path: Path) -> None:
    (folder,) = export_benchmark(clips, questions, tmp_path, formats=["hf"])
    assert {row["video_sha256"] for row in rows(folder)} == {None}
    assert not (folder / "videos.sha256").exists()


def test_splits_and_times_are_kept(questions: list[Question], tmp_path: Path) -> None:
    template = next(q for q in questions if q.kind == "presence")
    clips, asked = [], []
    for split in ("val", "test"):
        clips.append(
            Clip(
                id=split,
                path="long.mp4",
                action="Archery",
                kind=ClipKind.PRESENCE,
                split=split,
                source=split,
                start_s=0.5,
            )
        )
        asked.append(
            Question(
                **{k: getattr(template, k) for k in QUESTION} | {"id": split, "clip_ids": (split,), "group": split}
            )
        )
    (folder,) = export_benchmark(clips, asked, tmp_path, formats=["hf"])
    assert [(row["split"], row["start_s"], row["end_s"]) for row in rows(folder)] == [
        ("val", 0.5, None),
        ("test", 0.5, None),
    ]
    assert json.dumps(front(folder)["configs"][0]["data_files"]) == json.dumps(
        [{"split": "val", "path": "standard/val.parquet"}, {"split": "test", "path": "standard/test.parquet"}]
    )


def test_names_that_the_hub_does_not_take_are_refused(questions: list[Question], tmp_path: Path) -> None:
    clip = Clip(id="c", path="c.mp4", action="Archery", kind=ClipKind.PRESENCE, split="split 1", source="s")
    template = next(q for q in questions if q.kind == "presence")
    question = Question(**{k: getattr(template, k) for k in QUESTION} | {"clip_ids": ("c",)})
    with pytest.raises(
        DataError, match=r"The split 'split 1' cannot name a part of a Hub dataset.* e.g. to 'split_1'."
    ):
        export_benchmark([clip], [question], tmp_path, formats=["hf"])


def test_pyarrow_is_needed_and_named(
    clips: list[Clip], questions: list[Question], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **kwargs: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *rest, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        ConfigError,
        match=r"needs pyarrow, which is not installed\. Install it with `pip install 'actdeny\[hub-dataset\]'`",
    ):
        export_benchmark(clips, questions, tmp_path, formats=["hf"])
    assert list(tmp_path.iterdir()) == []
