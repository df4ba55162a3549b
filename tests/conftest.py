"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real clips, annotation files and full goldens, kept outside the repository; skips where it is missing."""
    folder = Path(os.environ.get("ACTDENY_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "goldens").is_dir():
        pytest.skip(f"no shared test material at {folder} (set ACTDENY_SHARED to its folder)")
    return folder
