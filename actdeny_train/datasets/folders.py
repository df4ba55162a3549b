"""Any dataset with one folder a class: splits by folder (``train/<class>/<video>``) or by a file."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from actdeny_train.actions.labels import LabelSet
from actdeny_train.datasets.annotations import by_canonical, canonical, read_table, row_error
from actdeny_train.datasets.base import ClipDataModule, check_path
from actdeny_train.datasets.layouts import list_videos
from actdeny_train.datasets.manifest import find_labels
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.types import Clip, ClipKind

COLUMNS = ("path", "split", "source")
"""Columns of a split file; the last one is optional."""


class Folders(ClipDataModule):
    """Presence clips: every video in a class folder.

    ``labels`` is the name of one of the package's label sets ("ucf101", "hmdb51", ...) or the path of a YAML file that maps actions to
    descriptions. A class folder is one whose name is an action's, whatever its casing, spaces and punctuation.

    Without ``split_file``, videos lie in ``<split>/<class>/``, split being one of ``splits``. ``split_file`` is a CSV file with the header
    ``path,split`` or ``path,split,source``; a path is ``<class>/<video>`` below ``root``, folders may stand before; what it does not list
    is not used.

    ``source_pattern`` is a regular expression that finds a clip's source in its file name: ``<class>/`` and what its groups match, such as
    ``_(g[0-9]+)_``. Without it, and without the column ``source``, every video counts as its own source.
    """

    def __init__(
        self,
        root: str,
        labels: str,
        splits: tuple[str, ...] = ("train", "val", "test"),
        split_file: str | None = None,
        source_pattern: str | None = None,
        screening: Screening | None = None,
    ) -> None:
        super().__init__(root, screening)
        self.splits = tuple(splits)
        self.split_file = Path(split_file) if split_file else None
        self.source_pattern = _compile(source_pattern) if source_pattern is not None else None
        self._labels = find_labels(labels)

    @property
    def labels(self) -> LabelSet:
        return self._labels

    def read_clips(self) -> Iterator[Clip]:
        """Yield the clips of the split file in its order, else those of each split by path."""
        yield from self._listed(self.split_file) if self.split_file else self._found()

    def _found(self) -> Iterator[Clip]:
        missing = [split for split in self.splits if not (self.root / split).is_dir()]
        if len(missing) == len(self.splits):
            raise DataError(
                f"{str(self.root)!r} has none of the folders {', '.join(self.splits)}: videos must lie in <split>/<class>/. Set `root` or "
                "`splits`, or name a CSV file with the columns path and split as `split_file`."
            )
        actions = by_canonical(self._labels)
        for split in self.splits:
            for path in list_videos(self.root / split):
                folder, name = _parts(path)
                where = f"{self.root / split / path}"
                action = self._action(folder, actions, where)
                yield self._clip(f"{split}/{path}", f"{split}/{action}/{name}", action, split, None)

    def _listed(self, file: Path) -> Iterator[Clip]:
        actions = by_canonical(self._labels)
        header: list[str] = []
        for where, values in read_table(file):
            if not header:
                header = values
                if tuple(header) not in (COLUMNS, COLUMNS[:2]):
                    raise row_error(
                        where, ",".join(values), f"the header {','.join(COLUMNS[:2])} or {','.join(COLUMNS)}"
                    )
                continue
            if len(values) != len(header) or not all(values):
                raise row_error(where, ",".join(values), f"{len(header)} values, none empty: {', '.join(header)}")
            path, split, *source = values
            if split not in self.splits:
                raise row_error(
                    where, split, f"one of the splits {', '.join(self.splits)}", near_misses(split, self.splits)
                )
            folder, _ = _parts(check_path(path, where))
            yield self._clip(path, path, self._action(folder, actions, where), split, source[0] if source else None)

    def _action(self, folder: str, actions: dict[str, str], where: str) -> str:
        action = actions.get(canonical(folder))
        if action is None:
            hint = near_misses(folder, self._labels.actions)
            raise DataError(
                f"{where}: the folder {folder!r} is not called like one of the {len(actions)} actions of label set "
                f"{self._labels.name!r}.{hint} A video must lie in the folder of its action. Rename or move it."
            )
        return action

    def _clip(self, path: str, id: str, action: str, split: str, source: str | None) -> Clip:
        if source is None:
            source = self._source(path, action) if self.source_pattern else id
        return Clip(
            id=PurePosixPath(id).with_suffix("").as_posix(),
            path=path,
            action=action,
            kind=ClipKind.PRESENCE,
            split=split,
            source=source,
        )

    def _source(self, path: str, action: str) -> str:
        assert self.source_pattern is not None
        match = self.source_pattern.search(PurePosixPath(path).name)
        if match is None or not any(match.groups()):
            raise DataError(
                f"The video name {PurePosixPath(path).name!r} ({path!r} below {str(self.root)!r}) does not hold the source_pattern "
                f"{self.source_pattern.pattern!r}, which tells the source of a clip. Correct `source_pattern`, or rename the video."
            )
        return "/".join([action, *(group for group in match.groups() if group)])


def _parts(path: str) -> tuple[str, str]:
    """Return the class folder and the file name of a path below the split; the folder is "" where there is none."""
    file = PurePosixPath(path)
    return file.parent.name, file.name


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"source_pattern {pattern!r} is not a regular expression ({error}). Correct it.") from None
    if compiled.groups == 0:
        raise ConfigError(
            f"source_pattern {pattern!r} has no group: what stands in round brackets names the source, as in '_(g[0-9]+)_'. Add one."
        )
    return compiled
