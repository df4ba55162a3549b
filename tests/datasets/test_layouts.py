from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.datasets.layouts import VideoIndex, list_videos
from actdeny_train.errors import DataError


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_videos_in_order_whatever_their_names(tmp_path: Path) -> None:
    touch(tmp_path, "b/[x]#;&!.avi", "b/A.MP4", "a/c/z.webm", "a/._z.webm", ".cache/z.mp4", "b/x.avi.txt", "b/x.jpg")
    assert list(list_videos(tmp_path)) == ["a/c/z.webm", "b/A.MP4", "b/[x]#;&!.avi"]
    assert list(list_videos(tmp_path / "nowhere")) == []


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    touch(tmp_path, "store/x.avi", "root/y.avi")
    (tmp_path / "root" / "videos").symlink_to(tmp_path / "store")
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root")
    assert list(list_videos(tmp_path / "root")) == ["y.avi", "videos/x.avi"]


@pytest.mark.parametrize(
    ("on_disk", "found"),
    [
        ([], "walk/x.avi"),
        (["walk/x.avi"], "walk/x.avi"),
        (["x.mp4"], "x.mp4"),
        (["clips/deep/Walk/x.mkv", "other.avi"], "clips/deep/Walk/x.mkv"),
        (["run/x.avi", "walk/x.avi"], "walk/x.avi"),
        (["run/x.avi", "videos/walk/x.mp4"], "videos/walk/x.mp4"),
        (["test/x.avi", "train/x.avi"], "train/x.avi"),
        (["walk/x.mp4", "walk/x.avi"], "walk/x.avi"),
        (["walk/x.mp4", "a/walk/x.avi"], "a/walk/x.avi"),
        (["walk/x.avi", "a/walk/x.avi"], "walk/x.avi"),
    ],
)
def test_finds_a_video_where_it_lies(tmp_path: Path, on_disk: list[str], found: str) -> None:
    touch(tmp_path, *on_disk)
    assert VideoIndex(tmp_path).find("walk/x.avi", folders=("walk", "train")) == found


def test_two_videos_for_one_clip(tmp_path: Path) -> None:
    touch(tmp_path, "small/x.avi", "large/x.avi")
    with pytest.raises(DataError) as error:
        VideoIndex(tmp_path).find("walk/x.avi", folders=("walk",))
    assert str(error.value) == (
        f"Below '{tmp_path}' lie 2 videos that may be 'walk/x.avi', such as 'large/x.avi' and 'small/x.avi'. Set `root` to the folder "
        "that holds each clip once, or move the others away."
    )


def test_the_same_stem_goes_before_the_same_key(tmp_path: Path) -> None:
    touch(tmp_path, "abc_1.mp4", "abc_2.mp4")
    index = VideoIndex(tmp_path, lambda stem: stem[:3])
    assert index.find("val/abc_2.mp4") == "abc_2.mp4"
    with pytest.raises(DataError, match=r"lie 2 videos that may be 'val/abc_3.mp4'"):
        index.find("val/abc_3.mp4")


names = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(stem=names.filter(lambda name: not name.startswith(".") and not name.endswith(".")))
def test_any_name_is_found(tmp_path_factory: pytest.TempPathFactory, stem: str) -> None:
    root = tmp_path_factory.mktemp("any")
    (root / f"{stem}.avi").touch()
    assert VideoIndex(root).find(f"class/{stem}.avi") == f"{stem}.avi"
