"""Any dataset repository of the Hugging Face Hub with a column of videos and one of labels, downloaded or from a local folder."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from actdeny_train.actions.labels import LabelSet
from actdeny_train.datasets.annotations import by_canonical, canonical, read_text, row_error
from actdeny_train.datasets.base import ClipDataModule, check_path
from actdeny_train.datasets.hub_tables import SUFFIXES, Columns, Row, class_names, extract, read_rows
from actdeny_train.datasets.layouts import VIDEO_SUFFIXES
from actdeny_train.datasets.manifest import find_labels
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.types import Clip, ClipKind

EXTRACTED = "extracted_videos"
"""Folder below the root for videos that data files hold themselves."""
MARK = "extracted.json"
"""In the folder of a data file's videos: which state of the file they were written from."""
REVISION = ".actdeny_revision"
"""In the root: which revision was downloaded, once it is complete."""
SPLITS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""The Hub's names of splits, and the words in paths that mean them."""
_HUB_PATH = re.compile(r"hf://datasets/[^/]+/[^/@]+(?:@[^/]+)?/(?P<path>.+)")


@dataclass(frozen=True, slots=True)
class _Listed:
    row: Row
    clip: Clip


class HubDataset(ClipDataModule):
    """Presence clips: the rows of a repository's parquet, CSV or JSONL files.

    ``root`` is the local folder of the repository, as ``hf download NAME --repo-type dataset --local-dir ROOT`` fills it. With ``repo``
    (its name) and ``revision`` (a commit of 40 hex digits, so that the same clips come every time), it is downloaded there first.
    ``labels`` is the name of one of the package's label sets or a YAML file that maps actions to descriptions.

    ``files`` maps a split to patterns of its data files. Without it, the split of a file is what the dataset card (README.md) says, else
    the word train, validation or test in its path. ``video``, ``label`` and ``source`` name columns. A video is a path relative to the data
    file or the root, its bytes, or a struct of both, as the Hub's Video feature is stored; None finds the column of that feature, ``video``
    or ``file_name``. Embedded videos are written to ``root/extracted_videos`` when a split is used. A label is an action's name, or a class
    number whose name the schema or the card tells. Without ``source``, every video counts as its own source.
    """

    def __init__(
        self,
        root: str,
        labels: str,
        files: dict[str, tuple[str, ...]] | None = None,
        video: str | None = None,
        label: str = "label",
        source: str | None = None,
        repo: str | None = None,
        revision: str | None = None,
        screening: Screening | None = None,
    ) -> None:
        super().__init__(root, screening)
        self._labels = find_labels(labels)
        self.files = {split: tuple(patterns) for split, patterns in files.items()} if files else None
        self.columns = Columns(video, label, source)
        if repo is not None and not re.fullmatch("[0-9a-f]{40}", revision or ""):
            raise ConfigError(
                f"HubDataset: repo is {repo!r}, but revision is {revision!r}. Give the commit to download, 40 hex digits (the history of "
                "the repository's files shows it): a branch would give other clips another day."
            )
        if repo is None and revision is not None:
            raise ConfigError(f"HubDataset: revision is {revision!r}, but no repo is given. Give its name, or neither.")
        self.repo, self.revision = repo, revision
        self._listed: dict[str, list[_Listed]] = {}

    @property
    def labels(self) -> LabelSet:
        return self._labels

    def prepare_data(self) -> None:
        """Download the repository, unless the root has it. Raises DataError if that fails."""
        if self.repo is not None and self.revision is not None:
            download(self.repo, self.revision, self.root)

    def usable(self, split: str) -> list[Clip]:
        """Return the clips of a split whose videos decode; embedded ones are first written to files."""
        self._extract(split)
        return super().usable(split)

    def read_clips(self) -> Iterator[Clip]:
        """Yield the clips by split, file and row. Raises DataError without data files, or at a malformed row."""
        if not self.root.is_dir():
            raise DataError(
                f"The folder {str(self.root)!r} of the dataset repository does not exist. Download it with `hf download NAME --repo-type "
                "dataset --local-dir FOLDER`, or set `repo` and `revision`; then an evaluation or training downloads it."
            )
        self._listed = {split: list(self._rows(split, paths)) for split, paths in self._files().items()}
        for listed in self._listed.values():
            yield from (one.clip for one in listed)

    def _files(self) -> dict[str, list[Path]]:
        """Return the data files of each split, sorted."""
        told = self.files or card_files(self.root)
        if told is None:
            return files_by_name(self.root)
        found = {}
        for split, patterns in told.items():
            paths = {path for pattern in patterns for path in _match(self.root, pattern)}
            if not paths:
                raise DataError(
                    f"No data file (*{', *'.join(SUFFIXES)}) below {str(self.root)!r} matches the patterns of split {split!r}: "
                    f"{', '.join(patterns)}. Download the files, or set `files` to patterns of those that are there."
                )
            found[split] = sorted(paths)
        return found

    def _rows(self, split: str, paths: Sequence[Path]) -> Iterator[_Listed]:
        actions = by_canonical(self._labels)
        for path in paths:
            names = class_names(path, self.columns.label) or card_class_names(self.root, self.columns.label)
            total = unlabelled = 0
            for row in read_rows(path, self.columns):
                total += 1
                name = _label_name(row, names)
                if name is None:
                    unlabelled += 1
                    continue
                action = actions.get(canonical(name))
                if action is None:
                    hint = near_misses(name, self._labels.actions)
                    raise row_error(
                        row.where, name, f"one of the {len(actions)} actions of {self._labels.name!r}", hint
                    )
                yield _Listed(row, self._clip(split, path, row, action))
            if unlabelled:
                print(f"{path}: {unlabelled} of {total} rows have no label and are left out", flush=True)

    def _clip(self, split: str, file: Path, row: Row, action: str) -> Clip:
        if row.is_embedded:
            suffix = PurePosixPath(row.path or "").suffix.lower()
            inner = file.relative_to(self.root).with_suffix("").as_posix()
            id = f"{inner}/{row.index}"
            path = f"{EXTRACTED}/{inner}/{row.index:06d}{suffix if suffix in VIDEO_SUFFIXES else '.mp4'}"
        else:
            path = self._find(file, row)
            id = PurePosixPath(path).with_suffix("").as_posix()
        return Clip(
            id=id,
            path=path,
            action=action,
            kind=ClipKind.PRESENCE,
            split=split,
            source=row.source or id,
        )

    def _find(self, file: Path, row: Row) -> str:
        assert row.path is not None
        hub = _HUB_PATH.fullmatch(row.path)
        if hub is None and "://" in row.path:
            raise row_error(row.where, row.path, "a path below the repository: videos are not fetched from elsewhere")
        named = check_path(hub["path"] if hub else row.path, row.where)
        beside = (file.parent.relative_to(self.root) / named).as_posix()
        return beside if not hub and (self.root / beside).is_file() else PurePosixPath(named).as_posix()

    def _extract(self, split: str) -> None:
        self.clips(split)
        embedded: dict[Path, dict[int, Path]] = {}
        for one in self._listed.get(split, []):
            if one.row.is_embedded:
                file = Path(one.row.where.rpartition(", row ")[0])
                embedded.setdefault(file, {})[one.row.index] = self.root / one.clip.path
        for file, targets in embedded.items():
            mark = self.root / EXTRACTED / file.relative_to(self.root).with_suffix("") / MARK
            about = file.stat()
            state = {"bytes": about.st_size, "changed_ns": about.st_mtime_ns}
            is_same = _read_mark(mark) == state
            missing = {i: path for i, path in targets.items() if not (is_same and path.is_file())}
            if missing:
                print(f"{file}: writing {len(missing)} embedded videos to {mark.parent}", flush=True)
                # A run that is killed meanwhile must not leave videos of an older file under the mark of this one.
                mark.unlink(missing_ok=True)
                extract(file, self.columns.video, missing)
                mark.write_text(json.dumps(state), encoding="utf-8")


