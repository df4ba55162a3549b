"""The six transfer datasets in their official layouts, from files on disk to frames."""

from collections.abc import Callable

import pytest

from actdeny_train.config import parse
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.video.sampling import Middle
from tests.miniatures import MINIATURES, NUM_FRAMES, Miniature


@pytest.mark.parametrize("name", MINIATURES)
def test_every_clip_is_found_and_decodes_whole(name: str, miniature: Callable[[str], Miniature]) -> None:
    made = miniature(name)
    data = parse(made.data, ClipDataModule, name)
    assert isinstance(data, ClipDataModule)
    usable = data.usable(made.split)
    assert {clip.id: clip.action for clip in usable} == made.clips
    assert tuple(entry.id for entry in data.quarantine(made.split)) == made.missing
    assert tuple(clip.id for clip in data.clips("train")) == made.train
    read = ClipReader(data, Middle(num_frames=4))
    seen = [read(clip) for clip in usable]
    assert [frames.num_decoded for frames in seen] == [NUM_FRAMES] * len(usable)
    assert len({frames.pixels.tobytes() for frames in seen}) == len(usable)
