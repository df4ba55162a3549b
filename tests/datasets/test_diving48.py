import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_diving48
from actdeny_train.datasets.diving48 import Diving48, Row, read_rows
from actdeny_train.errors import DataError
from actdeny_train.types import ClipKind

TRAIN = [
    {"vid_name": "-mmq0PT-u8k_00155", "label": 0, "start_frame": 0, "end_frame": 48},
    {"vid_name": "8q_m_unCjtY_00016", "label": 47, "start_frame": 0, "end_frame": 822},
]
TEST = [{"vid_name": "AqRmKunCjtY_00001", "label": "16"}]


def put(folder: Path, train: Any = TRAIN, test: Any = TEST, version: str = "_V2") -> str:
    for split, entries in (("train", train), ("test", test)):
        (folder / f"Diving48{version}_{split}.json").write_text(json.dumps(entries))
    return str(folder)


@pytest.mark.parametrize("version", ["_V2", ""])
def test_clips_of_both_splits(tmp_path: Path, version: str) -> None:
    data = Diving48(put(tmp_path, version=version), official_sizes=False)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "8q_m_unCjtY_00016.mp4").touch()
    assert [(c.id, c.action, c.kind, c.source, c.path) for c in data.clips("train")] == [
        ("-mmq0PT-u8k_00155", "Back_15som_05Twis_FREE", ClipKind.PRESENCE, "-mmq0PT-u8k", "rgb/-mmq0PT-u8k_00155.mp4"),
        (
            "8q_m_unCjtY_00016",
            "Reverse_Dive_NoTwis_TUCK",
            ClipKind.PRESENCE,
            "8q_m_unCjtY",
            "videos/8q_m_unCjtY_00016.mp4",
        ),
    ]
    assert [clip.action for clip in data.clips("test")] == ["Back_Dive_NoTwis_TUCK"]


def test_files_of_another_size_are_those_of_v1(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Diving48_V2_train.json has 2 clips, but V2's list of split 'train' has 15027\. V1, whose "
                                        r"labels are noisy, .*set `official_sizes: false`"):  # fmt: skip
        Diving48(put(tmp_path)).clips("train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": 48}, r"train.json, entry 1: got 'label 48', but must be a whole number from 0 to 47 as label"),
        ({"label": None}, r"train.json, entry 1: got 'label None'"),
        ({"label": True}, r"train.json, entry 1: got 'label True'"),
        (
            {"vid_name": "../8q_m_unCjt_1"},
            r"train.json, entry 1: got '\.\./8q_m_unCjt_1', but must be a vid_name of a YouTube id",
        ),
        ({"vid_name": 7}, r"train.json, entry 1: got 'vid_name = 7', but must be a row with a non-empty string"),
        ({"end_frame": -1}, r"train.json, entry 1: got 'end_frame -1', but must be a whole number from 0 to 999999"),
        ({"vid_name": "AqRmKunCjtY_00002"}, r"Source 'AqRmKunCjtY' lies in two splits"),
        ({"vid_name": "-mmq0PT-u8k_00155"}, r"Two clips have the id '-mmq0PT-u8k_00155'"),
    ],
)
def test_malformed_entries(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    root = put(tmp_path, [TRAIN[0], {**TRAIN[1], **change}])
    with pytest.raises(DataError, match=message):
        Diving48(root, official_sizes=False).clips("train")


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"Diving48: none of Diving48_V2_train.json, Diving48_train.json lies in .*Set `annotations`"
    ):
        Diving48(str(tmp_path)).clips("train")


def test_vocabulary_in_another_order(tmp_path: Path) -> None:
    vocabulary = [action.split("_") for action in load_diving48().actions]
    (tmp_path / "Diving48_vocab.json").write_text(json.dumps(vocabulary[::-1]))
    with pytest.raises(
        DataError, match=r"vocab.json: class 0 \(counted from 0\) is 'Reverse_Dive_NoTwis_TUCK', but is 'Back_15som"
    ):
        Diving48(put(tmp_path), official_sizes=False).clips("train")


def test_codes_are_put_into_words() -> None:
    labels = load_diving48()
    assert labels.phrase("Forward_25som_3Twis_PIKE") == (
        "performing a forward dive in pike position with two and a half somersaults and three twists"
    )
    assert labels.phrase("Forward_Dive_NoTwis_STR") == (
        "performing a forward dive in straight position with no somersault and no twist"
    )
    assert labels.actions[30] == "Forward_Dive_NoTwis_STR"


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just("-mmq0PT-u8k_00155")
entries = st.lists(values | st.dictionaries(st.sampled_from(list(TRAIN[0])), values))


@given(content=entries.map(lambda value: json.dumps(value).encode()) | st.binary())
def test_anything_else_raises_data_errors_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "diving_fuzz.json"
    path.write_bytes(content)
    try:
        assert all(isinstance(row, Row) for row in read_rows(path, load_diving48()))
    except DataError as error:
        assert "diving_fuzz.json" in str(error)


@pytest.mark.shared
def test_official_files(shared: Path) -> None:
    data = Diving48("/nowhere", str(shared / "annotations" / "diving48"))
    train, test = data.clips("train"), data.clips("test")
    assert (len(train), len(test)) == (15_027, 1_970)
    seen = {clip.action for clip in train + test}
    assert set(data.labels.actions) - seen == {data.labels.actions[30]}
    assert sum(clip.id.startswith("-") for clip in train + test) == 148
