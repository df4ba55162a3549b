from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.datasets.ucf101 import UCF101, Row, read_list
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import ClipKind

TRAIN = "Archery/v_Archery_g08_c01.avi 3\r\nHandstandPushups/v_HandStandPushups_g09_c02.avi 37\r\n"
TEST = "Archery/v_Archery_g01_c01.avi\r\n\r\nYoYo/v_YoYo_g02_c05.avi\r\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ucfTrainTestlist"
    folder.mkdir()
    (folder / "trainlist01.txt").write_bytes(TRAIN.encode())
    (folder / "testlist01.txt").write_bytes(TEST.encode())
    classes = "".join(f"{i} {action}\r\n" for i, action in enumerate(load_ucf101().actions, start=1))
    (folder / "classInd.txt").write_bytes(classes.encode())
    return tmp_path


def test_clips_of_both_splits(root: Path) -> None:
    data = UCF101(str(root))
    assert [(c.id, c.action, c.kind, c.split, c.source, c.path) for c in data.clips("train")] == [
        ("Archery/v_Archery_g08_c01", "Archery", ClipKind.PRESENCE, "train", "Archery/g08", "Archery/v_Archery_g08_c01.avi"),
        ("HandstandPushups/v_HandStandPushups_g09_c02", "HandstandPushups", ClipKind.PRESENCE, "train", "HandstandPushups/g09",
         "HandstandPushups/v_HandStandPushups_g09_c02.avi"),
    ]  # fmt: skip
    assert [c.id for c in data.clips("test")] == ["Archery/v_Archery_g01_c01", "YoYo/v_YoYo_g02_c05"]


@pytest.mark.parametrize(
    "path",
    [
        "UCF-101/HandStandPushups/v_HandStandPushups_g09_c02.avi",
        "v_HandstandPushups_g09_c02.mp4",
        "train/HandstandPushups/v_HandStandPushups_g09_c02.avi",
    ],
)
def test_layouts_on_disk(root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).touch()
    data = UCF101(str(root))
    assert [clip.path for clip in data.clips("train")] == ["Archery/v_Archery_g08_c01.avi", path]
    assert data.video_path(data.clips("train")[1]).is_file()


@pytest.mark.parametrize(
    "line",
    [
        "HandStandPushups/v_HandStandPushups_g09_c02.avi 37",
        "HandstandPushups/v_HandStandPushups_g09_c02.avi",
        "HandstandPushups/v_HandStandPushups_g09_c02.avi,36",
        " UCF-101/HandstandPushups/v_HandStandPushups_g09_c02.mp4\t37 \r",
        "HandstandPushups\\v_HandStandPushups_g09_c02.avi 37",
    ],
)
def test_forms_of_a_row(tmp_path: Path, line: str) -> None:
    (tmp_path / "list.txt").write_text(line)
    assert list(read_list(tmp_path / "list.txt", load_ucf101())) == [
        Row("HandstandPushups", "v_HandStandPushups_g09_c02", "g09")
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("v_Archery_g01_c01.avi", r"list.txt:2: got 'v_Archery_g01_c01.avi', but must be Class/v_Class_gNN_cNN.avi, optionally"),
        ("Archery/../../v_Archery_g01_c01.avi", r"list.txt:2: got '\.\.', but must be one of UCF101's 101 classes"),
        ("Archry/v_Archery_g01_c01.avi", r"list.txt:2: got 'Archry', but must be .* Did you mean 'Archery'\? Correct or rem"),
        ("Archery/v_Archery_g01_c01.avi 4", r"list.txt:2: got \"number of class Archery '4'\", but must be a whole number from 2 to 3"),
        ("Archery/v_Archery_g01_c01.avi 3 3", r"list.txt:2: got \"number of class Archery '3 3'\""),
        ("Archery/v_Archery_g01_c01.txt", r"list.txt:2: got"),
    ],
)  # fmt: skip
def test_malformed_rows(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "list.txt").write_text(f"{TEST.splitlines()[0]}\n{line}\n")
    with pytest.raises(DataError, match=message):
        list(read_list(tmp_path / "list.txt", load_ucf101()))


def test_a_missing_list_is_named(root: Path) -> None:
    with pytest.raises(DataError) as error:
        UCF101(str(root), fold=3).clips("train")
    assert str(error.value) == (
        f"UCF101: none of trainlist03.txt lies in '{root}/ucfTrainTestlist', '{root}/annotations', '{root}'. Did you mean "
        "'trainlist01.txt' or 'testlist01.txt'? Set `annotations` to the folder of the official lists "
        "(UCF101TrainTestSplits-RecognitionTask.zip, folder ucfTrainTestlist)."
    )


def test_unknown_fold() -> None:
    with pytest.raises(ConfigError, match=r"UCF101: fold is 0, but there are the official splits 1, 2 and 3"):
        UCF101("/x", fold=0)


def test_a_group_in_two_splits(root: Path) -> None:
    with (root / "ucfTrainTestlist" / "testlist01.txt").open("a") as file:
        file.write("Archery/v_Archery_g08_c02.avi\n")
    with pytest.raises(DataError, match="Source 'Archery/g08' lies in two splits"):
        UCF101(str(root)).clips("train")


def test_classes_in_another_order(root: Path) -> None:
    path = root / "ucfTrainTestlist" / "classInd.txt"
    path.write_text(path.read_text().replace("1 ApplyEyeMakeup", "1 Archery"))
    with pytest.raises(
        DataError, match=r"classInd.txt: class 0 \(counted from 0\) is 'Archery', but is 'ApplyEyeMakeup'"
    ):
        UCF101(str(root)).clips("train")


rows = (
    st.lists(st.sampled_from([*TRAIN.split("\r\n"), *TEST.split("\r\n")]) | st.text(max_size=40))
    .map("\n".join)
    .map(str.encode)
)


@given(content=rows | st.binary())
def test_anything_else_raises_data_errors_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "ucf101_fuzz.txt"
    path.write_bytes(content)
    try:
        assert all(row.action in load_ucf101().actions for row in read_list(path, load_ucf101()))
    except DataError as error:
        assert "ucf101_fuzz.txt" in str(error)


@pytest.mark.shared
@pytest.mark.parametrize(("fold", "train", "test"), [(1, 9537, 3783), (2, 9586, 3734)])
def test_official_lists(shared: Path, fold: int, train: int, test: int) -> None:
    data = UCF101("/nowhere", str(shared / "annotations" / "ucf101" / "ucfTrainTestlist"), fold)
    assert (len(data.clips("train")), len(data.clips("test"))) == (train, test)
    assert {clip.action for clip in data.clips("test")} == set(load_ucf101().actions)
    odd = [clip for split in ("train", "test") for clip in data.clips(split) if f"v_{clip.action}_" not in clip.id]
    assert len(odd) == 128 and {clip.action for clip in odd} == {"HandstandPushups"}
