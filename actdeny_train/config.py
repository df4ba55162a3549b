"""From a YAML file and ``key=value`` overrides to typed objects.

A mapping with ``_target_: dotted.path`` is a call: the other keys are its keyword arguments. Everything is bound against signatures and
type hints before anything is built, recursively; a wrong key or type is a ConfigError that names its place.
"""

import dataclasses
import importlib
import inspect
import json
import pkgutil
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from yaml import YAMLError

from actdeny_train.errors import ConfigError, near_misses

T = TypeVar("T")
TARGET = "_target_"


class Component(Generic[T]):
    """A part of a run that is checked when the config is read and built when it is needed (a model, a dataset, a callback)."""

    def __init__(self, target: str, where: str, make: Callable[[], T]) -> None:
        self.target = target
        self.where = where
        self._make = make

    def build(self) -> T:
        """Return the object. Each call makes a new one."""
        return self._make()

    def __repr__(self) -> str:
        return f"Component({self.target})"


def read(path: str | Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return a YAML file as plain values, with ``key=value`` overrides (dots for nesting, numbers for list items) and
    ``${key}`` references resolved.
    """
    if not Path(path).is_file():
        folder = Path(path).parent
        known = sorted(str(p) for p in folder.glob("*.yaml")) if folder.is_dir() else []
        raise ConfigError(
            f"There is no config file {str(path)!r}.{near_misses(str(path), known)} Give the path of a YAML file."
        )
    try:
        config = OmegaConf.load(path)
    except (YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(config, DictConfig):
        raise ConfigError(f"{path} must hold a mapping (key: value lines), but holds {type(config).__name__}.")
    return _resolve(config, overrides, str(path))


def replace(values: Mapping[str, Any], overrides: Sequence[str], where: str) -> dict[str, Any]:
    """Return ``values`` with ``key=value`` overrides as ``read`` applies them; ``where`` names their place in errors."""
    return _resolve(OmegaConf.create(dict(values)), overrides, where)


def _resolve(config: DictConfig, overrides: Sequence[str], where: str) -> dict[str, Any]:
    for override in overrides:
        _override(config, override)
    try:
        values = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise ConfigError(
            f"{where}: a ${{...}} reference cannot be resolved: {' '.join(str(error).split())}"
        ) from error
    return typing.cast(dict[str, Any], values)


def parse(values: Mapping[str, Any], base: type[T], where: str) -> T:
    """Check a whole config and return its root object, which must be a ``base``. ``where`` names the file in errors.

    Components stay unbuilt; everything else is built now.
    """
    made = _plan(dict(values), base, "", where)()
    if not isinstance(made, base):
        raise ConfigError(
            f"{where} describes a {type(made).__name__}, but a {base.__name__} is needed here. Use a config whose first key is "
            f"{TARGET}: {base.__module__}.{base.__qualname__}."
        )
    return made


def check(path: str | Path, overrides: Sequence[str] = ()) -> None:
    """Bind every ``_target_`` of a config against its signature, recursively, without building anything."""
    values = read(path, overrides)
    if TARGET not in values:
        raise ConfigError(f"{path} has no {TARGET} at its top, so nothing says what the file configures.")
    _plan(values, Any, "", str(path))


def _override(config: DictConfig, override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(
            f"Cannot read the override {override!r}: write key=value, with dots for nesting (optimizer.lr.llm=1e-6)."
        )
    try:
        value = OmegaConf.to_container(OmegaConf.create(f"value: {text}"))["value"] if text else None  # type: ignore[index, call-overload]
        # A list or another component replaces what stood there; other mappings add to it.
        OmegaConf.update(config, key, value, merge=isinstance(value, dict) and TARGET not in value)
    except (YAMLError, OmegaConfBaseException, IndexError, TypeError, ValueError) as error:
        raise ConfigError(f"Cannot apply the override {override!r}: {' '.join(str(error).split())}") from error


def _plan(value: Any, hint: Any, key: str, file: str) -> Callable[[], Any]:
    """Check ``value`` against a type hint and return what builds it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, TypeVar):
        hint = Any
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return lambda: None
        options = [a for a in arguments if a is not type(None)]
        if len(options) == 1 and _holds_objects([value]):
            return _plan(value, options[0], key, file)
    if origin is Component:
        if not isinstance(value, dict) or TARGET not in value:
            raise _wrong(key, file, f"a mapping with the key {TARGET}", value)
        make = _plan(value, arguments[0], key, file)
        return lambda: Component(value[TARGET], key, make)
    if isinstance(value, dict) and TARGET in value:
        target = _locate(value[TARGET], key, file)
        _check_kind(target, hint, key, file)
        return _plan_call(target, {k: v for k, v in value.items() if k != TARGET}, key, file)
    if isinstance(value, dict) and dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _plan_call(hint, value, key, file)
    if isinstance(value, list) and origin in (tuple, list, Sequence) and _holds_objects(value):
        items = [_plan(item, arguments[0] if arguments else Any, f"{key}.{i}", file) for i, item in enumerate(value)]
        return lambda: tuple(item() for item in items) if origin is not list else [item() for item in items]
    if isinstance(value, dict) and origin in (dict, Mapping) and _holds_objects(value.values()):
        entries = {k: _plan(v, arguments[1], f"{key}.{k}", file) for k, v in value.items()}
        return lambda: {k: make() for k, make in entries.items()}
    plain = _plain(value, hint, key, file)
    return lambda: plain


def _holds_objects(values: Any) -> bool:
    return any(isinstance(v, dict) or (isinstance(v, list) and _holds_objects(v)) for v in values)


