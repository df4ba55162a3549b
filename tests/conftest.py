"""Fixtures for all tests."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from actdeny_train.models.qwen2_5_vl import Qwen25VL
    from actdeny_train.types import Frames


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real clips, annotation files and full goldens, kept outside the repository; skips where it is missing."""
    folder = Path(os.environ.get("ACTDENY_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "goldens").is_dir():
        pytest.skip(f"no shared test material at {folder} (set ACTDENY_SHARED to its folder)")
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint of a random Qwen2.5-VL with 0.3 million parameters (made once; never write into it)."""
    from actdeny_train.models import tiny

    folder = tmp_path_factory.mktemp("tiny") / "qwen2_5_vl"
    size = tiny.TinySize(hidden_size=64, intermediate_size=96, num_layers=2, num_vision_layers=2, vocab_size=400)
    tiny.build(folder, seed=0, size=size)
    return folder


@pytest.fixture
def tiny_family(tiny_folder: Path) -> "Callable[..., Qwen25VL]":
    """Make a fresh model from ``tiny_folder``: ``tiny_family(tokens_per_frame=(4, 4))``; each call loads anew."""
    from actdeny_train.models import qwen2_5_vl

    def load(**changed: Any) -> "Qwen25VL":
        return qwen2_5_vl.load(str(tiny_folder), **{"tokens_per_frame": (4, 4), **changed})

    return load


@pytest.fixture(scope="session")
def make_frames() -> "Callable[..., Frames]":
    """Make frames of noise: ``make_frames(count, height, width, fps, seed)``."""
    import numpy as np

    from actdeny_train.types import Frames

    def make(count: int, height: int = 56, width: int = 56, fps: float = 4.0, seed: int = 0) -> Frames:
        return Frames(
            pixels=np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8),
            time_s=np.arange(count) / fps,
            indices=np.arange(count),
            num_decoded=2 * count,
            sampling="noise",
        )

    return make
