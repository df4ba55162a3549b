"""What an evaluation costs: time by stage, tokens, memory. One JSON line a forest, so that a killed run has its cost on record too."""

import json
import os
import resource
import socket
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from actdeny_train.errors import DataError
from actdeny_train.evaluation.processes import Processes

COST = "cost.jsonl"
SUMS = ("num_clips", "num_questions", "num_tokens", "num_tokens_alone", "decode_s", "prepare_s", "encode_s", "llm_s")


class CostRecord:
    """Appends lines to ``cost.jsonl``; several processes may. ``session`` names one call of an evaluation in one process."""

    def __init__(self, folder: Path, processes: Processes, device: torch.device) -> None:
        self.path = folder / COST
        self.device = device
        self.started = time.perf_counter()
        self.known = {
            "session": f"{socket.gethostname()}-{os.getpid()}-{int(time.time())}",
            "rank": processes.rank,
            "world_size": processes.world_size,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        }

    def add(self, **values: float) -> None:
        """Append a line: the counts and seconds of ``SUMS``, the seconds since the last line, the peak of memory."""
        now = time.perf_counter()
        wall_s, self.started = now - self.started, now
        line = {**self.known, **values, "wall_s": wall_s, "peak_gib": peak_gib(self.device)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def peak_gib(device: torch.device) -> float:
    """Return the most memory that this process has held so far: of the CUDA device, or of the machine."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # KiB on Linux


def summarise_cost(path: Path) -> dict[str, Any] | None:
    """Return the whole cost of an evaluation over all its sessions, None where nothing is on record.

    Sums of ``SUMS``; ``wall_s``, the longest process of each call (sessions that ran side by side under torchrun share their
    world size and first line's order), added over calls; ``process_s``, the sum over processes; ``peak_gib``, the largest; and what
    share of ``decode_s``, ``prepare_s``, ``encode_s`` and ``llm_s`` each is. Raises DataError on a line of another shape.
    """
    if not path.is_file():
        return None
    totals: dict[str, float] = dict.fromkeys(SUMS, 0)
    wall: dict[str, float] = defaultdict(float)
    rank: dict[str, tuple[int, int]] = {}
    peak = 0.0
    devices: dict[str, None] = {}
    # A killed process may leave half a line at the end.
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            for name in SUMS:
                totals[name] += line[name]
            wall[line["session"]] += line["wall_s"]
            rank[line["session"]] = line["rank"], line["world_size"]
            peak = max(peak, line["peak_gib"])
            devices[line["device"]] = None
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}:{number} is no line of cost ({error}). Remove the line; predictions do not need it."
            ) from None
    if not wall:
        return None
    calls: dict[tuple[int, int], list[float]] = defaultdict(list)  # the n-th session of each rank, of one world size
    for session, (r, world_size) in rank.items():
        calls[r, world_size].append(wall[session])
    sizes = {world_size for _, world_size in calls}
    wall_s = 0.0
    for size in sizes:
        of_ranks = [calls[r, size] for r in range(size) if (r, size) in calls]
        wall_s += sum(max(times[n] for times in of_ranks if n < len(times)) for n in range(max(map(len, of_ranks))))
    stages = {name: totals[name] for name in ("decode_s", "prepare_s", "encode_s", "llm_s")}
    whole = sum(stages.values())
    return {
        **totals,
        "wall_s": wall_s,
        "process_s": sum(wall.values()),
        "peak_gib": peak,
        "shares": {name.removesuffix("_s"): s / whole for name, s in stages.items()} if whole else None,
        "devices": list(devices),
        "num_processes": max(sizes),
    }
