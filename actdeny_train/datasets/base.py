"""What all datasets share: clips by split, checked for leakage, screened before step 0, fed to a trainer."""

import abc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PureWindowsPath
from typing import NamedTuple

import lightning
from torch.utils.data import DataLoader

from actdeny_train.actions.labels import LabelSet
from actdeny_train.datasets.quarantine import Quarantined, Screening, write_quarantine
from actdeny_train.errors import DataError, near_misses
from actdeny_train.types import Clip, ClipGroup


class Published(NamedTuple):
    """How many clips a split has as published (several counts: of several versions), and what explains other numbers on a disk."""

    counts: tuple[int, ...]
    note: str = ""


class ClipDataModule(lightning.LightningDataModule, abc.ABC):
    """Clips of one dataset.

    A dataset says where its clips come from (``read_clips``) and what its actions are called (``labels``); everything else
    stands here. ``root`` is the folder that clip paths are relative to; ``screening`` says how videos are verified.
    A dataset whose questions are about several clips at once overrides ``all_groups``.
    """

    has_videos = True
    """False where there is nothing but words to show, and no video is verified."""

    def __init__(self, root: str | Path, screening: Screening | None = None) -> None:
        super().__init__()
        self.root = Path(root)
        self.screening = screening or Screening()
        self._all_clips: list[Clip] | None = None
        self._screened: dict[str, tuple[list[Clip], list[Quarantined]]] = {}
        self._make_loader: Callable[[list[Clip]], DataLoader] | None = None

    @property
    @abc.abstractmethod
    def labels(self) -> LabelSet:
        """Label set of the clips' actions."""

    @abc.abstractmethod
    def read_clips(self) -> Iterable[Clip]:
        """Return the clips of all splits, in an order that never changes. Called once; videos need not be opened."""

    def published(self) -> dict[str, Published]:
        """Return how many clips each split has as published; nothing where no figures were published."""
        return {}

    def clips(self, split: str) -> list[Clip]:
        """Return all clips of a split, whether their videos can be decoded or not.

        Raises DataError for a split without clips, for repeated ids and for a source in two splits.
        """
        if self._all_clips is None:
            read = list(self.read_clips())
            check_ids(read)
            check_sources(read)
            self._all_clips = read
        found = [clip for clip in self._all_clips if clip.split == split]
        if not found:
            splits = sorted({clip.split for clip in self._all_clips})
            raise DataError(
                f"{type(self).__name__} has no clip in split {split!r}. Splits with clips: {', '.join(splits) or 'none at all'}."
                f"{near_misses(split, splits)} Name one of these, or add clips to the dataset's list."
            )
        return found

    def usable(self, split: str) -> list[Clip]:
        """Return the clips of a split whose videos decode; the rest stands in ``quarantine(split)``.

        The first call verifies every video of the split (remembered in ``verified.jsonl``) and prints how many were quarantined.
        Raises DataError if no clip is left.
        """
        return self._screen(split)[0]

    def all_groups(self, split: str) -> Sequence[ClipGroup]:
        """Return what questions are asked about, each clip on its own; whether their videos can be decoded or not."""
        return [ClipGroup.of(clip) for clip in self.clips(split)]

    def groups(self, split: str) -> list[ClipGroup]:
        """Return the groups of which all clips are usable. Raises DataError if there is none."""
        usable = {clip.id for clip in self.usable(split)}
        groups = self.all_groups(split)
        kept = [group for group in groups if all(clip.id in usable for clip in group.clips)]
        if len(kept) < len(groups) and any(len(group.clips) > 1 for group in groups):
            print(
                f"{len(groups) - len(kept)} of {len(groups)} groups of clips left out: a clip is quarantined",
                flush=True,
            )
        if not kept:
            raise DataError(
                f"No group of clips of split {split!r} of {type(self).__name__} can be used: in each of the {len(groups)}, a clip is "
                f"quarantined, such as {self.quarantine(split)[0].path!r} under {str(self.root)!r}. Complete the videos."
            )
        return kept

    def quarantine(self, split: str) -> list[Quarantined]:
        """Return the clips of a split that cannot be used, each with its reason."""
        return self._screen(split)[1]

    def write_quarantine(self, folder: Path) -> Path:
        """Write the quarantined clips of all splits screened so far to ``folder/quarantine.jsonl``; return its path."""
        return write_quarantine(folder, [entry for _, entries in self._screened.values() for entry in entries])

    def video_path(self, clip: Clip) -> Path:
        """Return where a clip's video lies. Raises DataError if the root is missing or the path leaves it."""
        if not self.root.is_dir():
            raise DataError(
                f"The video root of {type(self).__name__} is missing: {str(self.root)!r} (resolved: {self.root.resolve()}) is not "
                f"a folder. It must be the folder that clip paths such as {clip.path!r} are relative to. Set the dataset's `root` "
                "in the configuration, or append `<key of the dataset>.root=/path/to/videos` to the command."
            )
        check_path(clip.path, f"clip {clip.id!r}")
        return self.root / clip.path

    def feed(self, make_loader: Callable[[list[Clip]], DataLoader]) -> None:
        """Set how clips become batches; ``train_dataloader`` calls it with the usable clips of split ``"train"``."""
        self._make_loader = make_loader

    def train_dataloader(self) -> DataLoader:
        """Return the loader over the usable clips of split ``"train"``."""
        assert self._make_loader is not None, "call feed(make_loader) before training"
        return self._make_loader(self.usable("train"))

    def _screen(self, split: str) -> tuple[list[Clip], list[Quarantined]]:
        if split not in self._screened:
            clips = self.clips(split)
            usable, quarantined = self.screening.screen([(clip, self.video_path(clip)) for clip in clips], self.root)
            if quarantined:
                listed = "; ".join(f"{entry.id}: {entry.reason}" for entry in quarantined[:3])
                more = f"; and {len(quarantined) - 3} more" if len(quarantined) > 3 else ""
                print(f"{len(quarantined)} of {len(clips)} {split} clips quarantined ({listed}{more})", flush=True)
            if not usable:
                raise DataError(
                    f"No clip of split {split!r} of {type(self).__name__} can be used: all {len(clips)} are quarantined, the first "
                    f"one, {quarantined[0].path!r} under {str(self.root)!r}, because: {quarantined[0].reason}. Check that `root` is "
                    "the folder that clip paths are relative to and that the videos are complete."
                )
            self._screened[split] = usable, quarantined
        return self._screened[split]


