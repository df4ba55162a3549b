"""``run.json``: what the numbers of a run depend on besides its config, for every process that worked on it."""

import hashlib
import importlib.metadata
import json
import platform
import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from actdeny_train.errors import ConfigError
from actdeny_train.models.family import Family
from actdeny_train.types import Clip

RECORD = "run.json"
PACKAGES = ("torch", "transformers", "lightning", "av", "numpy", "peft")
OPTIONAL = ("bitsandbytes",)


def describe(family: Family, clips: Sequence[Clip], num_quarantined: int) -> dict[str, Any]:
    """Return versions, commit, the family's class, fingerprints, and the clips that are trained on.

    The clips are in their order, since steps are drawn from it.
    """
    digest = hashlib.sha256("\n".join(clip.id for clip in clips).encode()).hexdigest()[:16]
    return {
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in (*PACKAGES, *filter(find_spec, OPTIONAL))},
        "commit": _commit(),
        "family": f"{type(family).__module__}.{type(family).__qualname__}",
        "fingerprints": {"start_weights": family.fingerprint(), "processor": family.processor.fingerprint},
        "clips": {"used": len(clips), "quarantined": num_quarantined, "fingerprint": digest},
    }


def write_record(path: Path, record: dict[str, Any], resume: bool) -> None:
    """Write the record; where a run is resumed, keep that of its start and add versions and commit of now under ``resumed``.

    Raises ConfigError if the start was made with another model or other clips: steps are a function of both.
    """
    if resume and path.is_file():
        start = json.loads(path.read_text(encoding="utf-8"))
        for name, what in (("fingerprints", "another model or processor"), ("clips", "other clips")):
            if start[name] != record[name]:
                raise ConfigError(
                    f"The run in {path.parent} was started with {what} ({_flat(start[name])}; now {_flat(record[name])}), so resuming "
                    f"would mix two runs. Restore what it began with (see {path}), or start a new run under another name."
                )
        now = {key: record[key] for key in ("python", "packages", "commit")}
        record = {**start, "resumed": [*start.get("resumed", []), now]}
    work = path.with_suffix(".partial")
    work.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    work.replace(path)


def _flat(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _commit() -> str | None:
    """Return the checkout's commit, None outside one."""
    git = shutil.which("git")
    if git is None:
        return None
    here = Path(__file__).resolve().parent
    found = subprocess.run([git, "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    return found.stdout.strip() or None
