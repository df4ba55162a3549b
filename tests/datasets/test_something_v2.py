import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_something_v2
from actdeny_train.actions.templates import load_minimal_pairs
from actdeny_train.datasets.something_v2 import Row, SomethingV2, read_answers, read_rows
from actdeny_train.errors import DataError
from actdeny_train.types import ClipKind

VAL: list[dict[str, Any]] = [
    {
        "id": "74225",
        "label": "spinning cube that quickly stops spinning",
        "template": "Spinning [something] that quickly stops spinning",
        "placeholders": ["cube"],
    },
    {
        "id": 113563,
        "label": "touching (without moving) lid of taschentücher",
        "template": "Touching (without moving) [part] of [something]",
        "placeholders": ["lid", "taschentücher"],
    },
    {"id": "5", "template": "[Something] falling like a rock", "placeholders": ["a stone"]},
    {"id": "6", "template": "Holding something"},
]
TEST = [{"id": "1420"}, {"id": "166429"}]
TORN = "Tilting something with something on it slightly so it doesn't fall down"
LABELS = load_something_v2()


def put(folder: Path, name: str, content: Any) -> Path:
    folder.mkdir(exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("name", ["something-something-v2-validation.json", "labels/validation.json"])
def test_clips_of_a_split(tmp_path: Path, name: str) -> None:
    put((tmp_path / name).parent, Path(name).name, VAL)
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "5.mp4").touch()
    data = SomethingV2(str(tmp_path))
    assert [(c.id, c.action, c.kind, c.source, c.path) for c in data.clips("val")] == [
        ("74225", "Spinning something that quickly stops spinning", ClipKind.PRESENCE, "74225", "20bn-something-something-v2/74225.webm"),
        ("113563", "Touching (without moving) part of something", ClipKind.PRESENCE, "113563", "20bn-something-something-v2/113563.webm"),
        ("5", "Something falling like a rock", ClipKind.PRESENCE, "5", "videos/5.mp4"),
        ("6", "Holding something", ClipKind.PRESENCE, "6", "20bn-something-something-v2/6.webm"),
    ]  # fmt: skip
    assert [data.sentence(clip) for clip in data.clips("val")] == [
        "A person or group of people is spinning cube that quickly stops spinning.",
        "A person or group of people is touching lid of taschentücher without moving it.",
        "A person or group of people is letting a stone fall fast like a rock.",
        "A person or group of people is holding something.",
    ]


def test_test_clips_get_their_labels_from_the_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "test.json", TEST)
    with pytest.raises(DataError, match=r"no clip in split 'test'\. Splits with clips: none at all"):
        SomethingV2(str(tmp_path)).clips("test")
    assert "test.json: 2 of 2 clips have no label and are left out" in capsys.readouterr().out
    put(
        tmp_path,
        "test-answers.csv",
        f"1420;{TORN}\r\n166429;Putting something, something and something on the table\r\n",
    )
    data = SomethingV2(str(tmp_path))
    assert [clip.action for clip in data.clips("test")] == [
        TORN,
        "Putting something, something and something on the table",
    ]
    assert data.sentence(data.clips("test")[0]) == LABELS.description(TORN)


@pytest.mark.parametrize(
    "line",
    [
        "1420;Putting [something], [something] and [something] on the table",
        "id;label\r\n1420;putting something, something and something on the table \r\n",
        '\ufeff1420 ; "Putting something, something and something on the table"',
    ],
)
def test_forms_of_answers(tmp_path: Path, line: str) -> None:
    path = put(tmp_path, "test-answers.csv", line)
    assert read_answers(path, LABELS) == {"1420": "Putting something, something and something on the table"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "7,Holding something",
            r"answers.csv:2: got \"id '7,Holding something'\", but must be an id of up to 9 digits",
        ),
        (
            "7;Holdin something",
            r"answers.csv:2: got 'Holdin something', but must be one of the 174 templates\. Did you mean 'Holding",
        ),
        ("8;Holding something", r"answers.csv:2: got '8', but must be a clip that is listed once"),
    ],
)
def test_malformed_answers(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_answers(put(tmp_path, "answers.csv", f"8;Holding something\n{line}"), LABELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"template": "Spining [something] fast"},
            r"entry 0: got 'Spining \[something\] fast', but must be one of the 174 templates",
        ),
        (
            {"template": None},
            r"entry 0: got 'template = None', but must be a row with a non-empty string under 'template'",
        ),
        (
            {"placeholders": ["a", "b"]},
            r"entry 0: got '2 placeholders', but must be 1: one for each bracket of 'Spinning \[someth",
        ),
        ({"placeholders": "cube"}, r"entry 0: got \"placeholders 'cube'\", but must be a list of strings"),
        ({"placeholders": ["\ud800"]}, r"which UTF-8 cannot hold"),
        ({"id": "../1"}, r"entry 0: got \"id '\.\./1'\", but must be an id of up to 9 digits"),
        ({"id": True}, r"entry 0: got 'id True'"),
        ({"id": "6"}, r"Two clips have the id '6'"),
    ],
)
def test_malformed_entries(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "validation.json").write_text(json.dumps([{**VAL[0], **change}, *VAL[1:]]))
    with pytest.raises(DataError, match=message):
        SomethingV2(str(tmp_path)).clips("val")