def check_path(path: str, where: str) -> str:
    """Return ``path`` if it is relative and stays under its root; else raise DataError.

    Links below the root may point elsewhere: whoever owns the folder made them (the Hub's cache consists of them).
    """
    check_text(path, f"path of {where}")
    # Windows rules know both kinds of slash and drives; a manifest may have been written there.
    plain = PureWindowsPath(path)
    if not plain.parts or plain.anchor or ".." in plain.parts:
        raise DataError(
            f"The path {path!r} of {where} leaves the dataset's root. Paths must be relative to the root, without '..' and without a "
            "drive. Set `root` to a folder above all videos and write the paths from there."
        )
    return path


def check_text(text: str, where: str) -> str:
    """Return ``text`` if UTF-8 can hold it, as the files written about a clip must; else raise DataError."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"The {where} is {text!a}, which UTF-8 cannot hold: it has half a surrogate pair, or comes from a file name in another "
            "encoding. Rename it."
        ) from None
    return text


def check_ids(clips: Sequence[Clip]) -> None:
    """Raise DataError if two clips have the same id."""
    seen: dict[str, Clip] = {}
    for clip in clips:
        if clip.id in seen:
            raise DataError(
                f"Two clips have the id {clip.id!r}: {seen[clip.id].path!r} and {clip.path!r}. Predictions are stored by clip id, so "
                "ids must be unique within a dataset. Rename one, or remove the repeated row."
            )
        seen[clip.id] = clip


def check_sources(clips: Sequence[Clip]) -> None:
    """Raise DataError if clips of one source lie in two splits.

    Clips of one source show the same people and place, so a model trained on some of them has seen the others.
    """
    first: dict[str, Clip] = {}
    for clip in clips:
        other = first.setdefault(clip.source, clip)
        if other.split != clip.split:
            raise DataError(
                f"Source {clip.source!r} lies in two splits: clip {other.id!r} in {other.split!r} and clip {clip.id!r} in "
                f"{clip.split!r}. All clips cut from one source must lie in one split, or scores measure memory. Move them into one "
                "split, or correct `source` if the clips come from different long videos."
            )
