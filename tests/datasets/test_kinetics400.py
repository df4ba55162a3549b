import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_kinetics400
from actdeny_train.datasets.kinetics400 import Kinetics400, Row, read_rows
from actdeny_train.errors import DataError
from actdeny_train.types import ClipKind

HEADER = "label,youtube_id,time_start,time_end,split,is_cc"
VAL = f"{HEADER}\nabseiling,0wR5jVB-WPk,417,427,val,0\nmassaging person's head,-_y_Nz99xM-,6,16,val,1\n"
TEST = "youtube_id,time_start,time_end,split\n3caPS4FHFF8,36,46,test\n"
HEAD = "massaging person's head"
LABELS = load_kinetics400()


def put(folder: Path, name: str, content: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    return folder / name


@pytest.mark.parametrize("name", ["kinetics-400_val.csv", "val.csv", "validate.csv", "k400_val.csv"])
def test_clips_of_a_split(tmp_path: Path, name: str) -> None:
    put(tmp_path / "annotations", name, VAL)
    clips = Kinetics400(str(tmp_path)).clips("val")
    assert [(c.id, c.action, c.kind, c.source, c.path) for c in clips] == [
        (
            "0wR5jVB-WPk_000417_000427",
            "abseiling",
            ClipKind.PRESENCE,
            "0wR5jVB-WPk",
            "val/0wR5jVB-WPk_000417_000427.mp4",
        ),
        ("-_y_Nz99xM-_000006_000016", HEAD, ClipKind.PRESENCE, "-_y_Nz99xM-", "val/-_y_Nz99xM-_000006_000016.mp4"),
    ]


def test_clips_without_a_label_are_left_out_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "val.csv", VAL)
    put(tmp_path, "test.csv", TEST)
    data = Kinetics400(str(tmp_path))
    with pytest.raises(DataError, match=r"no clip in split 'test'\. Splits with clips: val"):
        data.clips("test")
    assert f"{tmp_path}/test.csv: 1 of 1 clips have no label and are left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("on_disk", "found"),
    [
        (["-_y_Nz99xM-.mp4"], 0),
        (["val/massaging_persons_head/-_y_Nz99xM-_000006_000016.mkv"], 0),
        (["massaging person's head/-_y_Nz99xM-_000005_000015.mp4"], 0),
        (["train/-_y_Nz99xM-_000006_000016.mp4", "val/-_y_Nz99xM-_000006_000016.mp4"], 1),
        (["replacement/-_y_Nz99xM-_000006_000016.mp4", "val/-_y_Nz99xM-_000006_000016.mp4"], 0),
        (["-_y_Nz99xM-.mp4", "-_y_Nz99xM-_000006_000016.mp4"], 1),
        (["petting cat/-_y_Nz99xM-.mp4", "massaging_person's_head/-_y_Nz99xM-.mp4"], 1),
    ],
)
def test_layouts_on_disk(tmp_path: Path, on_disk: list[str], found: int) -> None:
    put(tmp_path, "val.csv", VAL)
    for path in on_disk:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert Kinetics400(str(tmp_path)).clips("val")[1].path == on_disk[found]


def test_clips_that_youtube_lost_are_quarantined(tmp_path: Path, small_clips: Path) -> None:
    put(tmp_path, "val.csv", VAL)
    video = next(path for path in sorted(small_clips.rglob("*")) if path.suffix in (".mp4", ".avi", ".mkv"))
    shutil.copy(video, tmp_path / f"0wR5jVB-WPk{video.suffix}")
    data = Kinetics400(str(tmp_path))
    assert [clip.source for clip in data.usable("val")] == ["0wR5jVB-WPk"]
    (lost,) = data.quarantine("val")
    assert lost.id == "-_y_Nz99xM-_000006_000016" and "val/-_y_Nz99xM-_000006_000016.mp4" in lost.reason


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (f"\ufeff{HEADER}\r\n{HEAD},-_y_Nz99xM-,6,16,val,1\r\n", Row(HEAD, "-_y_Nz99xM-", "-_y_Nz99xM-_000006_000016")),
        ("youtube_id,label,time_end,time_start\n-_y_Nz99xM-,Massaging_Persons_Head,16.0,6.0\n",
         Row(HEAD, "-_y_Nz99xM-", "-_y_Nz99xM-_000006_000016")),
        (f'"{HEAD}",-_y_Nz99xM-,6,16,validate,1\n', Row(HEAD, "-_y_Nz99xM-", "-_y_Nz99xM-_000006_000016")),
        ("-_y_Nz99xM-,6,16,val\n", Row(None, "-_y_Nz99xM-", "-_y_Nz99xM-_000006_000016")),
        (f"{HEADER}\n,-_y_Nz99xM-,6,16,val,1\n", Row(None, "-_y_Nz99xM-", "-_y_Nz99xM-_000006_000016")),
    ],
)  # fmt: skip
def test_forms_of_csv_rows(tmp_path: Path, content: str, row: Row) -> None:
    assert list(read_rows(put(tmp_path, "val.csv", content), "val", LABELS)) == [row]


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ("val/0wR5jVB-WPk_000417_000427.mp4 0\n\n", Row("abseiling", "0wR5jVB-WPk", "0wR5jVB-WPk_000417_000427")),
        (
            "air drumming/_EKBiWK_AFg_000023_000033.mp4 1",
            Row("air drumming", "_EKBiWK_AFg", "_EKBiWK_AFg_000023_000033"),
        ),
        ("/data/air_drumming/_EKBiWK_AFg.mp4,1\r\n", Row("air drumming", "_EKBiWK_AFg", "_EKBiWK_AFg")),
    ],
)
def test_forms_of_list_rows(tmp_path: Path, content: str, row: Row) -> None:
    assert list(read_rows(put(tmp_path, "val.txt", content), "val", LABELS)) == [row]


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("val.csv", "abseilin,0wR5jVB-WPk,417,427,val,0", r"val.csv:3: got 'abseilin', .*one of the 400 .*Did you mean 'abseiling'"),
        ("val.csv", "abseiling,0wR5jVB,417,427,val,0", r"val.csv:3: got '0wR5jVB', but must be a YouTube id of 11 letters"),
        ("val.csv", "abseiling,../../../ab,417,427,val,0", r"val.csv:3: got '\.\./\.\./\.\./ab', but must be a YouTube id"),
        ("val.csv", "abseiling,0wR5jVB-WPk,x,427,val,0", r"val.csv:3: got \"time_start 'x'\", but must be seconds from 0"),
        ("val.csv", "abseiling,0wR5jVB-WPk,427,417,val,0", r"val.csv:3: got '417', but must be a time_end after time_start = 427"),
        ("val.csv", "abseiling,0wR5jVB-WPk,417,427,train,0", r"val.csv:3: got 'train', but must be val or validate or validation"),
        ("val.csv", "abseiling,0wR5jVB-WPk,417,427,val", r"val.csv:3: got .*, but must be 6 values: label, youtube_id"),
        ("val.txt", "air drumming/_EKBiWK_AFg.mp4 0", r"val.txt:3: the folder is that of 'air drumming', but class 0 .* is 'abseiling'"),
        ("val.txt", "_EKBiWK_AFg.mp4", r"val.txt:3: got \"number of the class ''\", but must be"),
        ("val.txt", "_EKBiWK_AFg.mp4 400", r"val.txt:3: got \"number of the class '400'\", but must be a whole number from 0 to 399"),
        ("val.txt", "short.mp4 1", r"val.txt:3: got 'short.mp4 1', but must be a path that ends in <id>_<start>_<end>.mp4"),
    ],
)  # fmt: skip
def test_malformed_rows(tmp_path: Path, name: str, line: str, message: str) -> None:
    start = VAL.splitlines()[:2] if name == "val.csv" else ["val/0wR5jVB-WPk.mp4 0", ""]
    path = put(tmp_path, name, "\n".join([*start, line]))
    with pytest.raises(DataError, match=message):
        list(read_rows(path, "val", LABELS))