def download(repo: str, revision: str, root: Path) -> None:
    """Download a dataset repository at a commit, unless ``root`` has it complete. Raises DataError where the Hub does not give it."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HTTPError

    wanted = f"{repo}@{revision}"
    mark = root / REVISION
    if mark.is_file():
        found = read_text(mark).strip()
        if found == wanted:
            return
        raise DataError(
            f"{str(root)!r} holds {found}, but {wanted} is asked for. Set `root` to another folder, or remove this one."
        )
    try:
        # Offline, snapshot_download alone would be content with whatever the folder holds.
        HfApi().dataset_info(repo, revision=revision, timeout=30)
        snapshot_download(repo, repo_type="dataset", revision=revision, local_dir=root)
    except (HTTPError, OSError, ValueError) as error:
        raise DataError(
            f"The dataset {repo} cannot be downloaded at revision {revision} ({' '.join(str(error).split())[:300]}). Correct `repo` and "
            f"`revision`, or, on a machine with internet, run `hf download {repo} --repo-type dataset --revision {revision} --local-dir "
            "FOLDER`, copy the folder, set `root` to it and leave `repo` out."
        ) from None
    mark.write_text(wanted + "\n", encoding="utf-8")


def files_by_name(root: Path) -> dict[str, list[Path]]:
    """Return the data files below ``root`` by the split that their paths name: parquet files, else CSV and JSONL."""
    parquet, others = _match(root, "**/*.parquet"), [*_match(root, "**/*.csv"), *_match(root, "**/*.jsonl")]
    found: dict[str, list[Path]] = {}
    for path in sorted(parquet or others):
        split = _split_of(path.relative_to(root))
        if split is None:
            raise DataError(
                f"{path}: its path does not tell its split, as train, validation or test would. Set `files`, e.g. to "
                f"{{test: [{path.relative_to(root).as_posix()}]}}."
            )
        found.setdefault(split, []).append(path)
    if not found:
        raise DataError(
            f"There is no data file (*{', *'.join(SUFFIXES)}) below {str(root)!r}. Set `root` to the folder of the repository. A folder "
            "of videos in class folders is read by actdeny_train.datasets.folders.Folders; archives (*.tar, *.zip) must be unpacked first."
        )
    return found


def card_files(root: Path) -> dict[str, tuple[str, ...]] | None:
    """Return the patterns of each split that the dataset card tells; None if it tells none."""
    configs = _card(root).get("configs")
    if not isinstance(configs, list) or not configs:
        return None
    named = {str(c.get("config_name")): c for c in configs if isinstance(c, dict) and c.get("data_files")}
    default = [c for c in named.values() if c.get("default") is True] or [c for n, c in named.items() if n == "default"]
    if not named:
        return None
    if not default and len(named) > 1:
        raise DataError(
            f"{root / 'README.md'} has the configurations {', '.join(named)}, and none is the default. Set `files` to the data files of "
            "the one to read."
        )
    files = (default or list(named.values()))[0]["data_files"]
    entries = files if isinstance(files, list) else [files]
    if isinstance(files, dict) and "path" not in files:
        entries = [{"split": split, "path": path} for split, path in files.items()]
    found: dict[str, list[str]] = {}
    for entry in entries:
        entry = {"path": entry} if isinstance(entry, str) else entry
        patterns = entry.get("path") if isinstance(entry, dict) else None
        patterns = [patterns] if isinstance(patterns, str) else patterns
        if not isinstance(patterns, list) or not all(isinstance(pattern, str) for pattern in patterns):
            raise DataError(
                f"{root / 'README.md'}: data_files has the entry {entry!r:.80}, which names no files. Set `files`."
            )
        found.setdefault(str(entry.get("split", "train")), []).extend(patterns)
    return {split: tuple(patterns) for split, patterns in found.items()}


def card_class_names(root: Path, label: str) -> list[str]:
    """Return the names of class numbers that the dataset card tells of a column; empty without any."""
    told = _card(root).get("dataset_info")
    for info in told if isinstance(told, list) else [told]:
        features = _get(info, "features")
        for feature in features if isinstance(features, list) else []:
            if _get(feature, "name") == label:
                names = _get(feature, "dtype", "class_label", "names")
                if isinstance(names, Mapping) and all(str(key).isdecimal() for key in names):
                    names = [names[key] for key in sorted(names, key=int)]
                if isinstance(names, list):
                    return [str(name) for name in names]
    return []


def _get(value: Any, *keys: str) -> Any:
    """Return what lies under nested keys; None where a mapping or a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _card(root: Path) -> dict[str, Any]:
    """Return the front matter of the dataset card, {} without one."""
    path = root / "README.md"
    parts = re.split(r"^---\s*$", read_text(path), maxsplit=2, flags=re.MULTILINE) if path.is_file() else []
    if len(parts) < 3 or parts[0].strip():
        return {}
    try:
        told = yaml.safe_load(parts[1])
    except yaml.YAMLError as error:
        raise DataError(
            f"{path}: the block between the lines --- is not valid YAML ({' '.join(str(error).split())[:200]}). Mend or remove it."
        ) from None
    return told if isinstance(told, dict) else {}


