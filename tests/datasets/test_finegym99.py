from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_finegym99
from actdeny_train.datasets.finegym99 import FineGym99, Row, read_categories, read_rows
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import ClipKind

A = "A0xAXXysHUo_E_002184_002237_A_0035_0036"
B = "-_EwWG6_A_E_E_003643_003675_A_0024_0024"
C = "0LtLS9wROrk_E_002407_002435_A_0003_0005"
LABELS = load_finegym99()


def put(folder: Path, train: str = f"{A} 93\n{B} 70\n", val: str = f"{C} 58\r\n{C[:-4]}0009 1") -> str:
    (folder / "gym99_train_element_v1.1.txt").write_bytes(train.encode())
    (folder / "gym99_val_element.txt").write_bytes(val.encode())
    return str(folder)


def test_clips_of_both_splits(tmp_path: Path) -> None:
    data = FineGym99(put(tmp_path))
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / f"{B}.mp4").touch()
    assert [(c.id, c.kind, c.source, c.path) for c in data.clips("train")] == [
        (A, ClipKind.PRESENCE, "A0xAXXysHUo", f"{A}.mp4"),
        (B, ClipKind.PRESENCE, "-_EwWG6_A_E", f"train/{B}.mp4"),
    ]
    assert data.clips("train")[1].action == "(BB) salto backward tucked [BB_dismounts]"
    assert [clip.action for clip in data.clips("val")] == [
        "(BB) salto backward tucked [BB_flight_salto]",
        LABELS.actions[1],
    ]


def test_train_clips_in_videos_of_val_are_left_out_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = put(tmp_path, train=f"{A} 93\n{C[:-4]}0007 3\n")
    assert [clip.id for clip in FineGym99(root).clips("train")] == [A]
    assert (
        f"{tmp_path}/gym99_train_element_v1.1.txt: 1 of 2 train clips lie in videos of val and are left out (`shared_videos: keep` "
        "keeps them)" in capsys.readouterr().out
    )


def test_train_clips_in_videos_of_val_kept(tmp_path: Path) -> None:
    data = FineGym99(put(tmp_path, train=f"{A} 93\n{C[:-4]}0007 3\n"), shared_videos="keep")
    assert [clip.source for clip in data.clips("train")] == ["A0xAXXysHUo", "0LtLS9wROrk (train)"]
    assert {clip.source for clip in data.clips("val")} == {"0LtLS9wROrk"}
    with pytest.raises(
        ConfigError, match=r"shared_videos is 'keeep', but must be 'drop' or 'keep'\. Did you mean 'keep'"
    ):
        FineGym99("/x", shared_videos="keeep")  # type: ignore[arg-type]


def test_val_alone_is_enough(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "gym99_train_element_v1.1.txt").unlink()
    assert len(FineGym99(str(tmp_path)).clips("val")) == 2
    (tmp_path / "gym99_val_element.txt").rename(tmp_path / "gym99_val_elements.txt")
    with pytest.raises(
        DataError, match=r"FineGym99: none of gym99_val_element.txt, .* lies in .*Did you mean 'gym99_val_elements.txt'"
    ):
        FineGym99(str(tmp_path)).clips("val")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("val.txt", f"{A} 93\r\n\r\n"),
        ("val.txt", f"  {A}.mp4\t93"),
        ("val99.csv", f"full_id,class,event\n{A},93,4\n"),
        ("val99.csv", f"class,full_id\r\n93,{A}"),
    ],
)
def test_forms_of_rows(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    assert list(read_rows(tmp_path / name, LABELS)) == [Row(A, LABELS.actions[93], "A0xAXXysHUo")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", f"{A} 99", r"v.txt:1: got \"label '99'\", but must be a whole number from 0 to 98 as label"),
        ("v.txt", A, r"v.txt:1: got .*, but must be an id and the number of its class"),
        ("v.txt", f"{A} 9 3", r"v.txt:1: got .*, but must be an id and the number of its class"),
        (
            "v.txt",
            "../x 3",
            r"v.txt:1: got '\.\./x', but must be an id such as A0xAXXysHUo_E_002184_002237_A_0035_0036",
        ),
        (
            "v.csv",
            f"id,class\n{A},1",
            r"v.csv:1: got 'id,class', but must be a header with the columns full_id and class",
        ),
        ("v.csv", f"full_id,class\n{A}", r"v.csv:2: got .*, but must be 2 values: full_id, class"),
    ],
)
def test_malformed_rows(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        list(read_rows(tmp_path / name, LABELS))


def write_categories(path: Path, names: list[str]) -> None:
    lines = [f"Clabel: {i:3}; set: 33; Glabel: {i + 7:3}; {name}     " for i, name in enumerate(names)]
    path.write_text("\r\n".join(lines))


def test_categories_must_agree(tmp_path: Path) -> None:
    root, path = put(tmp_path), tmp_path / "gym99_categories.txt"
    names = [action.split(" [")[0] for action in LABELS.actions]
    write_categories(path, names)
    assert read_categories(path) == names
    assert len(FineGym99(root).clips("val")) == 2
    write_categories(path, [names[1], names[0], *names[2:]])
    with pytest.raises(
        DataError, match=r"does not list the 99 classes of Gym99: class 0 is '\(VT\).*', but should be '\(VT\)"
    ):
        FineGym99(root).clips("val")
    write_categories(path, names[:-1])
    with pytest.raises(DataError, match=r"does not list the 99 classes of Gym99: 98 classes"):
        FineGym99(root).clips("val")
    path.write_text("Clabel: 1; set: 1; Glabel: 1; (VT) x")
    with pytest.raises(DataError, match=r"gym99_categories.txt:1: got .*, but must be 'Clabel: 0; set: <set>; Glabel"):
        FineGym99(root).clips("val")


rows = st.lists(st.sampled_from([f"{A} 1", f"{B} 98", "full_id,class", f"{A},3"]) | st.text(max_size=50))


@pytest.mark.parametrize("suffix", [".txt", ".csv"])
@given(content=rows.map("\n".join).map(str.encode) | st.binary())
def test_anything_else_raises_data_errors_alone(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"gym_fuzz{suffix}"
    path.write_bytes(content)
    for reader in (lambda: list(read_rows(path, LABELS)), lambda: read_categories(path)):
        try:
            reader()
        except DataError as error:
            assert path.name in str(error)


@pytest.mark.shared
def test_official_files(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(shared / "annotations" / "finegym99")
    data = FineGym99("/nowhere", folder)
    assert (len(data.clips("train")), len(data.clips("val"))) == (26_320 - 5_560, 8_521)
    assert "5560 of 26320 train clips lie in videos of val" in capsys.readouterr().out
    official = FineGym99("/nowhere", folder, shared_videos="keep")
    assert (len(official.clips("train")), len(official.clips("val"))) == (26_320, 8_521)
    assert len({clip.source for clip in official.clips("val")}) == 65
    assert len({c.source for c in official.clips("train") if c.source.endswith("(train)")}) == 40
    assert {clip.action for clip in data.clips("val")} == set(LABELS.actions)


@pytest.mark.shared
def test_other_published_files(shared: Path) -> None:
    folder = shared / "annotations" / "finegym99"
    val = {row.id: row for row in read_rows(folder / "gym99_val_element.txt", LABELS)}
    derived = list(read_rows(folder / "derived" / "val99.head300.csv", LABELS))
    assert len(derived) == 299 and all(val[row.id] == row for row in derived)
    assert len(read_categories(folder / "gym288_categories.txt")) == 288
    assert len(set(read_categories(folder / "gym99_categories.txt"))) == 98
