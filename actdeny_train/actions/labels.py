"""Label sets: what actions are called, described as, made of and close to. One loader for the YAML files beside it."""

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from actdeny_train.errors import DataError, near_misses
from actdeny_train.types import ClipKind, Components

OPENING = "A person or group of people is "
"""How every description of the benchmark begins (paper 1, section 10)."""

DESCRIBED_KINDS = (ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION)
"""Kinds of clips that have components. A denial clip whose type is not known has none."""

_FIELDS = tuple(f.name for f in dataclasses.fields(Components))


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The actions of one dataset, in their official order.

    ``descriptions`` maps an action's name to the sentence that stands as a choice. ``components`` maps an action to its phrases for
    presence, context-only and different-motion clips. ``close`` maps an action to actions that look like it (distractors of
    presence clips), closest first. ``without_object`` are the actions of body and place alone (person-only graph). ``verbs`` maps an
    action to the verbs that tell it, and ``named_by_object`` are the actions whose name is that of a mere object: both
    serve the leak guard (``actions.leak``). ``also_true`` maps an action to others that a clip of it may show as well (drinking, where
    it is drinking beer): they never stand beside it in a question. ``minimal_pairs`` maps an action done to the same pretended, tried in
    vain or stopped short, and back (Something-Something V2).
    """

    name: str
    descriptions: Mapping[str, str]
    components: Mapping[str, Mapping[ClipKind, Components]]
    close: Mapping[str, tuple[str, ...]]
    without_object: frozenset[str]
    verbs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    named_by_object: frozenset[str] = frozenset()
    also_true: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    minimal_pairs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of all actions."""
        return tuple(self.descriptions)

    def check(self, action: str, where: str = "") -> str:
        """Return ``action`` if it is in the set; else raise DataError naming near misses."""
        if action not in self.descriptions:
            raise DataError(
                f"Unknown action {action!r}{f' in {where}' if where else ''}: label set {self.name!r} has "
                f"{len(self.descriptions)} actions.{near_misses(action, self.descriptions)}"
            )
        return action

    def description(self, action: str) -> str:
        """Return the sentence of an action, e.g. "A person or group of people is playing a cello."."""
        return self.descriptions[self.check(action)]

    def phrase(self, action: str) -> str:
        """Return the description without its opening and final full stop, e.g. "playing a cello"."""
        return self.description(action).removeprefix(OPENING).removesuffix(".")

    def components_of(self, action: str, kind: ClipKind) -> Components:
        """Return what a camera sees in a clip of ``action`` and ``kind``.

        Raises DataError for ``ClipKind.DENIAL`` (which of the two types it is decides what is seen) and for an action
        without components.
        """
        kinds = self.components.get(self.check(action), {})
        if kind not in kinds:
            raise DataError(
                f"No components for a clip of {action!r} of kind {kind.value!r} in label set {self.name!r}; it has "
                f"{', '.join(k.value for k in kinds) or 'no kind'}. Say whether the clip is context_only or "
                "different_motion (types.csv of the dataset), give the clip components of its own, or leave it out of questions "
                "about components."
            )
        return kinds[kind]

    def unrelated(self, action: str) -> tuple[str, ...]:
        """Return all actions except ``action``, those close to it or true beside it and those that count it as close, in official order.

        Empty where every action of a small set is close.
        """
        close = self.close[self.check(action)] + self.also_true.get(action, ())
        return tuple(
            other
            for other in self.descriptions
            if other != action and other not in close and action not in self.close[other]
        )

    def subset(self, actions: Iterable[str], name: str) -> "LabelSet":
        """Return the same set restricted to ``actions``, in this set's order. Close actions outside it are dropped."""
        kept = {self.check(a) for a in actions}
        return LabelSet(
            name=name,
            descriptions={a: d for a, d in self.descriptions.items() if a in kept},
            components={a: c for a, c in self.components.items() if a in kept},
            close={a: tuple(b for b in bs if b in kept) for a, bs in self.close.items() if a in kept},
            without_object=self.without_object & kept,
            verbs={a: v for a, v in self.verbs.items() if a in kept},
            named_by_object=self.named_by_object & kept,
            also_true={a: tuple(b for b in bs if b in kept) for a, bs in self.also_true.items() if a in kept},
            minimal_pairs={a: tuple(b for b in bs if b in kept) for a, bs in self.minimal_pairs.items() if a in kept},
        )


@functools.cache
def load_ucf101() -> LabelSet:
    """Return the 101 actions of UCF101 with the benchmark's descriptions (paper 1, section 10) and our components."""
    return load_label_set(Path(__file__).parent / "ucf101", "ucf101")


@functools.cache
def load_kinetics400() -> LabelSet:
    """Return the 400 actions of Kinetics-400, in the order of their class index, with our descriptions."""
    return load_label_set(Path(__file__).parent / "kinetics400", "kinetics400", has_components=False)


