import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.datasets.manifest import Manifest, read_labels, read_manifest, write_manifest
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, ClipKind, Components

ROW: dict[str, Any] = {
    "id": "a",
    "path": "x/a.mp4",
    "action": "Archery",
    "kind": "presence",
    "split": "train",
    "source": "Archery/g01",
}
COMPONENTS = {key: f"some {key}" for key in ("persons", "objects", "location", "spatial", "interaction", "motion")}

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
clips = st.builds(
    Clip,
    id=text,
    path=st.just("x/ö ä.mp4"),
    action=text,
    kind=st.sampled_from(list(ClipKind)),
    split=text,
    source=text,
    start_s=st.none() | st.floats(0, 10),
    end_s=st.none() | st.floats(11, 1e6),
    components=st.none() | st.builds(Components, **dict.fromkeys(COMPONENTS, text)),
)


@given(st.lists(clips, max_size=4))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, given: list[Clip]) -> None:
    path = tmp_path_factory.mktemp("manifest") / "clips.jsonl"
    write_manifest(path, given)
    assert list(read_manifest(path)) == given
    assert path.read_bytes().count(b"\n") == len(given)


def write_rows(tmp_path: Path, *rows: dict[str, Any] | str) -> Path:
    path = tmp_path / "clips.jsonl"
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_minimal_row_blank_lines_and_whole_seconds(tmp_path: Path) -> None:
    first, second = read_manifest(write_rows(tmp_path, ROW, "", {**ROW, "id": "b", "start_s": 0, "end_s": 2}))
    assert first == Clip(
        id="a", path="x/a.mp4", action="Archery", kind=ClipKind.PRESENCE, split="train", source="Archery/g01"
    )
    assert (second.start_s, second.end_s) == (0.0, 2.0)


def without(key: str) -> dict[str, Any]:
    return {k: v for k, v in ROW.items() if k != key}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{oops", r"is not valid JSON in UTF-8 \(.*\): b'\{oops'\. Each line must be one complete JSON object"),
        ("[1, 2]", "holds a JSON list, but each line must be a JSON object"),
        (without("source"), "lacks the field 'source'. Every clip needs id, path, action, kind, split, source"),
        ({**ROW, "sourc": "g"}, r"unknown field 'sourc'\. Allowed: id, path, .*Did you mean 'source'\?"),
        ({**ROW, "id": ""}, "field 'id' is '', but must be a non-empty string"),
        ({**ROW, "id": 7}, "field 'id' is 7, but must be a non-empty string"),
        (
            {**ROW, "kind": "context-only"},
            "field 'kind' is 'context-only', but must be one of presence, context_only, different_motion, denial. "
            "Did you mean 'context_only'",
        ),
        ({**ROW, "path": "../a.mp4"}, r"The path '\.\./a\.mp4' of .*:2 leaves the dataset's root"),
        (
            {**ROW, "start_s": -1},
            "field 'start_s' is -1, but must be seconds from the first frame, a number of at least 0",
        ),
        ({**ROW, "start_s": "1"}, "field 'start_s' is '1', but"),
        ({**ROW, "end_s": True}, "field 'end_s' is True, but"),
        ({**ROW, "end_s": float("nan")}, "field 'end_s' is nan, but"),
        ({**ROW, "start_s": 2.5, "end_s": 2}, "field 'end_s' is 2.0, but must be more than start_s = 2.5"),
        ({**ROW, "end_s": 0}, "field 'end_s' is 0.0, but must be more than start_s = 0.0"),
        (
            {**ROW, "components": {**COMPONENTS, "motion": ""}},
            "field 'components' is .* must be an object with a non-empty phrase",
        ),
        (
            {**ROW, "components": {"persons": "a man"}},
            "for each of persons, objects, location, spatial, interaction, motion",
        ),
        ({**ROW, "start_s": 10**400}, "field 'start_s' is 10+, but must be .* at least 0 and at most 1e"),
        ({**ROW, "end_s": float("inf")}, "field 'end_s' is inf, but"),
        ('{"id": ' + "[" * 10**5, "is not valid JSON in UTF-8"),
        ('{"id": "a", "path": "a.mp4", "id": "b"}', r"is not valid JSON in UTF-8 \(repeated key 'id'\)"),
        ({**ROW, "id": "a\ud800"}, r"The field 'id' of .*:2 is 'a\\ud800', which UTF-8 cannot hold"),
        (
            {**ROW, "components": {**COMPONENTS, "motion": "\udfff"}},
            "The component 'motion' of .*which UTF-8 cannot hold",
        ),
    ],
)
def test_malformed_rows(tmp_path: Path, row: dict[str, Any] | str, message: str) -> None:
    path = write_rows(tmp_path, ROW, row)
    with pytest.raises(DataError, match=message) as error:
        list(read_manifest(path))
    assert f"{path}:2" in str(error.value)


def test_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "clips.jsonl"
    path.write_bytes(json.dumps(ROW).encode() + b'\n{"id": "\xff"}\n')
    with pytest.raises(DataError, match=r"clips\.jsonl:2 is not valid JSON in UTF-8"):
        list(read_manifest(path))


