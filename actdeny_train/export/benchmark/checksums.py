"""SHA-256 sums of the videos, in the format of ``sha256sum``, so that others can tell whether they have the same files."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from actdeny_train.errors import DataError
from actdeny_train.types import Clip

FILE = "videos.sha256"


def checksums(clips: Iterable[Clip], video_root: Path) -> dict[str, str]:
    """Return the sum of each video by its path under the root, in alphabetical order. Raises DataError if one is missing."""
    sums = {}
    for path in sorted({clip.path for clip in clips}):
        try:
            with (video_root / path).open("rb") as file:
                sums[path] = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(
                f"The video {path!r} cannot be read under {str(video_root)!r} ({error.strerror}), but its checksum goes into the export. "
                "Correct the root, or leave the clip out."
            ) from None
    return sums


def write_checksums(folder: Path, sums: dict[str, str]) -> None:
    """Write ``videos.sha256``; ``sha256sum --check`` reads it in the video root."""
    lines = []
    for path, digest in sums.items():
        escaped = path.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{'' if escaped == path else chr(92)}{digest}  {escaped}\n")
    (folder / FILE).write_text("".join(lines), encoding="utf-8", newline="\n")
