from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LabelSet, load_label_set, load_ucf101
from actdeny_train.errors import DataError
from actdeny_train.types import ClipKind, Components

UCF101 = load_ucf101()


def phrases(word: str) -> dict[str, str]:
    nodes = ("persons", "objects", "location", "spatial", "interaction", "motion")
    return {node: f"the {node} of {word}" for node in nodes}


def block(action: str) -> dict[str, Any]:
    return {kind: phrases(f"{action} {kind}") for kind in ("presence", "context_only", "different_motion")}


@pytest.fixture
def files() -> dict[str, Any]:
    """The contents of a valid label set of three actions."""
    opening = "A person or group of people is "
    return {
        "descriptions": {"Wave": f"{opening}waving.", "Sit": f"{opening}sitting down.", "Nod": f"{opening}nodding."},
        "components_a": {"Sit": block("Sit")},
        "components_b": {"Nod": block("Nod"), "Wave": block("Wave")},
        "close": {"Wave": ["Nod"], "Sit": [], "Nod": []},
        "without_object": ["Wave", "Nod"],
        "verbs": {"verbs": {"Wave": ["wave"], "Sit": ["sit", "sat"], "Nod": ["nod"]}, "named_by_object": []},
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def load(folder: Path, files: dict[str, Any]) -> LabelSet:
    for name, content in files.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return load_label_set(folder, "gestures")


def test_reads_all_files(folder: Path, files: dict[str, Any]) -> None:
    labels = load(folder, files)
    assert labels.name == "gestures"
    assert labels.actions == ("Wave", "Sit", "Nod") == tuple(labels.components)
    assert labels.components_of("Sit", ClipKind.CONTEXT_ONLY) == Components(**phrases("Sit context_only"))
    assert labels.close == {"Wave": ("Nod",), "Sit": (), "Nod": ()}
    assert labels.without_object == {"Wave", "Nod"}
    assert labels.verbs["Sit"] == ("sit", "sat")


def edit(files: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split("/")
    target = files
    for parent in parents:
        target = target[parent]
    if value is None:
        del target[last]
    else:
        target[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("descriptions/Wave", "waving", r"descriptions.yaml, Wave: a description reads .*got 'waving'"),
        ("descriptions/Wave", "A person or group of people is nodding.", r"Nod: same description as Wave"),
        ("descriptions", ["Wave"], r"descriptions.yaml must map every action .*got list"),
        ("components_a/Site", block("Site"), r"components_a.yaml: unknown name 'Site'. Did you mean 'Sit'\?"),
        ("components_b/Sit", block("Sit"), r"components_b.yaml, Sit: its components stand in an earlier file too"),
        ("components_b/Nod", None, r"components_\*.yaml: Nod missing. Add what is missing"),
        ("components_b", ["Nod"], r"components_b.yaml must map actions to their components; got list"),
        ("components_b/Nod/presence", None, r"components_b.yaml, Nod: presence missing"),
        ("components_b/Nod/denial", phrases("x"), r"Nod: unknown name 'denial'. Allowed: presence, context_only, diff"),
        ("components_b/Nod/presence", "a nod", r"Nod, presence: expected a mapping, got str"),
        ("components_b/Nod/presence/motion", None, r"components_b.yaml, Nod, presence: motion missing"),
        ("components_b/Nod/presence/motions", "x", r"Nod, presence: unknown name 'motions'. Did you mean 'motion'"),
        ("components_b/Nod/presence/motion", " ", r"Nod, presence, motion: expected a phrase .*got ' '"),
        ("close/Wave", None, r"close.yaml: Wave missing"),
        ("close/Wave", ["Wave"], r"close.yaml, Wave: it is listed as close to itself"),
        ("close/Wave", ["Nod", "Nod"], r"close.yaml, Wave: 'Nod' is listed twice"),
        ("close/Wave", ["Nodd"], r"close.yaml, Wave: unknown name 'Nodd'. Did you mean 'Nod'"),
        ("close/Wave", "Nod", r"close.yaml, Wave: expected a list of names or words, got 'Nod'"),
        ("without_object", ["Fly"], r"without_object.yaml: unknown name 'Fly'. Allowed: Wave, Sit, Nod"),
        ("verbs/verbs/Nod", None, r"verbs.yaml, verbs: Nod missing"),
        ("verbs/named_by_object", None, r"verbs.yaml: named_by_object missing"),
    ],
)
def test_refuses_what_is_wrong_by_file_and_action(
    folder: Path, files: dict[str, Any], path: str, value: Any, message: str
) -> None:
    edit(files, path, value)
    with pytest.raises(DataError, match=message):
        load(folder, files)


def test_a_key_given_twice_is_no_overwrite(folder: Path, files: dict[str, Any]) -> None:
    load(folder, files)
    with (folder / "close.yaml").open("a") as file:
        file.write("Wave: [Sit]\n")
    with pytest.raises(DataError, match=r"close.yaml is not valid YAML: 'Wave' is given twice"):
        load_label_set(folder, "gestures")


def test_a_missing_file_is_named(folder: Path, files: dict[str, Any]) -> None:
    load(folder, files)
    (folder / "close.yaml").unlink()
    with pytest.raises(DataError, match=r"close.yaml is missing"):
        load_label_set(folder, "gestures")


def test_unknown_action_says_where_and_what_is_near() -> None:
    with pytest.raises(
        DataError, match=r"Unknown action 'PlayingGitar' in clip 7: .*101 actions. Did you mean 'PlayingGuitar'"
    ):
        UCF101.check("PlayingGitar", "clip 7")


def test_components_of_a_denial_clip_of_unknown_type_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"'Typing' of kind 'denial'.*has presence, context_only, different_motion.*types.csv"
    ):
        UCF101.components_of("Typing", ClipKind.DENIAL)


def test_unrelated_leaves_out_close_actions_in_both_directions(folder: Path, files: dict[str, Any]) -> None:
    labels = load(folder, files)
    assert labels.unrelated("Wave") == ("Sit",)
    assert labels.unrelated("Nod") == ("Sit",)
    assert labels.unrelated("Sit") == ("Wave", "Nod")


subsets = st.sets(st.sampled_from(UCF101.actions), min_size=2)


@given(chosen=subsets)
def test_unrelated_is_symmetric_and_free_of_close_actions(chosen: set[str]) -> None:
    labels = UCF101.subset(chosen, "some")
    for action in labels.actions:
        unrelated = labels.unrelated(action)
        assert action not in unrelated and not set(unrelated) & set(UCF101.close[action])
        assert all(action in labels.unrelated(other) for other in unrelated)


@given(chosen=subsets)
def test_subset_restricts_everything_and_keeps_the_order(chosen: set[str]) -> None:
    labels = UCF101.subset(chosen, "some")
    assert labels.actions == tuple(a for a in UCF101.actions if a in chosen)
    assert set(labels.components) == set(labels.close) == set(labels.verbs) == chosen
    assert all(set(close) == set(UCF101.close[a]) & chosen for a, close in labels.close.items())
    assert labels.without_object == UCF101.without_object & chosen
    assert labels.named_by_object == UCF101.named_by_object & chosen
