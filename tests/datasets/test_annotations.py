import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LABEL_SETS, LabelSet, load_hmdb51, load_named
from actdeny_train.datasets.annotations import (
    by_canonical,
    canonical,
    check_label_list,
    find_file,
    missing_file,
    read_json_entries,
    read_label_list,
    read_lines,
    read_table,
    take_string,
    take_whole_number,
)
from actdeny_train.errors import DataError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "list.txt"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_with_any_ending(file: Path, end: str) -> None:
    file.write_bytes("\ufeffone 1 ".encode() + end.encode() * 2 + "two\u2028b\x0c".encode() + end.encode() + b" three")
    assert list(read_lines(file)) == [(f"{file}:1", "one 1"), (f"{file}:3", "two\u2028b"), (f"{file}:4", "three")]


def test_table_rows_are_lines(file: Path) -> None:
    file.write_text('a, "b, ""c""",d \r\n\r\n"e",f\r\n')
    assert list(read_table(file)) == [(f"{file}:1", ["a", 'b, "c"', "d"]), (f"{file}:3", ["e", "f"])]
    file.write_text('a,b\n"open,b\nc,d\n')
    with pytest.raises(
        DataError, match=r"list.txt:2 is not a CSV row \(.*\): '\"open,b'. A value with a comma or a quote"
    ):
        list(read_table(file))


def test_missing_file_names_what_is_near(tmp_path: Path) -> None:
    (tmp_path / "testlist1.txt").touch()
    folders = [tmp_path / "nowhere", tmp_path]
    assert find_file(["testlist01.txt", "testlist1.txt"], folders) == tmp_path / "testlist1.txt"
    assert find_file(["testlist01.txt"], folders) is None
    assert str(missing_file("X", ["testlist01.txt"], folders, "Get it.")) == (
        f"X: none of testlist01.txt lies in '{tmp_path}/nowhere', '{tmp_path}'. Did you mean 'testlist1.txt'? Get it."
    )


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ("kick_ball  \r\nkick\r\n", ["kick_ball", "kick"]),
        ("1 kick ball\r\n2 kick\r\n", ["kick ball", "kick"]),
        ("0 kick ball\n1 kick\n\n", ["kick ball", "kick"]),
        ('id,name\n0,"kick, ball"\n1,kick', ["kick, ball", "kick"]),
        # Names that begin with a number are no index: not all of them do.
        ("2 turn jump\nkick\n", ["2 turn jump", "kick"]),
    ],
)
def test_label_lists(file: Path, content: str, names: list[str]) -> None:
    file.write_text(content)
    assert read_label_list(file) == names


@pytest.mark.parametrize(
    ("content", "names"),
    [
        ({"kick": "1", "ball": 0}, ["ball", "kick"]),
        (["ball", "kick"], ["ball", "kick"]),
        ([["Back", "2som"], ["Inward"]], ["Back_2som", "Inward"]),
    ],
)
def test_label_lists_in_json(tmp_path: Path, content: Any, names: list[str]) -> None:
    (tmp_path / "labels.json").write_text(json.dumps(content))
    assert read_label_list(tmp_path / "labels.json") == names


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "", r"a.txt is empty, but must list the names"),
        ("a.txt", "1 a\n3 b", r"a.txt:2: got '3', but must be the class index 2: indices count up from 0 or 1"),
        ("a.txt", "5 a\n6 b", r"a.txt:1: got '5', but must be the class index 0"),
        ("a.csv", "id,name\n0,a,b", r"a.csv:2: got 'another number of values', but must be a row 'id,name'"),
        ("a.csv", "id,name", r"a.csv lists no class"),
        ("a.json", "{", r"a.json is not valid JSON"),
        ("a.json", '"a"', r"a.json holds a JSON str, but must be an object or a list"),
        ("a.json", '{"a": "0", "b": "2"}', r"a.json, 'b': got '2', but must be the class index 1"),
        ("a.json", '{"a": null}', r"a.json, 'a': got 'None', but must be a class index"),
        ("a.json", '["a", []]', r"a.json, entry 1: got '\[\]', but must be a name, or a list"),
        ("a.txt", b"caf\xe9", r"a.txt is not text in UTF-8"),
    ],
)
def test_malformed_label_lists(tmp_path: Path, name: str, content: str | bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(DataError, match=message):
        read_label_list(tmp_path / name)


def test_label_lists_must_agree(file: Path) -> None:
    labels = load_hmdb51()
    names = [action.replace("_", " ").title() for action in labels.actions]
    file.write_text("\n".join(names))
    check_label_list(file, labels)
    file.write_text("\n".join(names[:-1]))
    with pytest.raises(DataError, match=r"list.txt lists 50 classes, but label set 'hmdb51' has 51"):
        check_label_list(file, labels)
    file.write_text("\n".join([names[1], names[0], *names[2:]]))
    with pytest.raises(
        DataError, match=r"class 0 \(counted from 0\) is 'Cartwheel', but is 'brush_hair' in label set 'hmdb51'"
    ):
        check_label_list(file, labels)


SHARED_LISTS = [
    ("ucf101", "ucf101/ucfTrainTestlist/classInd.txt"),
    ("ucf101", "ucf101/derived/mmaction2_label_map.txt"),
    ("ucf101", "ucf101/derived/ucf_101_labels.csv"),
    ("kinetics400", "k400/label_map.txt"),
    ("kinetics400", "k400/derived/kinetics_400_labels.csv"),
    ("kinetics400", "k400/derived/paddlevideo_Kinetics-400_label_list.txt"),
    ("hmdb51", "hmdb51/class_list.txt"),
    ("something_v2", "ssv2/something-something-v2-labels.json"),
    ("something_v2", "ssv2/derived/mmaction2_label_map.txt"),
    ("something_v2", "ssv2/derived/ssv2_labels.csv"),
    ("diving48", "diving48/Diving48_vocab.json"),
    ("diving48", "diving48/derived/mmaction2_label_map.txt"),
    ("diving48", "diving48/derived/diving_48_labels.csv"),
]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "path"), SHARED_LISTS)
def test_published_class_lists_have_our_order(shared: Path, name: str, path: str) -> None:
    check_label_list(shared / "annotations" / path, load_named(name))


