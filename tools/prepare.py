"""See ``python tools/prepare.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from actdeny_train.cli import prepare

if __name__ == "__main__":
    sys.exit(prepare())
