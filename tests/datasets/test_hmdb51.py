from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_hmdb51
from actdeny_train.datasets.hmdb51 import HMDB51, Row, read_split
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import ClipKind

TAIL = "u_nm_np1_fr_med_0.avi"
ODD = "(HQ)_Rock&Roll!_#1;_[2+3]~@_walk_" + TAIL


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A split file for each class, with one clip each; walk has more."""
    folder = tmp_path / "testTrainMulti_7030_splits"
    folder.mkdir()
    for action in load_hmdb51().actions:
        (folder / f"{action}_test_split1.txt").write_text(f"Film_{action}_{TAIL} 1 \n")
    (folder / "walk_test_split1.txt").write_text(f"{ODD} 2 \nFilm_walk_{TAIL} 1 \nOther_walk_{TAIL} 0 \n")
    return tmp_path


def test_clips_by_class_and_flag(root: Path) -> None:
    data = HMDB51(str(root))
    assert len(data.clips("train")) == 51
    (odd,) = data.clips("test")
    assert (odd.id, odd.path, odd.kind) == (f"walk/{ODD[:-4]}", f"walk/{ODD}", ClipKind.PRESENCE)
    assert (odd.action, odd.source) == ("walk", "walk/(HQ)_Rock&Roll!_#1;_[2+3]~@")
    # The class of these nests in other names.
    actions = {clip.action: clip.source for clip in data.clips("train")}
    assert actions["sword"] == "sword/Film" and actions["draw_sword"] == "draw_sword/Film"


def test_odd_names_are_found_on_disk(root: Path) -> None:
    (root / "videos" / "walk").mkdir(parents=True)
    (root / "videos" / "walk" / ODD).touch()
    data = HMDB51(str(root))
    (odd,) = data.clips("test")
    assert odd.path == f"videos/walk/{ODD}" and data.video_path(odd).is_file()


@pytest.mark.parametrize(
    "line", [f"A_b_sword_{TAIL} 1 ", f"A_b_sword_{TAIL}\t1\r", f"  A_b_sword_{TAIL.replace('avi', 'mp4')}  1"]
)
def test_forms_of_a_row(tmp_path: Path, line: str) -> None:
    (tmp_path / "s.txt").write_text(line)
    assert list(read_split(tmp_path / "s.txt", "sword")) == [Row("sword", f"A_b_sword_{TAIL[:-4]}", "A_b", "train")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f"A_walk_{TAIL} 3",
            r"s.txt:2: got '3', but must be 0 \(not used\), 1 \(train\) or 2 \(test\) behind the name",
        ),
        (f"A_walk_{TAIL}", r"s.txt:2: got .*, but must be <film>_walk_<body>_<motion>_np<people>_"),
        (f"A_run_{TAIL} 1", r"s.txt:2: got 'A_run_u_nm_np1_fr_med_0.avi 1', but must be <film>_walk_"),
        (f"../A_walk_{TAIL} 1", r"s.txt:2: got '\.\./A_walk"),
        ("1", r"s.txt:2: got '1'"),
    ],
)
def test_malformed_rows(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "s.txt").write_text(f"B_walk_{TAIL} 1 \n{line}\n")
    with pytest.raises(DataError, match=message):
        list(read_split(tmp_path / "s.txt", "walk"))


def test_a_class_without_a_file(root: Path) -> None:
    folder = root / "testTrainMulti_7030_splits"
    (folder / "kick_ball_test_split1.txt").rename(folder / "kickball_test_split1.txt")
    with pytest.raises(
        DataError, match=r"HMDB51: none of kick_ball_test_split1.txt lies in .*Did you mean 'kickball_test_split1.txt'"
    ):
        HMDB51(str(root), str(folder)).clips("train")
    with pytest.raises(
        DataError,
        match=r"none of brush_hair_test_split2.txt lies in .*Set `annotations` to the folder of the 153 files",
    ):
        HMDB51(str(root), fold=2).clips("train")
    with pytest.raises(ConfigError, match=r"HMDB51: fold is 4, but there are the official splits 1, 2 and 3"):
        HMDB51(str(root), fold=4)


def test_a_film_in_two_splits_of_a_class(root: Path) -> None:
    with (root / "testTrainMulti_7030_splits" / "walk_test_split1.txt").open("a") as file:
        file.write(f"Film_walk_{TAIL.replace('_0', '_1')} 2\n")
    with pytest.raises(DataError, match="Source 'walk/Film' lies in two splits"):
        HMDB51(str(root)).clips("test")


rows = (
    st.lists(st.sampled_from([f"{ODD} 1 ", f"B_walk_{TAIL} 0"]) | st.text(max_size=60)).map("\n".join).map(str.encode)
)


@given(content=rows | st.binary())
def test_anything_else_raises_data_errors_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "hmdb51_fuzz.txt"
    path.write_bytes(content)
    try:
        assert all(row.split in ("train", "test", None) for row in read_split(path, "walk"))
    except DataError as error:
        assert "hmdb51_fuzz.txt" in str(error)


@pytest.mark.shared
@pytest.mark.parametrize("fold", [1, 2, 3])
def test_official_splits(shared: Path, fold: int) -> None:
    folder = shared / "annotations" / "hmdb51"
    data = HMDB51("/nowhere", str(folder / "testTrainMulti_7030_splits"), fold)
    assert (len(data.clips("train")), len(data.clips("test"))) == (3570, 1530)
    rows = [
        row
        for action in data.labels.actions
        for row in read_split(folder / "testTrainMulti_7030_splits" / f"{action}_test_split{fold}.txt", action)
    ]
    assert sum(row.split is None for row in rows) == 1666
    # A list made elsewhere from the videos themselves.
    videos = (folder / "derived" / "hmdb_videos_list.txt").read_text().split()
    assert {f"{row.action}/{row.stem}" for row in rows} == set(videos) and len(videos) == 6766


@pytest.mark.shared
def test_official_splits_part_films_across_classes_alone(shared: Path) -> None:
    data = HMDB51("/nowhere", str(shared / "annotations" / "hmdb51" / "testTrainMulti_7030_splits"))
    films = [{clip.source.split("/", 1)[1] for clip in data.clips(split)} for split in ("train", "test")]
    assert (len(films[0] | films[1]), len(films[0] & films[1])) == (1352, 133)
