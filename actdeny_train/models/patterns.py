"""Patterns over dotted names: ``layers.-8:`` the last eight layers, ``layers.-8:.self_attn`` their attention, ``*norm.weight``.

A pattern is one or more segments that stand in a row, anywhere in a name. A segment is a glob, an index (negative ones count from the
end) or a slice as Python writes it.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from actdeny_train.errors import ConfigError, near_misses

INDEX = re.compile(r"-?\d+")
SLICE = re.compile(r"(-?\d+)?:(-?\d+)?")


def select(patterns: Sequence[str], names: Sequence[str], where: str, what: str) -> list[str]:
    """Return the names that any pattern matches, in their order.

    ``where`` (config path) and ``what`` (as in "parameter of llm") stand in the error for a pattern that matches nothing, a ConfigError.
    """
    lengths = _lengths(names)
    chosen: set[str] = set()
    for pattern in patterns:
        found = [name for name in names if _matches(pattern.split("."), name.split("."), lengths)]
        if not found:
            raise ConfigError(
                f"{where}: {pattern!r} matches no {what}.{_near(pattern, names)} There are {len(names)}, such as "
                f"{', '.join(_sample(names)) or 'none'}. A pattern is one or more segments of a name in a row: globs, or layers as "
                "layers.3, layers.-1 (the last one) or layers.-8: (the last eight)."
            )
        chosen.update(found)
    return [name for name in names if name in chosen]


def _matches(pattern: Sequence[str], name: Sequence[str], lengths: Mapping[tuple[str, ...], int]) -> bool:
    return any(
        all(
            _fits(segment, name[start + i], lengths.get(tuple(name[: start + i]), 0))
            for i, segment in enumerate(pattern)
        )
        for start in range(len(name) - len(pattern) + 1)
    )


def _fits(segment: str, part: str, length: int) -> bool:
    """Tell whether one segment fits one part of a name; ``length`` is that of the list in which the part is an index."""
    if not part.isdigit() or not length:
        return fnmatchcase(part, segment)
    if INDEX.fullmatch(segment):
        return int(part) == (int(segment) if int(segment) >= 0 else length + int(segment))
    if bounds := SLICE.fullmatch(segment):
        first, last = (int(text) if text else None for text in bounds.groups())
        return int(part) in range(length)[first:last]
    return fnmatchcase(part, segment)


def _lengths(names: Iterable[str]) -> dict[tuple[str, ...], int]:
    """Return how long each numbered list is, by what stands before its indices."""
    lengths: dict[tuple[str, ...], int] = defaultdict(int)
    for name in names:
        parts = name.split(".")
        for i, part in enumerate(parts):
            if part.isdigit():
                before = tuple(parts[:i])
                lengths[before] = max(lengths[before], int(part) + 1)
    return lengths


def _near(pattern: str, names: Sequence[str]) -> str:
    """Name what the first segment that fits nowhere may have meant."""
    known = sorted({part for name in names for part in name.split(".") if not part.isdigit()})
    for segment in pattern.split("."):
        numeric = INDEX.fullmatch(segment) or SLICE.fullmatch(segment)
        if not numeric and not any(fnmatchcase(part, segment) for part in known):
            return near_misses(segment, known)
    return ""


def _sample(names: Sequence[str]) -> list[str]:
    """Return three names: the first, one of the middle and the last."""
    return [names[i] for i in sorted({0, len(names) // 2, len(names) - 1})] if names else []
