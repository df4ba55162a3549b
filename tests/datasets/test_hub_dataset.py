"""Dataset repositories of the Hub: parquet as the `datasets` package writes it, other forms, cards, downloads."""

import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actdeny_train.datasets.base import check_path
from actdeny_train.datasets.hub_dataset import EXTRACTED, HubDataset, card_class_names
from actdeny_train.datasets.hub_tables import Columns, read_rows
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.errors import ActdenyError, ConfigError, DataError
from actdeny_train.types import ClipKind
from actdeny_train.video.sampling import Middle
from tests.miniatures import write_clip

NAMES = ["walk", "draw_sword", "sword"]
# The metadata that datasets 5.2.0 wrote beside a Video column and a ClassLabel column (Dataset.to_parquet, run once, 2026-12).
FEATURES = {
    "video": {"decode": False, "_type": "Video"},
    "label": {"names": NAMES, "_type": "ClassLabel"},
    "note": {"dtype": "string", "_type": "Value"},
}
METADATA = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()}
VIDEO = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
NUMBER = pa.int64()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
Rows = Sequence[dict[str, Any]]


def write(path: Path, rows: Rows, video: Any = VIDEO, label: Any = NUMBER, **settings: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema([("video", video), ("label", label), ("note", pa.string())])
    metadata = METADATA if label == NUMBER else None
    pq.write_table(pa.Table.from_pylist(list(rows), schema.with_metadata(metadata)), path, **settings)
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Three videos, an AVI among them."""
    folder = tmp_path_factory.mktemp("videos")
    for name in ("a.mp4", "b.avi", "c.mp4"):
        write_clip(folder / name)
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def embedded(videos: Sequence[bytes]) -> list[dict[str, Any]]:
    names = ("a.mp4", "b.avi", None)
    return [{"video": {"bytes": v, "path": n}, "label": i} for i, (v, n) in enumerate(zip(videos, names, strict=True))]


def test_embedded_videos_are_written_when_a_split_is_used(
    tmp_path: Path, videos: list[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "data/train-00000-of-00001.parquet", embedded(videos))
    file = write(tmp_path / "data/test-00000-of-00001.parquet", embedded(videos), row_group_size=1)
    data = HubDataset(str(tmp_path), "hmdb51")
    clips = data.usable("test")
    assert [(c.id, c.action, c.kind, c.source) for c in clips] == [
        (f"data/test-00000-of-00001/{i}", name, ClipKind.PRESENCE, f"data/test-00000-of-00001/{i}")
        for i, name in enumerate(NAMES)
    ]
    assert [Path(c.path).name for c in clips] == ["000000.mp4", "000001.avi", "000002.mp4"]
    assert [(tmp_path / c.path).read_bytes() for c in clips] == videos
    assert ClipReader(data, Middle(num_frames=4))(clips[1]).num_decoded == 8
    assert not (tmp_path / EXTRACTED / "data/train-00000-of-00001").exists()
    assert f"{file}: writing 3 embedded videos to" in capsys.readouterr().out
    # Written once; again where a file is missing, and all anew where the data file has changed.
    (tmp_path / clips[0].path).unlink()
    HubDataset(str(tmp_path), "hmdb51").usable("test")
    assert "writing 1 embedded videos" in capsys.readouterr().out
    write(file, embedded(videos[::-1]), row_group_size=2)
    HubDataset(str(tmp_path), "hmdb51").usable("test")
    assert (tmp_path / clips[0].path).read_bytes() == videos[2]
    assert "writing 3 embedded videos" in capsys.readouterr().out


@pytest.mark.parametrize("statistics", [True, False])
def test_bytes_and_paths_in_one_file(tmp_path: Path, videos: list[bytes], statistics: bool) -> None:
    rows = embedded(videos)
    rows[1]["video"] = {"bytes": None, "path": "clips/b.avi"}
    write(tmp_path / "data/test.parquet", rows, row_group_size=2, write_statistics=statistics)
    (tmp_path / "data/clips").mkdir()
    (tmp_path / "data/clips/b.avi").write_bytes(videos[1])
    found = HubDataset(str(tmp_path), "hmdb51").usable("test")
    assert [c.id for c in found] == ["data/test/0", "data/clips/b", "data/test/2"]


@pytest.mark.parametrize("label", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_paths_and_names_in_plain_columns(tmp_path: Path, videos: list[bytes], label: Any) -> None:
    rows = [
        {"video": f"videos/{name}.mp4", "label": action, "note": "film"}
        for name, action in (("x", "Draw sword"), ("y", "walk"))
    ]
    rows.append({"video": f"hf://datasets/me/mine@{COMMIT}/videos/z.mp4", "label": "walk", "note": "other"})
    write(tmp_path / "all.parquet", rows, pa.string(), label)
    data = HubDataset(str(tmp_path), "hmdb51", files={"test": ("*.parquet",)}, source="note")
    assert [(c.id, c.path, c.action, c.source) for c in data.clips("test")] == [
        ("videos/x", "videos/x.mp4", "draw_sword", "film"),
        ("videos/y", "videos/y.mp4", "walk", "film"),
        ("videos/z", "videos/z.mp4", "walk", "other"),
    ]


def test_plain_bytes(tmp_path: Path, videos: list[bytes]) -> None:
    rows = [{"video": video, "label": name} for video, name in zip(videos, NAMES, strict=True)]
    write(tmp_path / "validation.parquet", rows, pa.binary(), pa.string())
    assert len(HubDataset(str(tmp_path), "hmdb51").usable("validation")) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata.csv", "file_name,label\na.mp4,sword\nsub/b.avi,walk\n"),
        ("metadata.jsonl", '{"file_name": "a.mp4", "label": "sword"}\n{"file_name": "sub/b.avi", "label": "walk"}\n'),
    ],
)
def test_folders_of_videos_with_a_table(tmp_path: Path, name: str, text: str) -> None:
    for split in ("train", "test"):
        (tmp_path / split / "sub").mkdir(parents=True)
        (tmp_path / split / name).write_text(text)
        for video in ("a.mp4", "sub/b.avi"):
            (tmp_path / split / video).touch()
    data = HubDataset(str(tmp_path), "hmdb51")
    assert [(c.id, c.path) for c in data.clips("test")] == [("test/a", "test/a.mp4"), ("test/sub/b", "test/sub/b.avi")]
    assert [c.id for c in data.clips("train")] == ["train/a", "train/sub/b"]


def write_card(root: Path, **front: Any) -> None:
    (root / "README.md").write_text(f"---\n{yaml.safe_dump(front)}---\n# Mine\n", encoding="utf-8")


def test_the_card_tells_splits_and_classes(tmp_path: Path, videos: list[bytes]) -> None:
    names = {str(i): name for i, name in enumerate(NAMES)}
    features = [{"name": "label", "dtype": {"class_label": {"names": names}}}, {"name": "video", "dtype": "video"}]
    parts = [{"split": "held_out", "path": ["a/*.parquet"]}, {"split": "train", "path": "b/x.jsonl"}]
    other = {"config_name": "other", "data_files": "*.csv"}
    card = {"configs": [other, {"config_name": "default", "data_files": parts}]}
    write_card(tmp_path, dataset_info={"features": features}, **card)
    rows = [{"video": f"{i}.mp4", "label": i} for i in (0, 2, -1, None)]
    table = pa.Table.from_pylist(rows)
    (tmp_path / "a").mkdir()
    pq.write_table(table, tmp_path / "a/0.parquet")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/x.jsonl").write_text('{"video": "t.mp4", "label": 1}\n')
    data = HubDataset(str(tmp_path), "hmdb51")
    assert [c.action for c in data.clips("held_out")] == ["walk", "sword"]
    assert [c.action for c in data.clips("train")] == ["draw_sword"]
    write_card(tmp_path, configs=[other, {**other, "config_name": "more"}])
    with pytest.raises(DataError, match="has the configurations other, more, and none is the default"):
        HubDataset(str(tmp_path), "hmdb51").clips("train")
    (tmp_path / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(DataError, match="the block between the lines --- is not valid YAML"):
        card_class_names(tmp_path, "label")


def test_rows_without_a_label_are_left_out_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "test.parquet", [{"video": {"path": f"{i}.mp4"}, "label": i} for i in (-1, 0)])
    assert [c.action for c in HubDataset(str(tmp_path), "hmdb51").clips("test")] == ["walk"]
    assert f"{file}: 1 of 2 rows have no label and are left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"video": {"path": "../a.mp4"}, "label": 0},
            r"The path '\.\./a\.mp4' of .*test.parquet, row 1 leaves the dataset's",
        ),
        ({"video": {"path": "/a.mp4"}, "label": 0}, r"The path '/a\.mp4' of .* leaves the dataset's root"),
        ({"video": {"path": "hf://datasets/a/b/../c.mp4"}, "label": 0}, r"The path '\.\./c.mp4' of .* leaves the"),
        (
            {"video": {"path": "https://x.org/a.mp4"}, "label": 0},
            "row 1: got 'https.*but must be a path below the repository",
        ),
        ({"video": None, "label": 0}, "row 1 has no video: neither its bytes nor a path"),
        ({"video": {"path": "a.mp4"}, "label": 7}, "row 1: got '7', but must be a class from 0 to 2"),
    ],
)
def test_malformed_rows(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    write(tmp_path / "test.parquet", [{"video": {"path": "b.mp4"}, "label": 1}, row])
    with pytest.raises(DataError, match=message):
        HubDataset(str(tmp_path), "hmdb51").clips("test")


def test_labels_that_are_no_classes(tmp_path: Path) -> None:
    file = write(tmp_path / "test.parquet", [{"video": "a.mp4", "label": "Walks"}], pa.string(), pa.string())
    with pytest.raises(DataError, match=r"row 0: got 'Walks', but must be one of the 51 actions of 'hmdb51'\..*'walk'"):
        HubDataset(str(tmp_path), "hmdb51").clips("test")
    pq.write_table(pa.Table.from_pylist([{"video": "a.mp4", "label": 3}]), file)
    with pytest.raises(
        DataError, match="the label is the number 3, but neither the file's schema nor the dataset card"
    ):
        HubDataset(str(tmp_path), "hmdb51").clips("test")
    pq.write_table(pa.Table.from_pylist([{"video": "a.mp4", "label": True}]), file)
    with pytest.raises(DataError, match="column 'label' is True, but a label must be a name or the number of a class"):
        HubDataset(str(tmp_path), "hmdb51").clips("test")


def test_columns_and_files_that_are_not_there(tmp_path: Path) -> None:
    def refused(message: str, **settings: Any) -> None:
        with pytest.raises(DataError, match=message):
            HubDataset(str(tmp_path), "hmdb51", **settings).clips("test")

    refused(r"There is no data file \(\*\.parquet, \*\.csv, \*\.jsonl\) below .*Folders; archives")
    file = write(tmp_path / "mine.parquet", [{"video": {"path": "a.mp4"}, "label": 0}])
    refused(r"mine.parquet: its path does not tell its split.*Set `files`, e.g. to \{test: \[mine.parquet\]\}")
    refused("matches the patterns of split 'test': x/", files={"test": ("x/*.parquet",)})
    refused(r"The path '\.\./\*' of pattern .* leaves the dataset's root", files={"test": ("../*",)})
    all_files = {"test": ("*.parquet",)}
    refused(
        r"no column 'lable'; its columns are video, label, note\. Did you mean 'label'", files=all_files, label="lable"
    )
    refused("column 'label' has type int64, but a video is a path, its bytes", files=all_files, video="label")
    refused("column 'note' is None, but must tell the long video", files=all_files, source="note")
    file.write_bytes(file.read_bytes()[:-9])
    refused(r"mine.parquet cannot be read as parquet \(.*\)\. Download it anew", files=all_files)
    with pytest.raises(
        DataError, match=r"The folder 'nowhere' of the dataset repository does not exist. Download it with"
    ):
        HubDataset("nowhere", "hmdb51").clips("test")


def test_download_at_a_pinned_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for revision in (None, "main", COMMIT[:12]):
        with pytest.raises(ConfigError, match="Give the commit to download, 40 hex digits"):
            HubDataset(str(tmp_path), "hmdb51", repo="me/mine", revision=revision)
    with pytest.raises(ConfigError, match="but no repo is given"):
        HubDataset(str(tmp_path), "hmdb51", revision=COMMIT)
    data = HubDataset(str(tmp_path / "root"), "hmdb51", repo="me/mine", revision=COMMIT)
    asked = []

    def deliver(repo: str, *, repo_type: str, revision: str, local_dir: Path) -> None:
        asked.append((repo, repo_type, revision))
        write(local_dir / "test.parquet", [{"video": {"path": "a.mp4"}, "label": 0}])

    with monkeypatch.context() as offline:
        offline.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        with pytest.raises(
            DataError, match=rf"me/mine cannot be downloaded at revision {COMMIT} \(.*offline.*hf download me/mine"
        ):
            data.prepare_data()
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", lambda *_, **__: None)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", deliver)
    for _ in range(2):
        data.prepare_data()
    assert asked == [("me/mine", "dataset", COMMIT)] and len(data.clips("test")) == 1
    with pytest.raises(DataError, match=rf"holds me/mine@{COMMIT}, but me/mine@{COMMIT[::-1]} is asked for"):
        HubDataset(str(tmp_path / "root"), "hmdb51", repo="me/mine", revision=COMMIT[::-1]).prepare_data()


def test_videos_are_not_read_for_the_list_of_clips(tmp_path: Path) -> None:
    rows = [{"video": {"bytes": bytes(2_000_000), "path": f"{i}.mp4"}, "label": 0} for i in range(20)]
    file = write(tmp_path / "test.parquet", rows, compression="none", use_dictionary=False)
    del rows
    assert file.stat().st_size > 40_000_000
    before = pa.total_allocated_bytes()
    peak = 0
    tracemalloc.start()
    for row in read_rows(file, Columns()):
        peak = max(peak, pa.total_allocated_bytes() - before)
        assert row.is_embedded
    assert peak + tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


CELLS = (
    st.none() | st.booleans() | st.integers(-2, 60) | st.text(max_size=4) | st.sampled_from(["../a", "walk", "a.mp4"])
)
CARD_KEYS = st.sampled_from(
    [
        "configs",
        "config_name",
        "data_files",
        "split",
        "path",
        "dataset_info",
        "features",
        "name",
        "dtype",
        "class_label",
        "names",
        "0",
    ]
)
CARDS = st.recursive(
    CELLS | st.sampled_from(["*", "label", "test"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CARD_KEYS, inner, max_size=4),
)
TEXTS = st.sampled_from(
    ['{"video": "a.mp4", "label": "walk"}', "\n", "video,label\n", "a.mp4,walk\n", '"', ",", "[", "\0"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.lists(st.fixed_dictionaries({"video": CELLS, "label": CELLS}), max_size=3)
    | st.lists(TEXTS | st.text(max_size=4), max_size=6).map("".join),
    st.sampled_from(["parquet", "jsonl", "csv"]),
    st.none()
    | st.text(max_size=12)
    | st.dictionaries(st.sampled_from(["configs", "dataset_info"]), CELLS | st.lists(CELLS)),
)
def test_whatever_a_repository_holds(tmp_path: Path, rows: Any, suffix: str, card: Any) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    file = tmp_path / f"test.{suffix}"
    try:
        if suffix == "parquet" and isinstance(rows, list):
            pq.write_table(pa.Table.from_pylist(rows), file)
        else:
            text = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)
            file.write_bytes(text.encode("utf-8", "surrogatepass"))
    except pa.ArrowException:
        return  # values of two types in one column are no table
    if card is not None:
        front = card if isinstance(card, str) else yaml.safe_dump(card)
        (tmp_path / "README.md").write_bytes(f"---\n{front}\n---\n".encode("utf-8", "surrogatepass"))
    try:
        clips = HubDataset(str(tmp_path), "hmdb51").clips("test")
    except ActdenyError:
        return
    for clip in clips:
        assert (tmp_path / check_path(clip.path, clip.id)).resolve().is_relative_to(tmp_path.resolve())