def test_canonical_names_are_distinct() -> None:
    for name in LABEL_SETS:
        labels = load_named(name)
        assert len(by_canonical(labels)) == len(labels.actions)
    assert canonical("massaging person's head") == canonical("Massaging_persons-head")
    assert canonical("Schuhe_PUTZEN für") == "schuheputzenfür"


def test_names_that_differ_in_punctuation_alone() -> None:
    labels = LabelSet(
        name="mine", descriptions={"A+": "a.", "a-": "b."}, components={}, close={}, without_object=frozenset()
    )
    with pytest.raises(
        DataError, match=r"Label set 'mine': the actions 'A\+' and 'a-' have the same letters and digits"
    ):
        by_canonical(labels)


@pytest.mark.parametrize("value", ["5", 5, "0", 9])
def test_whole_numbers(value: object) -> None:
    assert take_whole_number(value, range(10), "label", "here") == int(str(value))


@pytest.mark.parametrize("value", ["10", -1, "1.0", 1.0, True, None, "", "x", "٣", "9" * 5000, [], "1_0"])
def test_what_is_no_whole_number_from_0_to_9(value: object) -> None:
    with pytest.raises(
        DataError, match=r"here: got .*, but must be a whole number from 0 to 9 as label\. Correct or remove"
    ):
        take_whole_number(value, range(10), "label", "here")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"vid_nam": "a"},
            r"here: got 'no field vid_name', but must be a row with a non-empty string .*Did you mean 'vid_nam'",
        ),
        ({"vid_name": " "}, r"here: got \"vid_name = ' '\", but must be"),
        ({"vid_name": 3}, r"got 'vid_name = 3'"),
        ({"vid_name": "\ud800"}, r"which UTF-8 cannot hold"),
    ],
)
def test_what_is_no_string(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        take_string(entry, "vid_name", "here")


def test_entries_must_be_objects(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1}, 2]')
    with pytest.raises(
        DataError, match=r"a.json, entry 1: got '2', but must be a JSON object with the fields of a clip"
    ):
        list(read_json_entries(tmp_path / "a.json"))
    (tmp_path / "a.json").write_text('{"a": 1}')
    with pytest.raises(DataError, match=r"a.json holds a JSON dict, but must be a list with one object a clip"):
        list(read_json_entries(tmp_path / "a.json"))
    with pytest.raises(DataError, match=r"b.json' cannot be read \(No such file or directory\)"):
        list(read_json_entries(tmp_path / "b.json"))


@given(content=st.binary() | st.text(alphabet='id,name01 \n\r"a[]{}:').map(str.encode))
@pytest.mark.parametrize("suffix", [".txt", ".csv", ".json"])
def test_any_bytes_raise_data_errors_alone(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / f"annotations_fuzz{suffix}"
    path.write_bytes(content)
    readers: list[Callable[[Path], list[Any] | Iterator[Any]]] = [
        read_label_list,
        read_lines,
        read_table,
        read_json_entries,
    ]
    for reader in readers:
        try:
            assert isinstance(list(reader(path)), list)
        except DataError as error:
            assert path.name in str(error)
