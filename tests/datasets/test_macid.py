"""MACID's file in the forms in which it may come, and everything that may be wrong about it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actdeny_train.datasets.macid import MACID
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import ClipKind, IntruderTuple

HEADER = "id,s1,v1,s2,v2,s3,v3,s4,v4,intruder"
MOVIE = "0001_A_Film_00.00.51.926-00.00.54.129"


def row(id: str = "7", intruder: object = 4, videos: str = "abcd") -> str:
    told = ",".join(f"frase {i},{video}" for i, video in enumerate(videos, start=1))
    return f"{id},{told},{intruder}"


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[IntruderTuple, ...]]:
    """Write lines to a file and read its tuples: ``read("header", "row", ..., intruder_base=1)``."""

    def make(*lines: str, end: str = "\n", **settings: Any) -> tuple[IntruderTuple, ...]:
        path = tmp_path / "macid.csv"
        path.write_bytes(end.join(lines).encode())
        return MACID(str(path), **settings).tuples()

    return make


def test_tuples_of_the_published_format(write_macid: Callable[..., Path], small_clips: Path) -> None:
    data = MACID(str(write_macid(8, verbs=True)), root=str(small_clips))
    groups = data.groups("test")
    assert [group.id for group in groups] == [f"t{i}" for i in range(8)]
    assert [group.intruder for group in groups if isinstance(group, IntruderTuple)] == [0, 1, 2, 3] * 2
    first = groups[0]
    assert isinstance(first, IntruderTuple)
    assert first.captions == (
        "La ragazza deve spostare l'armadio",
        "Il cuoco deve premere l'interruttore, due volte",
        "Un bambino deve premere un tasto",
        'L\'operaia deve premere il pulsante "stop"',
    )
    assert (first.verbs, first.verb_pattern, first.source) == (
        ("spostare", "premere", "premere", "premere"), "3_1", "t0"
    )  # fmt: skip
    clips = data.usable("test")
    assert {clip.id for group in groups for clip in group.clips} == {clip.id for clip in clips}
    assert len({clip.id for clip in clips}) == len(clips) < 4 * len(groups)
    assert all(data.video_path(clip).is_file() and clip.kind is ClipKind.PRESENCE for clip in clips)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_forms_in_which_the_file_circulates(read: Callable[..., Any], end: str, delimiter: str) -> None:
    lines = [line.replace(",", delimiter) for line in (HEADER.upper(), row("1", 1), "", row("2", 4, "efgh"))]
    first, second = read("\ufeff" + lines[0], *lines[1:], end=end)
    assert (first.id, first.captions, first.intruder) == ("1", ("frase 1", "frase 2", "frase 3", "frase 4"), 0)
    assert ([clip.id for clip in second.clips], second.intruder) == (["e", "f", "g", "h"], 3)
    assert second.verb_pattern == "unknown"


@pytest.mark.parametrize(
    ("values", "base", "expected", "said"),
    [
        ([1, 4], None, [0, 3], "intruder counts from 1 (found from its values: 1 to 4 in 2 tuples)"),
        ([0, 2], None, [0, 2], "intruder counts from 0 (found from its values: 0 to 2 in 2 tuples)"),
        ([1, 3], 1, [0, 2], "intruder counts from 1 (as stated: 1 to 3 in 2 tuples)"),
        ([1, 3], 0, [1, 3], "intruder counts from 0 (as stated: 1 to 3 in 2 tuples)"),
        ([2, 4], 1, [1, 3], "intruder counts from 1 (found from its values: 2 to 4 in 2 tuples)"),
    ],
)
def test_base_of_the_intruder(
    read: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
    values: list[int],
    base: int | None,
    expected: list[int],
    said: str,
) -> None:
    rows = [row(str(i), value, videos) for i, (value, videos) in enumerate(zip(values, ("abcd", "efgh"), strict=True))]
    assert [one.intruder for one in read(HEADER, *rows, intruder_base=base)] == expected
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], r"macid.csv has no row below a header. Get the file anew"),
        ([HEADER], r"macid.csv has no row below a header"),
        ([HEADER, row(intruder=1), row("8", 3, "efgh")], r"run from 1 to 3, which may count from 0 as well as from 1.*`intruder_base` to"),
        ([HEADER, row(intruder=0), row("8", 4, "efgh")], r"intruder is 0 at .*csv:2 and 4 at .*csv:3, but a file counts either from 0"),
        ([HEADER, row(intruder=5)], r"csv:2: got 'intruder 5', but must be a whole number as intruder, from 1 to 4"),
        ([HEADER, row(intruder="3.0")], r"got 'intruder 3.0', but must be a whole number"),
        ([HEADER, row(intruder="-1")], r"got 'intruder -1', but must be a whole number"),
        ([HEADER, row(intruder="due")], r"got 'intruder due', but must be a whole number"),
        ([HEADER, row(intruder="٣")], r"but must be a whole number"),
        ([HEADER, row(intruder="")], r"csv:2: got 'an empty intruder', but must be a row with a value for id, s1, s2"),
        ([HEADER, row(), row("7", 1, "efgh")], r"csv:3 has the id '7' of .*csv:2. Answers are kept by id"),
        ([HEADER, row(), row("8", 1)], r"csv:3: tuple '8' has the same four videos as tuple '7', so it would count twice"),
        ([HEADER, row() + ",x"], r"csv:2: got .*, but must be 10 values, as the header has columns; found 11"),
        ([HEADER, row()[:-2]], r"but must be 10 values, as the header has columns; found 9"),
        ([HEADER.replace("intruder", "intruso"), row()], r"lacks the column 'intruder'; it has id, s1.*Did you mean 'intruso'\?"),
        ([HEADER.replace("s2", "s1"), row()], r"csv:1: got 's1', but must be a header with each column once"),
        ([HEADER.replace("v3", "x"), row()], r"has only v1, v2, v4 of the columns v1, v2, v3, v4"),
        ([HEADER, row(videos=["../a", "b", "c", "d"])], r"The path '../a' of v1 of .*csv:2 leaves the dataset's root"),  # type: ignore[arg-type]
        ([HEADER, row() + '"'], r"csv:2 is not a CSV row|but must be a whole number"),
    ],
)  # fmt: skip
def test_errors(read: Callable[..., Any], lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(*lines)


def test_stated_base_that_the_values_contradict(read: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match=r"intruder_base is 0, but intruder is 4 at .*csv:2, which counts from 1"):
        read(HEADER, row(intruder=4), intruder_base=0)
    with pytest.raises(DataError, match=r"intruder_base is 1, but intruder is 0 at .*csv:2, which counts from 0"):
        read(HEADER, row(intruder=0), intruder_base=1)


def test_columns_that_are_not_used_are_named(read: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = read(HEADER + ",action4", row() + ",d48ac")
    assert "the columns 'action4' are not used" in capsys.readouterr().out
    assert "d48ac" not in repr(one)


def test_verbs_beside_the_file(read: Callable[..., Any], tmp_path: Path) -> None:
    verbs = tmp_path / "verbs.csv"
    verbs.write_text("id;verb1;verb2;verb3;verb4\n7;Spingere;premere;spingere;premere\n8;;;;\n")
    lines = (HEADER, row(), row("8", 1, "efgh"), row("9", 1, "ijkl"))
    assert [one.verb_pattern for one in read(*lines, verbs_file=str(verbs))] == ["2_2", "unknown", "unknown"]
    for content, message in {
        "id,verb1,verb2,verb3,verb4\n10,a,b,c,d": r"verbs.csv:2: got '10', but must be the id of a tuple of .*macid.csv",
        "id,verb1,verb2,verb3,verb4\n7,a,b,,d": r"must be a verb for each of verb1, verb2, verb3, verb4, or none",
        "id,verb1,verb2,verb3,verb4\n7,a,b,c,d\n7,a,a,a,a": r"must be the verbs that an earlier row gives for tuple '7'",
        "id,verb1,verb2,verb3\n7,a,b,c": r"the file of verbs lacks the column 'verb4'. It must have id, verb1",
    }.items():
        verbs.write_text(content)
        with pytest.raises(DataError, match=message):
            read(*lines, verbs_file=str(verbs))


@pytest.mark.parametrize(
    ("verbs", "pattern"),
    [("aaaa", "4"), ("abaa", "3_1"), ("abab", "2_2"), ("abac", "2_1_1"), ("dcba", "1_1_1_1")],
)
def test_verb_patterns(read: Callable[..., Any], verbs: str, pattern: str) -> None:
    (one,) = read(f"{HEADER},verb1,verb2,verb3,verb4", f"{row()},{','.join(verbs)}")
    assert one.verb_pattern == pattern


def test_videos_of_lsmdc_lie_in_any_folder(tmp_path: Path, read: Callable[..., Any]) -> None:
    (tmp_path / "videos" / "0001_A_Film").mkdir(parents=True)
    (tmp_path / "videos" / "0001_A_Film" / f"{MOVIE}.avi").touch()
    (tmp_path / "videos" / "b.webm").touch()
    (one,) = read(HEADER, row(videos=[MOVIE, "b.mp4", "c", "d"]), root=str(tmp_path / "videos"))  # type: ignore[arg-type]
    assert [(clip.id, clip.path, clip.source) for clip in one.clips] == [
        (MOVIE, f"0001_A_Film/{MOVIE}.avi", "0001_A_Film"),
        ("b.mp4", "b.webm", "b.mp4"),
        ("c", "c.avi", "c"),
        ("d", "d.avi", "d"),
    ]


def test_without_videos_every_tuple_can_be_asked_about(write_macid: Callable[..., Path]) -> None:
    data = MACID(str(write_macid(5)))
    assert not data.has_videos
    assert len(data.groups("test")) == 5 and data.quarantine("test") == []
    with pytest.raises(DataError, match=r"has no clip in split 'train'. Splits with clips: test"):
        data.groups("train")


def test_without_video_ids_captions_alone_can_be_shown(read: Callable[..., Any], tmp_path: Path) -> None:
    lines = ("id,s1,s2,s3,s4,intruder", "7,a,b,c,d,4")
    (one,) = read(*lines)
    assert [clip.id for clip in one.clips] == ["7/1", "7/2", "7/3", "7/4"]
    with pytest.raises(DataError, match="has no columns v1, v2, v3, v4, so nothing says which videos belong to the"):
        read(*lines, root=str(tmp_path))


def test_a_tuple_with_an_unusable_clip_is_left_out_whole(
    write_macid: Callable[..., Path], small_clips: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_macid(8)
    lost = MACID(str(path)).tuples()[0].clips[0].id
    root = tmp_path / "videos"
    shutil.copytree(small_clips, root, copy_function=os.symlink)
    (root / lost).unlink()
    data = MACID(str(path), root=str(root))
    with_it = [group.id for group in data.all_groups("test") if lost in [clip.id for clip in group.clips]]
    assert [group.id for group in data.groups("test")] == [f"t{i}" for i in range(8) if f"t{i}" not in with_it]
    assert f"{len(with_it)} of 8 groups of clips left out: a clip is quarantined" in capsys.readouterr().out
    assert [entry.id for entry in data.quarantine("test")] == [lost]
    for clip in data.usable("test"):
        if clip not in data.tuples()[0].clips[:2]:
            (root / clip.path).unlink()
    with pytest.raises(DataError, match="No group of clips of split 'test' of MACID can be used: in each of the 8"):
        MACID(str(path), root=str(root)).groups("test")


def test_the_hub_dataset_as_parquet(read: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet, table

    columns = {"id": [1, 2], **{f"s{i}": ["frase", "altra, frase"] for i in range(1, 5)}, "intruder": [4, 1]}
    folder = tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    parquet.write_table(table(columns), folder / "default-00000-of-00001.parquet")
    found = MACID(str(tmp_path / "hub")).tuples()
    assert [(one.id, one.captions[0], one.intruder) for one in found] == [("1", "frase", 3), ("2", "altra, frase", 0)]
    (folder / "default-00000-of-00001.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        MACID(str(tmp_path / "hub")).tuples()
    (folder / "other.csv").touch()
    with pytest.raises(DataError, match=r"holds 2 CSV or Parquet files, but MACID is one file. Name it as `file`"):
        MACID(str(tmp_path / "hub")).tuples()


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'nowhere.csv' cannot be read"):
        MACID("nowhere.csv").tuples()


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode(errors="surrogatepass")),
        st.lists(st.text('abc,;"\t\r\n1234', max_size=30), max_size=5).map(
            lambda rows: "\n".join([HEADER, row(), *rows]).encode()
        ),
        st.lists(st.text(max_size=5), min_size=10, max_size=10).map(
            lambda values: "\n".join([HEADER, row(), ",".join(values)]).encode(errors="surrogatepass")
        ),
    ),
    st.sampled_from(["macid.csv", "macid.parquet"]),
)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_raises_nothing_but_data_errors(tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    try:
        found = MACID(str(tmp_path / name)).tuples()
    except DataError:
        return
    assert found and all(0 <= one.intruder < 4 and all(one.captions) for one in found)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "macid.parquet").touch()
    with pytest.raises(ConfigError, match=r"needs the package pyarrow: pip install 'actdeny\[hub-dataset\]'"):
        MACID(str(tmp_path / "macid.parquet")).tuples()
