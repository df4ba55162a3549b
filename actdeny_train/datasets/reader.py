"""Clip -> frames: a dataset's videos through one sampling rule. Pickles into data workers."""

import hashlib

from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.errors import DataError
from actdeny_train.types import Clip, Frames
from actdeny_train.video.cache import FrameCache
from actdeny_train.video.sampling import Sampling


class ClipReader:
    """Reads the frames of clips of ``data``; ``cache_gib`` GiB of them stay in memory, in each process on its own."""

    def __init__(self, data: ClipDataModule, sampling: Sampling, cache_gib: float = 0.0) -> None:
        self.root = data.root
        self.on_damage = data.screening.on_damage
        self.sampling = sampling
        self.cache = FrameCache(cache_gib)

    def __call__(self, clip: Clip) -> Frames:
        """Return the clip's frames. Raises DataError, with the clip's id, if the video has changed since it was verified."""
        try:
            return self.cache.read(
                self.root / clip.path, self.sampling, start_s=clip.start_s, end_s=clip.end_s, on_damage=self.on_damage
            )
        except DataError as error:
            raise DataError(f"Clip {clip.id!r} decoded when it was verified, but not now. {error}") from error

    def fingerprint(self, clip: Clip) -> str:
        """Return a short hash of the bytes of the clip's video. Raises DataError if the file cannot be read."""
        try:
            with (self.root / clip.path).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()[:16]
        except OSError as error:
            raise DataError(
                f"The video of clip {clip.id!r}, {str(self.root / clip.path)!r}, cannot be read ({error.strerror}). Restore the file."
            ) from error
