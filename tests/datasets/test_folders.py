from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.datasets.folders import Folders
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import ClipKind


def touch(root: Path, *names: str) -> str:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return str(root)


def test_clips_of_split_folders(tmp_path: Path) -> None:
    root = touch(
        tmp_path,
        "train/playing_guitar/a.mp4",
        "train/Massaging persons head/[b] #1.avi",
        "test/abseiling/c.d.mp4",
        "test/abseiling/notes.txt",
        "other/abseiling/e.mp4",
    )
    data = Folders(root, "kinetics400")
    assert [(c.id, c.action, c.kind, c.source, c.path) for c in data.clips("train")] == [
        ("train/massaging person's head/[b] #1", "massaging person's head", ClipKind.PRESENCE,
         "train/massaging person's head/[b] #1.avi", "train/Massaging persons head/[b] #1.avi"),
        ("train/playing guitar/a", "playing guitar", ClipKind.PRESENCE, "train/playing guitar/a.mp4", "train/playing_guitar/a.mp4"),
    ]  # fmt: skip
    assert [clip.id for clip in data.clips("test")] == ["test/abseiling/c.d"]
    assert all(data.video_path(clip).is_file() for clip in data.clips("train"))


def test_clips_of_a_split_file(tmp_path: Path) -> None:
    root = touch(tmp_path, "Archery/a.mp4", "videos/Archery/b.mp4")
    (tmp_path / "splits.csv").write_text('path,split\r\nArchery/a.mp4,train\r\n\r\n"videos/Archery/b, 2.mp4",dev\r\n')
    data = Folders(root, "ucf101", splits=("train", "dev"), split_file=str(tmp_path / "splits.csv"))
    assert [(c.id, c.path, c.source) for c in data.clips("train")] == [("Archery/a", "Archery/a.mp4", "Archery/a.mp4")]
    assert [clip.path for clip in data.clips("dev")] == ["videos/Archery/b, 2.mp4"]


def test_sources_of_a_split_file(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("path,split,source\nArchery/a.mp4,train,film 1\nArchery/b.mp4,test,film 1\n")
    data = Folders(str(tmp_path), "ucf101", split_file=str(tmp_path / "s.csv"))
    with pytest.raises(DataError, match="Source 'film 1' lies in two splits"):
        data.clips("train")


def test_sources_by_a_pattern(tmp_path: Path) -> None:
    root = touch(
        tmp_path,
        "train/Archery/v_Archery_g01_c01.avi",
        "train/Archery/v_Archery_g01_c02.avi",
        "test/Archery/x_g02_c1.avi",
    )
    data = Folders(root, "ucf101", source_pattern=r"_(g[0-9]+)_")
    assert [clip.source for clip in data.clips("train")] == ["Archery/g01", "Archery/g01"]
    touch(tmp_path, "test/Archery/other.avi")
    with pytest.raises(
        DataError, match=r"The video name 'other.avi' \('test/Archery/other.avi' below .* does not hold the source_pat"
    ):
        Folders(root, "ucf101", source_pattern=r"_(g[0-9]+)_").clips("test")
    with pytest.raises(DataError, match=r"does not hold the source_pattern '\(g\[0-9\]\+\)\|r'"):
        Folders(root, "ucf101", source_pattern=r"(g[0-9]+)|r").clips("test")
    (tmp_path / "test" / "Archery" / "other.avi").unlink()
    touch(tmp_path, "test/Archery/v_Archery_g01_c03.avi")
    with pytest.raises(DataError, match="Source 'Archery/g01' lies in two splits"):
        Folders(root, "ucf101", source_pattern=r"_(g[0-9]+)_").clips("test")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", r"source_pattern '\(' is not a regular expression"),
        ("g", r"source_pattern 'g' has no group: what stands in round"),
    ],
)
def test_malformed_patterns(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Folders("/x", "ucf101", source_pattern=pattern)


def test_labels_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({"Wink!": "A person is winking.", "Nod": "A person is nodding."})
    )
    root = touch(tmp_path, "train/wink/a.mp4")
    data = Folders(root, str(tmp_path / "mine.yaml"))
    assert [clip.action for clip in data.clips("train")] == ["Wink!"] and data.labels.name == "mine"
    with pytest.raises(DataError, match=r"The label set 'none.yaml' does not exist"):
        Folders(root, "none.yaml")
    with pytest.raises(DataError, match=r"Unknown label set 'ucf'\. Did you mean 'ucf101'"):
        Folders(root, "ucf")


def test_a_folder_that_is_no_class(tmp_path: Path) -> None:
    root = touch(tmp_path, "train/Archry/a.mp4")
    with pytest.raises(DataError) as error:
        Folders(root, "ucf101").clips("train")
    assert str(error.value) == (
        f"{tmp_path}/train/Archry/a.mp4: the folder 'Archry' is not called like one of the 101 actions of label set 'ucf101'. Did you mean "
        "'Archery'? A video must lie in the folder of its action. Rename or move it."
    )


def test_no_split_folder(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"has none of the folders train, val, test: videos must lie in <split>/<class>/\. Set `root`"
    ):
        Folders(str(tmp_path), "ucf101").clips("train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("file,split\n", r"s.csv:1: got 'file,split', but must be the header path,split or path,split,source"),
        (
            "path,split\nArchery/a.mp4,trian\n",
            r"s.csv:2: got 'trian', but must be one of the splits train, val, test\. Did you mean 'tr",
        ),
        ("path,split\nArchery/a.mp4\n", r"s.csv:2: got 'Archery/a.mp4', but must be 2 values, none empty: path, split"),
        (
            "path,split,source\nArchery/a.mp4,train,\n",
            r"s.csv:2: got 'Archery/a.mp4,train,', but must be 3 values, none empty",
        ),
        ("path,split\n../Archery/a.mp4,train\n", r"The path '../Archery/a.mp4' of .*s.csv:2 leaves the dataset's root"),
        (
            "path,split\n/data/Archery/a.mp4,train\n",
            r"The path '/data/Archery/a.mp4' of .*s.csv:2 leaves the dataset's root",
        ),
        ("path,split\na.mp4,train\n", r"s.csv:2: the folder '' is not called like one of the 101 actions"),
        ("path,split\nArchery/a.mp4,train\nArchery/a.mp4,train\n", r"Two clips have the id 'Archery/a'"),
    ],
)
def test_malformed_split_files(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "s.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        Folders(str(tmp_path), "ucf101", split_file=str(tmp_path / "s.csv")).clips("train")


rows = st.lists(
    st.sampled_from(["path,split", "Archery/a.mp4,train", "Archery/,test", ".,test"]) | st.text(max_size=30)
)


@given(content=rows.map("\n".join).map(str.encode) | st.binary())
def test_anything_else_raises_data_errors_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "folders_fuzz.csv"
    path.write_bytes(content)
    try:
        assert all(
            clip.action == "Archery" for clip in Folders("/nowhere", "ucf101", split_file=str(path)).read_clips()
        )
    except DataError as error:
        assert "folders_fuzz.csv" in str(error)
