"""Where a dataset's videos lie on disk: one walk below the root, then look-ups by file name, in whatever folders they were put."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from actdeny_train.datasets.annotations import canonical
from actdeny_train.errors import DataError

VIDEO_SUFFIXES = frozenset(
    (".3gp", ".avi", ".flv", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ts", ".webm", ".wmv")
)


def list_videos(root: Path) -> Iterator[str]:
    """Yield the paths of all videos below ``root``, relative to it and with ``/``, in an order that never changes.

    Links to folders are followed once. Names with a dot in front are left out: unfinished downloads, macOS's companions.
    """
    seen = set()
    for folder, folders, files in os.walk(root, followlinks=True):
        state = Path(folder).stat()
        if (state.st_dev, state.st_ino) in seen:
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in VIDEO_SUFFIXES:  # noqa: PTH122
                yield (Path(folder) / name).relative_to(root).as_posix()


class VideoIndex:
    """The videos below ``root`` by a key made from their stem, which is the file name without its suffix."""

    def __init__(self, root: Path, key: Callable[[str], str] = str) -> None:
        self.root = root
        self._key = key
        self._paths: dict[str, list[str]] = {}
        for path in list_videos(root):
            self._paths.setdefault(key(PurePosixPath(path).stem), []).append(path)

    def find(self, official: str, *, folders: tuple[str, ...] = ()) -> str:
        """Return where the video lies whose official path below the root is ``official``; that path itself if there is none.

        Of several videos with its key, one is taken by the first rule that leaves one: the same stem; an enclosing folder
        named like the first, then the second ... of ``folders``; the official path; the official suffix. Raises DataError where
        none does: two videos would be one clip.
        """
        wanted = PurePosixPath(official)
        found = self._paths.get(self._key(wanted.stem), [])
        if not found:
            return official
        rules: list[Callable[[PurePosixPath], bool]] = [
            lambda path: path.stem == wanted.stem,
            *(_lies_below(folder) for folder in folders),
            lambda path: path == wanted,
            lambda path: path.suffix.lower() == wanted.suffix,
        ]
        for rule in rules:
            kept = [path for path in found if rule(PurePosixPath(path))]
            found = kept or found
            if len(found) == 1:
                return found[0]
        raise DataError(
            f"Below {str(self.root)!r} lie {len(found)} videos that may be {official!r}, such as {found[0]!r} and {found[1]!r}. Set `root` "
            "to the folder that holds each clip once, or move the others away."
        )


def _lies_below(folder: str) -> Callable[[PurePosixPath], bool]:
    return lambda path: canonical(folder) in map(canonical, path.parts[:-1])