@functools.cache
def load_hmdb51() -> LabelSet:
    """Return the 51 actions of HMDB51 with our descriptions."""
    return load_label_set(Path(__file__).parent / "hmdb51", "hmdb51", has_components=False)


@functools.cache
def load_something_v2() -> LabelSet:
    """Return the 174 templates of Something-Something V2, in the order of their class index, with our descriptions."""
    return load_label_set(Path(__file__).parent / "something_v2", "something_v2", has_components=False)


@functools.cache
def load_diving48() -> LabelSet:
    """Return the 48 codes of Diving48, in the order of their class index, with our descriptions; no clip has class 30."""
    return load_label_set(Path(__file__).parent / "diving48", "diving48", has_components=False)


@functools.cache
def load_finegym99() -> LabelSet:
    """Return the 99 elements of FineGym99, in the order of their class index, with our descriptions; 58 and 70 share theirs."""
    return load_label_set(Path(__file__).parent / "finegym99", "finegym99", has_components=False)


def load_named(name: str) -> LabelSet:
    """Return a label set of the package by its name, e.g. "hmdb51". Raises DataError on an unknown name."""
    if name not in LABEL_SETS:
        raise DataError(
            f"Unknown label set {name!r}.{near_misses(name, LABEL_SETS)} The package has {', '.join(LABEL_SETS)}; one of your own is a "
            "YAML file that maps action names to descriptions."
        )
    return LABEL_SETS[name]()


LABEL_SETS: Mapping[str, Callable[[], LabelSet]] = {
    "ucf101": load_ucf101,
    "kinetics400": load_kinetics400,
    "hmdb51": load_hmdb51,
    "something_v2": load_something_v2,
    "diving48": load_diving48,
    "finegym99": load_finegym99,
}
"""The label sets of the package by name."""


def load_label_set(folder: Path, name: str, *, has_components: bool = True) -> LabelSet:
    """Read a label set from its YAML files, which must all speak of the same actions.

    ``descriptions.yaml`` gives the actions and their order; ``components_*.yaml``, ``close.yaml``, ``without_object.yaml`` and
    ``verbs.yaml`` the rest (see ``ucf101/``). A set without components has descriptions and close actions alone. Actions may share a
    description only where ``same_description.yaml`` lists them together; ``also_true.yaml`` (optional) lists groups of actions that may be
    true of one clip. Raises DataError naming file and action where a file is
    missing or malformed, or an action, kind or component is unknown, missing or given twice.
    """
    descriptions = read_descriptions(folder / "descriptions.yaml")
    _refuse_shared(descriptions, folder)
    known = tuple(descriptions)
    close_file, without_object_file, verbs_file = (folder / f"{f}.yaml" for f in ("close", "without_object", "verbs"))
    close = _read_close(close_file, known)
    if not has_components:
        return LabelSet(
            name=name,
            descriptions=descriptions,
            components={},
            close=close,
            without_object=frozenset(),
            also_true=read_grouped(folder / "also_true.yaml", known),
            minimal_pairs=_paired(folder / "minimal_pairs.yaml", known),
        )
    verbs = _mapping(_read(verbs_file), ("verbs", "named_by_object"), str(verbs_file))
    return LabelSet(
        name=name,
        descriptions=descriptions,
        components=_read_components(sorted(folder.glob("components_*.yaml")), known, folder),
        close=close,
        without_object=frozenset(_names(_read(without_object_file), known, str(without_object_file))),
        verbs={
            action: _strings(value, f"{verbs_file}, {action}")
            for action, value in _mapping(verbs["verbs"], known, f"{verbs_file}, verbs").items()
        },
        named_by_object=frozenset(_names(verbs["named_by_object"], known, f"{verbs_file}, named_by_object")),
    )


def read_descriptions(file: Path) -> dict[str, str]:
    """Return the description of every action, in official order. Raises DataError on a malformed file."""
    descriptions = _read(file)
    if not isinstance(descriptions, dict) or not descriptions:
        raise DataError(f"{file} must map every action to its description; got {type(descriptions).__name__}.")
    for action, text in descriptions.items():
        if not isinstance(text, str) or not text.startswith(OPENING) or not text.endswith("."):
            raise DataError(f"{file}, {action}: a description reads {OPENING + '... .'!r}; got {text!r}.")
    return descriptions


