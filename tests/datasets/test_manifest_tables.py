"""Manifests as a JSON list and as CSV: the same clips, and the same checks, as one JSON object a line."""

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actdeny_train.datasets.base import check_path
from actdeny_train.datasets.manifest import COMPONENTS, REQUIRED, Manifest, read_manifest, write_manifest
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, ClipKind, Components

HEADER = ",".join(REQUIRED)
ROW = "a,x/a.mp4,Archery,presence,train,g01"
# A CSV value has no line breaks (one row a line) and no spaces round it.
values = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
clips = st.builds(
    Clip,
    id=values,
    path=st.just("x/ö ä.mp4"),
    action=values,
    kind=st.sampled_from(list(ClipKind)),
    split=values,
    source=values,
    start_s=st.none() | st.floats(0, 10),
    end_s=st.none() | st.floats(11, 1e6),
    components=st.none() | st.builds(Components, **dict.fromkeys(COMPONENTS, values)),
)
# Each example writes its own file anew.
FUZZ = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def write(folder: Path, suffix: str, text: str) -> Path:
    path = folder / f"clips{suffix}"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def in_csv(given: list[Clip]) -> str:
    """Return what Python's own writer makes of the clips, every value quoted."""
    fields = [*REQUIRED, "start_s", "end_s", *COMPONENTS]
    table = io.StringIO()
    writer = csv.DictWriter(table, fields, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    for clip in given:
        row = dataclasses.asdict(clip)
        writer.writerow({key: value for key, value in (row | (row.pop("components") or {})).items() if key in fields})
    return table.getvalue()


@FUZZ
@given(st.lists(clips, min_size=1, max_size=3))
def test_the_three_forms_give_the_same_clips(tmp_path: Path, given: list[Clip]) -> None:
    lines = tmp_path / "clips.jsonl"
    write_manifest(lines, given)
    rows = [json.loads(line) for line in lines.read_text(encoding="utf-8").split("\n") if line]
    assert list(read_manifest(write(tmp_path, ".json", json.dumps(rows)))) == given
    assert list(read_manifest(write(tmp_path, ".csv", in_csv(given)))) == given


def test_as_a_dataset(tmp_path: Path) -> None:
    path = write(
        tmp_path, ".CSV", f"\ufeff{HEADER},end_s,start_s\r\n{ROW},2.5,1\r\n\r\nb,b.mp4,YoYo,denial,test,g02,,\r\n"
    )
    data = Manifest(str(tmp_path), str(path))
    (first,), (second,) = data.clips("train"), data.clips("test")
    assert (first.id, first.start_s, first.end_s) == ("a", 1.0, 2.5)
    assert (second.kind, second.start_s, second.components) == (ClipKind.DENIAL, None, None)


@pytest.mark.parametrize(
    ("suffix", "text", "message"),
    [
        (".csv", "id,path\na,b\n", r"clips.csv:1: the header lacks the field 'action'\. The first row must name"),
        (".csv", f"{HEADER}s\n{ROW}\n", r"clips.csv:1: the header lacks the field 'source'\. Did you mean 'sources'"),
        (".csv", f"{HEADER},id\n", r"clips.csv:1: the header names the field 'id' twice"),
        (".csv", f"{HEADER}\n{ROW},x\n", r"clips.csv:2 has 7 values, but the header names 6 fields"),
        (".csv", f"{HEADER},note\n{ROW},x\n", r"clips.csv:2 has an unknown field 'note'"),
        (".csv", f"{HEADER},start_s\n{ROW},soon\n", r"clips.csv:2: field 'start_s' is 'soon', but must be seconds"),
        (".csv", f"{HEADER},start_s\n{ROW},nan\n", r"clips.csv:2: field 'start_s' is nan, but must be seconds"),
        (
            ".csv",
            f"{HEADER},motion\n{ROW},runs\n",
            r"field 'components' is \{'motion': 'runs'\}, but must be an object",
        ),
        (".csv", f"{HEADER}\n{ROW.replace('x/a', '../a')}\n", r"The path '\.\./a\.mp4' of .*clips.csv:2 leaves the"),
        (".csv", f"{HEADER}\n,x/a.mp4,Archery,presence,train,g01\n", r"clips.csv:2 lacks the field 'id'"),
        (".csv", f'{HEADER}\n"a,x/a.mp4,Archery,presence,train,g01\n', r"clips.csv:2 is not a CSV row"),
        (".json", "{}", r"clips.json holds a JSON dict, but must be a list with one object a clip"),
        (".json", "[1]", r"clips.json, entry 0 is a JSON int, but must be an object"),
        (".json", '[{"id": "a"}]', r"clips.json, entry 0 lacks the field 'path'"),
        (".json", '[{"id": "a", "id": "b"}]', r"clips.json is not valid JSON \(repeated key 'id'\)"),
        (".json", '{"id": "a"}\n{"id": "b"}', r"is not valid JSON \(.*call it \.jsonl if it has one object a line"),
        (".json", "[" * 100_000, r"clips.json is not valid JSON"),
    ],
)
def test_malformed_files(tmp_path: Path, suffix: str, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(read_manifest(write(tmp_path, suffix, text)))


fragments = st.sampled_from(
    [HEADER, ROW, "\n", "\r\n", ",", '"', '""', "start_s", "1e999", "-1", "nan", "../", "C:\\", "/", "\0", "\ufeff"]
)
anything = st.lists(fragments | st.text(max_size=6), max_size=12).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=4) | st.sampled_from(["../a", "a.mp4"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(REQUIRED), inner, max_size=6),
    max_leaves=12,
)


@FUZZ
@given(st.sampled_from([".csv", ".json", ".jsonl"]), anything | JSON.map(json.dumps) | st.binary(max_size=40))
def test_whatever_a_file_holds(tmp_path: Path, suffix: str, content: str | bytes) -> None:
    path = tmp_path / f"clips{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    try:
        found = list(read_manifest(path))
    except DataError:
        return
    for clip in found:
        assert (tmp_path / check_path(clip.path, clip.id)).resolve().is_relative_to(tmp_path.resolve())