@pytest.mark.parametrize(
    "header", ["label,youtube_id,time_end", "label,youtube_id,time_start,time_start,time_end", "a,b,c,d"]
)
def test_malformed_headers(tmp_path: Path, header: str) -> None:
    with pytest.raises(DataError, match=rf"val.csv:1: got '{header}', but must be (a|the) header"):
        list(read_rows(put(tmp_path, "val.csv", header), "val", LABELS))


def test_no_file_at_all(tmp_path: Path) -> None:
    put(tmp_path, "kinetics-400_vall.csv", VAL)
    with pytest.raises(DataError, match=r"Kinetics-400: none of kinetics-400_val.csv, val.csv, val.txt lies in .*Did you mean "
                                        r"'kinetics-400_vall.csv'\? Set `annotations` to the folder"):  # fmt: skip
        Kinetics400(str(tmp_path)).clips("val")


def test_labels_in_another_order(tmp_path: Path) -> None:
    put(tmp_path, "val.txt", "val/0wR5jVB-WPk.mp4 0\n")
    put(tmp_path, "label_map.txt", "\n".join(sorted(LABELS.actions, reverse=True)))
    with pytest.raises(DataError, match=r"label_map.txt: class 0 \(counted from 0\) is 'zumba', but is 'abseiling'"):
        Kinetics400(str(tmp_path)).clips("val")


tokens = st.sampled_from(
    [*VAL.split("\n"), *TEST.split("\n"), "val/0wR5jVB-WPk_000417_000427.mp4 0", "a/-_y_Nz99xM-.mp4"]
)
rows = st.lists(tokens | st.text(max_size=40)).map("\n".join).map(str.encode)


@pytest.mark.parametrize("suffix", [".csv", ".txt"])
@given(content=rows | st.binary())
def test_anything_else_raises_data_errors_alone(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"k400_fuzz{suffix}"
    path.write_bytes(content)
    try:
        assert all(len(row.youtube_id) == 11 for row in read_rows(path, "val", LABELS))
    except DataError as error:
        assert "k400_fuzz" in str(error)


@pytest.mark.shared
def test_official_val_file(shared: Path) -> None:
    clips = Kinetics400("/nowhere", str(shared / "annotations" / "k400")).clips("val")
    assert len(clips) == 19_906 and {clip.action for clip in clips} == set(LABELS.actions)
    assert sum(clip.source.startswith("-") for clip in clips) == 644


@pytest.mark.shared
def test_derived_lists(shared: Path) -> None:
    folder = shared / "annotations" / "k400"
    official = {row.youtube_id: row for row in read_rows(folder / "kinetics-400_val.csv", "val", LABELS)}
    vificlip = list(read_rows(folder / "derived" / "vificlip_val.head500.txt", "val", LABELS))
    assert len(vificlip) == 500 and all(official[row.youtube_id] == row for row in vificlip)
    # Clips of another split; the reader compares their class folders with their numbers.
    paddle = list(read_rows(folder / "derived" / "paddlevideo_val_small_videos.list", "val", LABELS))
    text = (folder / "derived" / "paddlevideo_val_small_videos.list").read_text()
    assert len(paddle) == text.count(".mp4") > 50 and {row.action for row in paddle} >= {"abseiling", "air drumming"}