def _refuse_shared(descriptions: Mapping[str, str], folder: Path) -> None:
    """Raise DataError where actions share a description without being listed together in ``same_description.yaml``."""
    file = folder / "same_description.yaml"
    allowed = _read_groups(file, tuple(descriptions))
    for group in allowed:
        if len({descriptions[action] for action in group}) > 1:
            raise DataError(f"{file}: the actions {', '.join(group)} do not share one description; remove the group.")
    action_of: dict[str, str] = {}
    for action, text in descriptions.items():
        first = action_of.setdefault(text, action)
        if first != action and not any(first in group and action in group for group in allowed):
            raise DataError(
                f"{folder / 'descriptions.yaml'}, {action}: same description as {first}; each action needs its own."
            )


def _read_components(
    files: Iterable[Path], actions: tuple[str, ...], folder: Path
) -> dict[str, dict[ClipKind, Components]]:
    components: dict[str, dict[ClipKind, Components]] = {}
    for file in files:
        blocks = _read(file)
        if not isinstance(blocks, dict):
            raise DataError(f"{file} must map actions to their components; got {type(blocks).__name__}.")
        _refuse_unknown(blocks, actions, str(file))
        for action, block in blocks.items():
            if action in components:
                raise DataError(f"{file}, {action}: its components stand in an earlier file too; keep one of the two.")
            kinds = _mapping(block, [k.value for k in DESCRIBED_KINDS], f"{file}, {action}")
            components[action] = {
                k: _components(kinds[k.value], f"{file}, {action}, {k.value}") for k in DESCRIBED_KINDS
            }
    return {a: components[a] for a in _mapping(components, actions, f"{folder}/components_*.yaml")}


def _components(block: Any, where: str) -> Components:
    phrases = _mapping(block, _FIELDS, where)
    for node, phrase in phrases.items():
        if not isinstance(phrase, str) or not phrase.strip():
            raise DataError(f"{where}, {node}: expected a phrase that a camera could see, got {phrase!r}.")
    return Components(**phrases)


def _read_close(file: Path, actions: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    close = {a: _names(v, actions, f"{file}, {a}") for a, v in _mapping(_read(file), actions, str(file)).items()}
    for action, others in close.items():
        if action in others:
            raise DataError(f"{file}, {action}: it is listed as close to itself; remove it from its list.")
    return close


def read_grouped(file: Path, actions: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return for every action those that stand in one group with it, in the order of the file; none where the file is missing."""
    groups = _read_groups(file, actions)
    return {a: tuple(dict.fromkeys(b for group in groups if a in group for b in group if b != a)) for a in actions}


def _paired(file: Path, actions: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the groups of a file as ``read_grouped`` does, without the actions that stand in none."""
    return {action: others for action, others in read_grouped(file, actions).items() if others}


def _read_groups(file: Path, actions: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return groups of two or more actions, none where the file is missing."""
    groups = _read(file) if file.is_file() else []
    if not isinstance(groups, list):
        raise DataError(f"{file} must be a list of groups of actions; got {type(groups).__name__}.")
    named = [_names(group, actions, str(file)) for group in groups]
    for group in named:
        if len(group) < 2:
            raise DataError(
                f"{file}: a group needs at least two actions, got {list(group)}. Add one, or remove the group."
            )
    return named


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, except that a key given twice in a mapping is an error, not an overwrite."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        if repeated := [key for i, key in enumerate(keys) if key in keys[:i]]:
            raise yaml.constructor.ConstructorError(None, None, f"{repeated[0]!r} is given twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _read(file: Path) -> Any:
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)
    except FileNotFoundError:
        raise DataError(
            f"{file} is missing: a label set needs it. Install the package again or restore the file."
        ) from None
    except yaml.YAMLError as error:
        raise DataError(f"{file} is not valid YAML: {error}") from error


def _mapping(value: Any, keys: Collection[str], where: str) -> dict[str, Any]:
    """Return ``value`` in the order of ``keys`` if it is a mapping with these keys and no others."""
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected a mapping, got {type(value).__name__}.")
    _refuse_unknown(value, keys, where)
    if missing := [key for key in keys if key not in value]:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise DataError(f"{where}: {shown} missing. Add what is missing; nothing is filled in for you.")
    return {key: value[key] for key in keys}


def _refuse_unknown(names: Iterable[Any], allowed: Collection[str], where: str) -> None:
    for name in names:
        if name not in allowed:
            shown = ", ".join(allowed) if len(allowed) <= 10 else f"the {len(allowed)} actions of descriptions.yaml"
            raise DataError(f"{where}: unknown name {name!r}.{near_misses(str(name), allowed)} Allowed: {shown}.")


def _names(value: Any, allowed: Collection[str], where: str) -> tuple[str, ...]:
    names = _strings(value, where)
    _refuse_unknown(names, allowed, where)
    return names


def _strings(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise DataError(f"{where}: expected a list of names or words, got {value!r}.")
    if repeated := [v for i, v in enumerate(value) if v in value[:i]]:
        raise DataError(f"{where}: {repeated[0]!r} is listed twice; remove one.")
    return tuple(value)