def _match(root: Path, pattern: str) -> list[Path]:
    """Return the data files below ``root`` that match, but none in hidden folders or among extracted videos."""
    check_path(pattern, f"pattern {pattern!r}")
    try:
        found = [path for path in root.glob(pattern) if path.is_file() and path.suffix.lower() in SUFFIXES]
    except (ValueError, NotImplementedError, OSError) as error:
        raise DataError(f"The pattern {pattern!r} of data files cannot be used ({error}). Correct `files`.") from None
    inner = [(path, path.relative_to(root).parts) for path in found]
    return [path for path, parts in inner if parts[0] != EXTRACTED and not any(p.startswith(".") for p in parts)]


def _split_of(path: Path) -> str | None:
    words = {word: split for split, found in SPLITS.items() for word in found}
    for part in (path.stem, *reversed(path.parent.parts)):
        named = {words[word] for word in re.split(r"[^a-z]+", part.lower()) if word in words}
        if len(named) == 1:
            return named.pop()
    return None


def _label_name(row: Row, names: Sequence[str]) -> str | None:
    """Return the class name of a row; None if it has no label (nothing, or the number -1 as the Hub has it)."""
    label = row.label
    if label is None or label == "" or label == -1:
        return None
    if isinstance(label, str) and (not label.isdecimal() or not names):
        return label
    number = int(label)
    if not names:
        raise DataError(
            f"{row.where}: the label is the number {number}, but neither the file's schema nor the dataset card tells the names of its "
            "classes. Name a column with names as `label`, or write the classes into the card (dataset_info)."
        )
    if not 0 <= number < len(names):
        raise row_error(row.where, str(number), f"a class from 0 to {len(names) - 1}")
    return names[number]


def _read_mark(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
