"""Find and verify the videos of this dataset: ``python videos.py ROOT`` compares all of them with ``videos.sha256``."""

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VIDEO_ROOT = "ACTDENY_VIDEO_ROOT"


def video_path(row: Mapping[str, Any], root: str | None = None) -> str:
    """Return where a row's video lies under ``root``, or else under the folder that ACTDENY_VIDEO_ROOT names.

    Raises FileNotFoundError where there is none.
    """
    root = root or os.environ.get(VIDEO_ROOT, "")
    path = Path(root) / row["video"]
    if not root or not path.is_file():
        raise FileNotFoundError(
            f"There is no video {str(path)!r}. Give root, or set {VIDEO_ROOT}, to the folder that {row['video']!r} is relative to."
        )
    return str(path)


def changed(row: Mapping[str, Any], root: str | None = None) -> bool:
    """Return whether a row's video is another file than the one the questions were exported with."""
    return row["video_sha256"] is not None and sha256(Path(video_path(row, root))) != row["video_sha256"]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(sums: Path, root: Path) -> list[str]:
    """Return the paths in a file of ``sha256sum`` whose videos are missing or changed."""
    bad = []
    for line in sums.read_text(encoding="utf-8").splitlines():
        escaped = line.startswith("\\")
        digest, video = line.removeprefix("\\").split("  ", 1)
        if escaped:
            video = video.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\0", "\\")
        if not (root / video).is_file() or sha256(root / video) != digest:
            bad.append(video)
    return bad


if __name__ == "__main__":
    wrong = verify(Path(__file__).with_name("videos.sha256"), Path(sys.argv[1]))
    print("\n".join(wrong) if wrong else "all videos are as exported")
    sys.exit(bool(wrong))