def _check_kind(target: Callable[..., Any], hint: Any, key: str, file: str) -> None:
    """Refuse a class, or a function with a declared result, whose objects cannot be what a place needs."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        if any(_makes(target, kind) for kind in kinds):
            return
    elif _makes(target, hint):
        return
    made = _made_by(target)
    raise ConfigError(
        f"{file}: {key or 'the top level'} must be a {_name(hint)}, but its {TARGET} {target.__module__}.{target.__qualname__} "
        f"makes a {_name(made)}. Name another target."
    )


def _made_by(target: Callable[..., Any]) -> Any:
    return target if inspect.isclass(target) else _hints(target).get("return")


def _makes(target: Callable[..., Any], hint: Any) -> bool:
    """Return False only where it is sure that the target's objects are not what ``hint`` says."""
    made = _made_by(target)
    needed: Any = typing.get_origin(hint) or hint
    given: Any = typing.get_origin(made) or made
    if any(not inspect.isclass(kind) or kind in (Any, types.UnionType) for kind in (needed, given)):
        return True
    if getattr(needed, "_is_protocol", False):
        methods = [n for n, member in vars(needed).items() if inspect.isfunction(member) and not n.startswith("_")]
        return all(hasattr(given, name) for name in methods)
    return issubclass(given, needed) or issubclass(needed, given)


def _plan_call(target: Callable[..., Any], given: dict[str, Any], key: str, file: str) -> Callable[[], Any]:
    """Bind keyword arguments to a signature; return what makes the call."""
    name = getattr(target, "__qualname__", str(target))
    try:
        parameters = inspect.signature(target).parameters
    except ValueError as error:
        raise ConfigError(
            f"{file}: {_join(key, TARGET)} names {name}, whose arguments cannot be checked. Name another target."
        ) from error
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    allowed = [n for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    for unknown in (k for k in given if k not in allowed and not takes_any):
        raise ConfigError(
            f"{file}: unknown key {_join(key, str(unknown))!r}.{near_misses(str(unknown), allowed)} {name} takes: "
            f"{', '.join(allowed) or 'nothing'}."
        )
    missing = [n for n in allowed if parameters[n].default is inspect.Parameter.empty and n not in given]
    if missing:
        raise ConfigError(f"{file}: {key or 'the top level'} lacks {', '.join(missing)}, which {name} needs.")
    hints = _hints(target)
    arguments = {k: _plan(v, hints.get(k, Any), _join(key, k), file) for k, v in given.items()}
    return lambda: target(**{k: make() for k, make in arguments.items()})


def _hints(target: Callable[..., Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(target):
        return typing.get_type_hints(target)
    return typing.get_type_hints(target.__init__ if inspect.isclass(target) else target)


def _locate(path: Any, key: str, file: str) -> Callable[..., Any]:
    """Import a dotted path, naming near misses of the first part that does not exist."""
    if not isinstance(path, str) or not path:
        raise _wrong(_join(key, TARGET), file, "a dotted path such as actdeny_train.datasets.miniad.MiniAD", path)
    names = path.split(".")
    for i in range(len(names) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(names[:i]))
        except ModuleNotFoundError as error:
            if error.name is None or not f"{path}.".startswith(f"{error.name}."):
                raise ConfigError(
                    f"{file}: importing {path} needs the package {error.name!r}, which is not installed."
                ) from error
            continue
        for depth, name in enumerate(names[i:], start=i):
            if not hasattr(found, name):
                modules = [m.name for m in pkgutil.iter_modules(getattr(found, "__path__", ()))]
                public = [n for n in {*dir(found), *modules} if not n.startswith("_")]
                raise ConfigError(
                    f"{file}: {_join(key, TARGET)} is {path!r}, but {'.'.join(names[:depth])} has no {name!r}."
                    f"{near_misses(name, public)}"
                )
            found = getattr(found, name)
        if not callable(found):
            raise ConfigError(
                f"{file}: {_join(key, TARGET)} is {path!r}, which cannot be called. Name a class or a function."
            )
        return typing.cast(Callable[..., Any], found)
    raise ConfigError(
        f"{file}: {_join(key, TARGET)} is {path!r}, but there is no module {names[0]!r}. Check the spelling."
    )


def _plain(value: Any, hint: Any, key: str, file: str) -> Any:
    """Check a value without objects inside, strictly (no text for numbers); JSON's lists may fill tuples."""
    try:
        adapter = TypeAdapter(
            hint, config=None if dataclasses.is_dataclass(hint) else ConfigDict(arbitrary_types_allowed=True)
        )
        return adapter.validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("function-", "is-instance")))
        message = str(first["msg"])
        raise _wrong(
            key, file, f"{_name(hint)}{f' (at {place}: {message})' if place else f' ({message})'}", value
        ) from error
    except PydanticSchemaGenerationError as error:
        raise _wrong(key, file, f"a mapping with the key {TARGET} that makes a {_name(hint)}", value) from error


def _name(hint: Any) -> str:
    """Return a type as it stands in source code, without modules."""
    plain = isinstance(hint, type) and not typing.get_args(hint)
    return hint.__name__ if plain else re.sub(r"(?<!['\w])([A-Za-z_]\w*\.)+(?=\w)", "", str(hint))


def _wrong(key: str, file: str, expected: str, value: Any) -> ConfigError:
    shown = json.dumps(value, default=str)
    return ConfigError(
        f"{file}: {key or 'the top level'} must be {expected}, but is {shown if len(shown) < 80 else shown[:77] + '...'}. "
        "Correct the value in the file or on the command line."
    )


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
