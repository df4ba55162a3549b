"""Official annotation files with damage: a dataset raises DataError alone, and what it reads stays below its root."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actdeny_train.config import parse
from actdeny_train.datasets.base import ClipDataModule, check_path
from actdeny_train.datasets.ucf101_ad import DENIAL_FILES, PRESENCE_FILE, TRAIN_FILE, UCF101AD, read_questions
from actdeny_train.errors import DataError
from tests.miniatures import MINIATURES, Miniature

FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
PIECES = st.sampled_from(
    [b"../", b"/", b"\\", b"..", b",", b";", b" ", b"\t", b"\n", b"\r", b'"', b"[", b"{", b"}", b"null", b"-1", b"1e9", b"0" * 5000,
     b"\xff", b"\xef\xbb\xbf", b"\0", "é".encode(), b"[" * 9000, b".avi", b"\\ud800"]
)  # fmt: skip


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Draw what is done to a file: a piece in place of a span, a span twice, lines in another order, or an end too early."""
    at, length = draw(st.integers(0, 10**6)), draw(st.integers(0, 12))
    piece = draw(PIECES | st.binary(max_size=4))
    kind = draw(st.sampled_from(["replace", "repeat", "reverse", "cut"]))

    def change(content: bytes) -> bytes:
        start = at % (len(content) + 1)
        if kind == "replace":
            return content[:start] + piece + content[start + length :]
        if kind == "repeat":
            return content[:start] + content[max(0, start - 40) :]
        return b"\n".join(reversed(content.split(b"\n"))) if kind == "reverse" else content[:start]

    return change


@pytest.mark.parametrize("name", MINIATURES)
def test_damaged_files(name: str, miniature: Callable[[str], Miniature], tmp_path: Path) -> None:
    made = miniature(name)
    files = sorted(path for path in made.root.rglob("*") if path.suffix in (".txt", ".csv", ".json"))
    for path in files:
        copy = tmp_path / path.relative_to(made.root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)

    @FUZZ
    @given(st.sampled_from(files), st.lists(damages(), min_size=1, max_size=2))
    def read(path: Path, changes: list[Callable[[bytes], bytes]]) -> None:
        content = path.read_bytes()
        for change in changes:
            content = change(content)
        copy = tmp_path / path.relative_to(made.root)
        copy.write_bytes(content)
        try:
            data = parse({**made.data, "root": str(tmp_path)}, ClipDataModule, name)
            clips = [clip for split in (made.split, "train") for clip in data.clips(split)]
        except DataError:
            return
        finally:
            shutil.copy(path, copy)
        for clip in clips:
            check_path(clip.path, clip.id)
            assert clip.action in data.labels.actions
            assert (tmp_path / clip.path).resolve().is_relative_to(tmp_path.resolve())

    read()


CELLS: st.SearchStrategy[Any] = st.none() | st.booleans() | st.integers(-2, 12) | st.text(max_size=4)
ENTRIES = st.fixed_dictionaries(
    {
        "video_name": CELLS
        | st.sampled_from(
            [
                "NotArchery/v_NotArchery_g01_c01.mp4",
                "Archery/Archery_g_01_c01.mp4",
                "Not../v_Not.._g01_c01.mp4",
                "../a_g01_c01.mp4",
            ]
        ),
        "choices": CELLS | st.lists(CELLS, max_size=3) | st.just(["a", "b"]),
        "none_index": CELLS,
    },
    optional={"main_positive": CELLS | st.just("Archery"), "main_positive_index": CELLS, "video": CELLS},
)
WHOLE = st.lists(ENTRIES, max_size=2).map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20)


@FUZZ
@given(st.lists(WHOLE, min_size=3, max_size=3), st.booleans(), st.binary(max_size=30))
def test_damaged_question_files(tmp_path: Path, contents: list[bytes], deep: bool, types: bytes) -> None:
    names = (PRESENCE_FILE, DENIAL_FILES["standard"], TRAIN_FILE)
    for name, content in zip(names, contents, strict=True):
        (tmp_path / name).write_bytes(b"[" * 100_000 if deep else content)
    (tmp_path / "types.csv").write_bytes(b"video_name,type\n" + types)
    read_questions.cache_clear()
    try:
        clips = UCF101AD(str(tmp_path), str(tmp_path), str(tmp_path / "types.csv")).clips("test")
    except DataError:
        return
    for clip in clips:
        assert (tmp_path / check_path(clip.path, clip.id)).resolve().is_relative_to(tmp_path.resolve())