def test_a_row_whose_template_is_missing(tmp_path: Path) -> None:
    path = put(tmp_path, "validation.json", [{"id": "1", "label": "holding a cup", "templat": "Holding [something]"}])
    with pytest.raises(
        DataError, match=r"entry 0: got .*, but must be an entry with a template\. Did you mean 'templat'"
    ):
        list(read_rows(path, LABELS))


def test_labels_in_another_order(tmp_path: Path) -> None:
    put(tmp_path, "validation.json", VAL)
    put(tmp_path, "labels.json", {action: str(173 - i) for i, action in enumerate(LABELS.actions)})
    with pytest.raises(
        DataError, match=r"labels.json: class 0 \(counted from 0\) is 'Wiping something off of something', but is 'Appr"
    ):
        SomethingV2(str(tmp_path)).clips("val")


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(
        DataError,
        match=r"Something-Something V2: none of something-something-v2-validation.json, validation.json lies in",
    ):
        SomethingV2(str(tmp_path)).clips("val")


values = st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.lists(st.text(max_size=3), max_size=3)
fields = st.dictionaries(
    st.sampled_from(list(VAL[0])), values | st.sampled_from([v for entry in VAL for v in entry.values()])
)
entries = st.lists(fields | st.sampled_from(VAL + TEST) | values).map(lambda value: json.dumps(value).encode())
lines = st.lists(st.sampled_from(["id;label", f"1420;{TORN}"]) | st.text(max_size=30)).map("\n".join).map(str.encode)


@given(content=entries | lines | st.binary())
def test_anything_else_raises_data_errors_alone(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "ssv2_fuzz.json"
    path.write_bytes(content)
    try:
        assert all(isinstance(row, Row) for row in read_rows(path, LABELS))
    except DataError as error:
        assert "ssv2_fuzz.json" in str(error)
    try:
        assert set(read_answers(path, LABELS).values()) <= set(LABELS.actions)
    except DataError as error:
        assert "ssv2_fuzz.json" in str(error)


@pytest.mark.shared
def test_official_files(shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared / "annotations" / "ssv2"
    for name in ("labels", "test"):
        shutil.copy(folder / f"something-something-v2-{name}.json", tmp_path)
    name = "something-something-v2-validation"
    shutil.copy(folder / f"{name}.excerpt.json", tmp_path / f"{name}.json")
    data = SomethingV2(str(tmp_path))
    clips = data.clips("val")
    assert len(clips) == 6705 and {clip.action for clip in clips} == set(LABELS.actions)
    assert "27157 of 27157 clips have no label" in capsys.readouterr().out
    # Our sentence holds the nouns of the publisher's own one.
    entries = json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))
    for clip, entry in zip(clips, entries, strict=True):
        assert all(noun.strip() in data.sentence(clip) for noun in entry["placeholders"])


@pytest.mark.shared
def test_published_contrasts_of_pretended_actions_are_minimal_pairs(shared: Path) -> None:
    text = (shared / "annotations" / "ssv2" / "derived" / "contrastive_groups_list.txt").read_text()
    groups = [[line for line in block.split("\n") if line and line[0] != "#"] for block in text.split("\n\n\n")]
    pairs = [tuple(group) for group in groups if len(group) == 2 and group[1].startswith(("Pretending", "Trying"))]
    assert len(pairs) > 15 and set(pairs) <= set(load_minimal_pairs())
