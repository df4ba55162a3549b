"""Task functions for lmms-eval. Videos are looked for under the folder that the environment variable ACTDENY_VIDEO_ROOT names."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from actdeny_train.evaluation.parsing import parse_response
from actdeny_train.export.benchmark.shipped.scores import count, harmonic_mean, marks, mean

__all__ = [
    "count",
    "doc_to_target",
    "doc_to_text",
    "doc_to_visual",
    "harmonic_mean",
    "mean",
    "process_results",
]

VIDEO_ROOT = "ACTDENY_VIDEO_ROOT"


def doc_to_visual(doc: Mapping[str, Any]) -> list[str]:
    """Return the path of the clip's video. Raises FileNotFoundError where there is none."""
    root = os.environ.get(VIDEO_ROOT, "")
    video = json.loads(doc["record"])["video"]
    path = os.path.join(root, video)  # noqa: PTH118 (a harness wants the string)
    if not root or not os.path.isfile(path):  # noqa: PTH113
        raise FileNotFoundError(
            f"There is no video {path!r}. Set the environment variable {VIDEO_ROOT} (now {root!r}) to the folder that {video!r} "
            "is relative to."
        )
    return [path]


def doc_to_text(doc: Mapping[str, Any]) -> str:
    """Return the user turn after the video, to the letter."""
    return str(json.loads(doc["record"])["text"])


def doc_to_target(doc: Mapping[str, Any]) -> str:
    """Return the right answer, as a model types it."""
    record = json.loads(doc["record"])
    return str(record["answers"][record["target"]])


def process_results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what the response counts for in each metric; the item of ``overall`` also tells how it was read."""
    record = json.loads(doc["record"])
    parsed = parse_response(results[0], record["choices"], record["answers"], none_choice=record["none_choice"])
    status = str(parsed.status.value)
    items = marks(record, parsed.choice, status)
    items["overall"] |= {"id": record["id"], "status": status, "choice": parsed.choice, "target": record["target"]}
    return items