def test_missing_manifest(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"The manifest '.*none\.jsonl' \(resolved: .*\) does not exist.*one clip a row"
    ):
        list(read_manifest(tmp_path / "none.jsonl"))


def test_dataset_over_a_manifest(tmp_path: Path) -> None:
    file = write_rows(tmp_path, ROW, {**ROW, "id": "b", "split": "test", "source": "g2"})
    data = Manifest(str(tmp_path), str(file))
    assert [clip.id for clip in data.clips("train")] == ["a"]
    assert len(data.labels.actions) == 101


def test_unknown_action_names_the_line(tmp_path: Path) -> None:
    file = write_rows(tmp_path, ROW, {**ROW, "id": "b", "action": "Archry"})
    with pytest.raises(
        DataError, match=r"Unknown action 'Archry' in .*clips\.jsonl:2: label set 'ucf101'.*Did you mean 'Archery'"
    ):
        Manifest(str(tmp_path), str(file)).clips("train")


def test_unknown_split_names_the_line(tmp_path: Path) -> None:
    file = write_rows(tmp_path, {**ROW, "split": "trian"})
    with pytest.raises(
        DataError,
        match=r"clips\.jsonl:1: field 'split' is 'trian', but must be one of train, val, test\. Did you mean 'train'",
    ):
        Manifest(str(tmp_path), str(file)).clips("train")
    assert Manifest(str(tmp_path), str(file), splits=("trian",)).clips("trian")


def test_source_in_two_splits_of_a_manifest(tmp_path: Path) -> None:
    file = write_rows(tmp_path, ROW, {**ROW, "id": "b", "split": "test"})
    with pytest.raises(
        DataError, match="Source 'Archery/g01' lies in two splits: clip 'a' in 'train' and clip 'b' in 'test'"
    ):
        Manifest(str(tmp_path), str(file)).clips("train")


def test_labels_of_ones_own(tmp_path: Path) -> None:
    labels = tmp_path / "kitchen.yaml"
    labels.write_text('Boil: "A person is boiling water."\nChop: "A person is chopping leeks."\n')
    file = write_rows(tmp_path, {**ROW, "action": "Chop"})
    data = Manifest(str(tmp_path), str(file), labels=str(labels))
    assert [clip.action for clip in data.clips("train")] == ["Chop"]
    assert data.labels.name == "kitchen" and data.labels.unrelated("Chop") == ("Boil",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- Boil\n", "holds a list, but must map action names to descriptions"),
        ("", "holds a NoneType, but must map"),
        (
            "yes: A person agrees.\n",
            "action True has the description 'A person agrees.', but both must be non-empty strings. Quote them",
        ),
        ("Boil: 3\n", "action 'Boil' has the description 3"),
        ("a: [\n", "is not valid YAML"),
    ],
)
def test_malformed_labels(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "labels.yaml"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        Manifest(str(tmp_path), "clips.jsonl", labels=str(path))


def test_missing_labels(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"Unknown label set 'ucf10'\. Did you mean 'ucf101'\?.*one of your own is a YAML file"
    ):
        Manifest(str(tmp_path), "clips.jsonl", labels="ucf10")
    with pytest.raises(
        DataError, match=r"The label set 'mine.yaml' does not exist\. Set `labels` to the path of a YAML"
    ):
        Manifest(str(tmp_path), "clips.jsonl", labels="mine.yaml")
    assert Manifest(str(tmp_path), "clips.jsonl", labels="hmdb51").labels.name == "hmdb51"


def test_labels_from_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    phrases = {"drink": "drinking", "drink_tea": "drinking tea", "nod": "nodding"}
    described = {action: f"A person or group of people is {phrase}." for action, phrase in phrases.items()}
    (folder / "descriptions.yaml").write_text(json.dumps(described))
    with pytest.raises(DataError, match=r"close.yaml is missing: a label set needs it"):
        Manifest(str(tmp_path), "clips.jsonl", labels=str(folder))
    (folder / "close.yaml").write_text(json.dumps({"drink": [], "drink_tea": [], "nod": ["drink"]}))
    (folder / "also_true.yaml").write_text(json.dumps([["drink", "drink_tea"]]))
    labels = Manifest(str(tmp_path), "clips.jsonl", labels=str(folder)).labels
    assert (labels.name, labels.close["nod"], labels.also_true["drink"]) == ("mine", ("drink",), ("drink_tea",))


def test_mark_of_byte_order_and_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "clips.jsonl"
    rows = [json.dumps({**ROW, "id": id}) for id in ("a", "ö")]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(rows).encode())
    assert [clip.id for clip in read_manifest(path)] == ["a", "ö"]


def test_descriptions_that_repeat(tmp_path: Path) -> None:
    path = tmp_path / "labels.yaml"
    path.write_text("Salto A: A salto.\nTurn: A turn.\nSalto B: A salto.\n")
    with pytest.raises(
        DataError, match=r"actions 'Salto A' and 'Salto B' have the same description 'A salto\.'.*Tell them apart"
    ):
        read_labels(path)
