"""Screening: every video of a split is decoded once before step 0; clips that cannot be used are set aside by name and reason."""

import dataclasses
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import av

from actdeny_train.types import Clip
from actdeny_train.video.decode import OnDamage, scan_video
from actdeny_train.video.verification import VideoFacts, verify_all

VERIFIED = "verified.jsonl"
QUARANTINE = "quarantine.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A clip that cannot be used: its id, its path below the root, and why."""

    id: str
    path: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Screening:
    """How the videos of a split are verified. A clip that does not decode is never replaced by another one."""

    on_damage: OnDamage = "error"
    """A video that breaks off: "error" quarantines its clips, "prefix" keeps the frames before the damage and says so."""
    num_workers: int = 2
    """Videos decoded at a time, each in a process of its own."""
    timeout_s: float = 60.0
    """Seconds that one video may take; then it is quarantined."""
    cache: str | None = None
    """Folder of ``verified.jsonl``, which remembers intact videos by path, size and time of change; None means the root."""

    def screen(self, clips: Sequence[tuple[Clip, Path]], root: Path) -> tuple[list[Clip], list[Quarantined]]:
        """Return the usable clips, in the order given, and the quarantined ones; ``clips`` come with their video's path.

        Videos already in ``verified.jsonl`` are not decoded again; broken ones are, in case they were mended meanwhile.
        """
        outcomes = self._verify(dict.fromkeys(path for _, path in clips), Path(self.cache) if self.cache else root)
        usable, quarantined = [], []
        for clip, path in clips:
            outcome = outcomes[path]
            reason = outcome if isinstance(outcome, str) else _span_fault(clip, path, outcome)
            if reason is None:
                usable.append(clip)
            else:
                quarantined.append(Quarantined(id=clip.id, path=clip.path, reason=reason))
        return usable, quarantined

    def _verify(self, paths: Iterable[Path], cache: Path) -> dict[Path, float | str]:
        """Return for each video the time of its last frame in seconds, or the reason to quarantine it."""
        known = _read_verified(cache / VERIFIED)
        outcomes: dict[Path, float | str] = {}
        unknown = []
        for path in paths:
            facts = known.get(_key(path))
            if facts is None:
                unknown.append(path)
            else:
                outcomes[path] = _last_frame_s(facts)
        if not unknown:
            return outcomes
        print(f"verifying {len(unknown)} videos ({len(outcomes)} are known from {cache / VERIFIED})", flush=True)
        with _open_verified(cache) as file:
            for path, outcome in verify_all(unknown, num_workers=self.num_workers, timeout_s=self.timeout_s):
                if isinstance(outcome, VideoFacts):
                    outcomes[path] = _last_frame_s(outcome)
                    file.write(json.dumps({"key": _key(path), **dataclasses.asdict(outcome)}) + "\n")
                    file.flush()
                # Only this reason offers "prefix"; a video that hung must not be decoded in this process.
                elif self.on_damage == "prefix" and "on_damage: prefix" in outcome:
                    timeline = scan_video(path, on_damage="prefix")
                    outcomes[path] = float(timeline.time_s[-1])
                    print(f"{path}: {'; '.join(timeline.notes)}", flush=True)
                else:
                    outcomes[path] = outcome
        return outcomes


def write_quarantine(folder: Path, quarantined: Iterable[Quarantined]) -> Path:
    """Write one JSON line a clip (id, path, reason) to ``folder/quarantine.jsonl``, an empty file where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / QUARANTINE
    lines = (json.dumps(dataclasses.asdict(entry), ensure_ascii=False) + "\n" for entry in quarantined)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def _key(path: Path) -> str:
    """Return what identifies a file's content and its decoder, without reading the file; empty where there is no file."""
    if not path.is_file():
        return ""
    stat = path.stat()
    return f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns} PyAV {av.__version__}"


def _span_fault(clip: Clip, path: Path, last_frame_s: float) -> str | None:
    # The time of the last frame is computed from the duration, so it may be off by rounding.
    if clip.start_s is None or clip.start_s <= last_frame_s + 1e-6:
        return None
    return f"start_s is {clip.start_s:g} s, but the last frame of '{path}' is at {last_frame_s:.3f} s"


def _last_frame_s(facts: VideoFacts) -> float:
    return facts.duration_s * (facts.num_frames - 1) / facts.num_frames


def _read_verified(path: Path) -> dict[str, VideoFacts]:
    if not path.is_file():
        return {}
    known = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            row = json.loads(line)
            key = row.pop("key")
            known[key] = VideoFacts(**{**row, "notes": tuple(row["notes"])})
        # A killed run may leave half a line, another version other fields: such videos are verified again.
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return known


def _open_verified(folder: Path) -> TextIO:
    """Open ``verified.jsonl`` for appending, or nowhere where the folder is read-only: it only saves time."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return (folder / VERIFIED).open("a", encoding="utf-8")
    except OSError as error:
        print(
            f"{folder / VERIFIED} cannot be written ({error.strerror}), so these videos will be verified again at the next start. "
            "Set `cache` of the dataset's screening to a writable folder to avoid that.",
            flush=True,
        )
        return Path(os.devnull).open("a", encoding="utf-8")
