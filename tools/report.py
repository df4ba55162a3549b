"""See ``python tools/report.py --help``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from actdeny_train.cli import report

if __name__ == "__main__":
    sys.exit(report())
