from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from torch.utils.data import DataLoader

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.datasets.base import ClipDataModule, check_path
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, ClipKind
from actdeny_train.video.encode import write_video


class Listed(ClipDataModule):
    """Clips given by the test."""

    def __init__(self, root: Path, clips: Iterable[Clip]) -> None:
        super().__init__(root, Screening(num_workers=1))
        self.given = clips

    @property
    def labels(self) -> LabelSet:
        return load_ucf101()

    def read_clips(self) -> Iterable[Clip]:
        return self.given


def make_clip(id: str, split: str = "train", source: str = "g01", path: str = "a.mp4") -> Clip:
    return Clip(id=id, path=path, action="Archery", kind=ClipKind.PRESENCE, split=split, source=source)


def test_clips_of_a_split_in_the_order_given(tmp_path: Path) -> None:
    clips = [make_clip("b"), make_clip("t", "test", "g02"), make_clip("a")]
    data = Listed(tmp_path, iter(clips))
    assert data.clips("train") == [clips[0], clips[2]]
    assert data.clips("test") == [clips[1]]


def test_unknown_split_names_those_with_clips(tmp_path: Path) -> None:
    data = Listed(tmp_path, [make_clip("a"), make_clip("t", "test", "g02")])
    with pytest.raises(DataError) as error:
        data.clips("tset")
    assert str(error.value) == (
        "Listed has no clip in split 'tset'. Splits with clips: test, train. Did you mean 'test'? Name one of these, or add clips to the "
        "dataset's list."
    )


def test_source_in_two_splits(tmp_path: Path) -> None:
    data = Listed(tmp_path, [make_clip("a"), make_clip("b"), make_clip("c", "test")])
    with pytest.raises(DataError) as error:
        data.clips("train")
    assert str(error.value) == (
        "Source 'g01' lies in two splits: clip 'a' in 'train' and clip 'c' in 'test'. All clips cut from one source must lie in one split, "
        "or scores measure memory. Move them into one split, or correct `source` if the clips come from different long videos."
    )


def test_repeated_id(tmp_path: Path) -> None:
    data = Listed(tmp_path, [make_clip("a", path="x.mp4"), make_clip("a", path="y.mp4")])
    with pytest.raises(DataError, match=r"Two clips have the id 'a': 'x\.mp4' and 'y\.mp4'.*ids must be unique"):
        data.clips("train")


def test_missing_video_root(tmp_path: Path) -> None:
    root = tmp_path / "nowhere"
    with pytest.raises(DataError) as error:
        Listed(root, [make_clip("a")]).usable("train")
    text = str(error.value)
    assert text.startswith(f"The video root of Listed is missing: {str(root)!r} (resolved: {root}) is not a folder.")
    assert "folder that clip paths such as 'a.mp4' are relative to" in text
    assert "Set the dataset's `root` in the configuration" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "path", ["../a.mp4", "x/../../a.mp4", "/etc/passwd", "..\\a.mp4", "C:\\a.mp4", "C:a.mp4", "", "."]
)
def test_paths_that_leave_the_root(tmp_path: Path, path: str) -> None:
    with pytest.raises(DataError, match=r"leaves the dataset's root.*relative to the root, without '\.\.'"):
        Listed(tmp_path, []).video_path(make_clip("a", path=path))


def test_path_that_utf8_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"The path of clip 'a' is 'caf\\udce9\.mp4', which UTF-8 cannot hold.*Rename it"
    ):
        Listed(tmp_path, []).video_path(make_clip("a", path="caf\udce9.mp4"))


@pytest.mark.parametrize("path", ["a.mp4", "x/y/a b#[1].mp4", "..a/b..mp4", "-a.mp4"])
def test_paths_below_the_root(path: str) -> None:
    assert check_path(path, "here") == path


def test_linked_folders_below_the_root_are_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "videos").symlink_to(tmp_path / "disk")
    write_video(tmp_path / "disk" / "a.mp4", np.zeros((4, 32, 32, 3), np.uint8), 10)
    data = Listed(tmp_path / "root", [make_clip("a", path="videos/a.mp4")])
    assert data.usable("train") == data.clips("train")


def test_feeding_only_usable_clips_and_telling_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_video(tmp_path / "a.mp4", np.zeros((4, 32, 32, 3), np.uint8), 10)
    (tmp_path / "broken.mp4").write_bytes(b"not a video")
    clips = [make_clip("a"), make_clip("broken", path="broken.mp4"), make_clip("gone", path="gone.mp4")]
    data = Listed(tmp_path, clips)
    fed: list[list[Clip]] = []

    def make_loader(usable: list[Clip]) -> DataLoader:
        fed.append(usable)
        return DataLoader(usable, batch_size=None)

    data.feed(make_loader)
    assert list(data.train_dataloader()) == [clips[0]]
    assert fed == [[clips[0]]]
    assert [entry.id for entry in data.quarantine("train")] == ["broken", "gone"]
    printed = capsys.readouterr().out
    assert "2 of 3 train clips quarantined (broken: video '" in printed
    assert "gone.mp4' does not exist" in printed
    path = data.write_quarantine(tmp_path / "out")
    assert path.name == "quarantine.jsonl" and len(path.read_text().splitlines()) == 2


def test_no_usable_clip(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        Listed(tmp_path, [make_clip("a"), make_clip("b", path="b.mp4")]).usable("train")
    text = str(error.value)
    assert text.startswith(
        "No clip of split 'train' of Listed can be used: all 2 are quarantined, the first one, 'a.mp4' under "
    )
    assert "does not exist" in text and "Check that `root` is the folder" in text
