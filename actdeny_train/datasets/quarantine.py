"""Screening: every video of a split is decoded once before step 0; clips that cannot be used are set aside by name and reason."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actdeny_train.datasets.verified import Verified, file_key
from actdeny_train.errors import DataError
from actdeny_train.types import Clip
from actdeny_train.video.decode import OnDamage, Timeline, find_span, scan_video
from actdeny_train.video.verification import VideoFacts, verify_all

QUARANTINE = "quarantine.jsonl"
Known = VideoFacts | Timeline | str
"""What is known of a video: its facts, the timeline of a damaged one whose beginning is used, or the reason to quarantine it."""
ROUNDING_S = 1e-6
"""Seconds by which computed times may be off."""


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
    """Folder of ``verified.jsonl``, which remembers intact videos by path, size and times of change; None means the root."""

    def screen(self, clips: Sequence[tuple[Clip, Path]], root: Path) -> tuple[list[Clip], list[Quarantined]]:
        """Return the usable clips, in the order given, and the quarantined ones; ``clips`` come with their video's path.

        Videos already in ``verified.jsonl`` are not decoded again; broken ones are, in case they were mended meanwhile. What is
        unusual about usable clips is printed: remarks on their videos, and spans that end after them.
        """
        outcomes = self._verify(dict.fromkeys(path for _, path in clips), Path(self.cache) if self.cache else root)
        remarks = [
            f"{path}: {'; '.join(o.notes)}" for path, o in outcomes.items() if isinstance(o, VideoFacts) and o.notes
        ]
        _tell("videos decode with remarks", len(outcomes), remarks)
        usable, quarantined, long = [], [], []
        for clip, path in clips:
            outcome = outcomes[path] = refine(clip, path, outcomes[path])
            reason = fault(clip, path, outcome)
            if reason is not None:
                quarantined.append(Quarantined(id=clip.id, path=clip.path, reason=reason))
                continue
            usable.append(clip)
            assert not isinstance(outcome, str)
            if clip.end_s is not None and clip.end_s > outcome.duration_s + ROUNDING_S:
                long.append(f"{clip.id}: until {clip.end_s:g} s of {outcome.duration_s:.3f} s")
        _tell("clips end with their video, before their end_s", len(clips), long)
        return usable, quarantined

    def _verify(self, paths: Iterable[Path], cache: Path) -> dict[Path, VideoFacts | Timeline | str]:
        """Return for each video what is known of it (a timeline where it is damaged), or the reason to quarantine it."""
        known = Verified(cache)
        outcomes: dict[Path, VideoFacts | Timeline | str] = {}
        unknown = []
        # Taken before a video is decoded: one that is replaced meanwhile is verified again at the next start.
        keys = {path: file_key(path) for path in paths}
        for path, key in keys.items():
            facts = known.get(key)
            if facts is None:
                unknown.append(path)
            else:
                outcomes[path] = facts
        if not unknown:
            known.close()
            return outcomes
        print(f"verifying {len(unknown)} videos ({len(outcomes)} are known from {known.path})", flush=True)
        for path, outcome in verify_all(unknown, num_workers=self.num_workers, timeout_s=self.timeout_s):
            outcomes[path] = outcome
            if isinstance(outcome, VideoFacts):
                known.write(keys[path], outcome)
            else:
                outcomes[path] = use_prefix(path, outcome, self.on_damage)
        known.close()
        return {path: outcomes[path] for path in keys}


def write_quarantine(folder: Path, quarantined: Iterable[Quarantined]) -> Path:
    """Write one JSON line a clip (id, path, reason) to ``folder/quarantine.jsonl``, an empty file where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / QUARANTINE
    lines = (json.dumps(dataclasses.asdict(entry), ensure_ascii=False) + "\n" for entry in quarantined)
    # A file name that is not UTF-8 becomes an escape that JSON knows.
    path.write_text("".join(lines), encoding="utf-8", errors="backslashreplace")
    return path


def use_prefix(path: Path, reason: str, on_damage: OnDamage) -> Known:
    """Return the timeline of what can be used of a damaged video where ``on_damage`` is "prefix", else ``reason``."""
    # Only this reason offers "prefix"; a video that hung must not be decoded in this process.
    if on_damage != "prefix" or not reason.endswith("on_damage: prefix."):
        return reason
    prefix = _scan(path, "prefix")
    if isinstance(prefix, Timeline):
        print(f"{path}: {'; '.join(prefix.notes)}", flush=True)
    return prefix


def refine(clip: Clip, path: Path, known: Known) -> Known:
    """Return the timeline of an intact video where its facts do not tell whether the clip's span holds a frame."""
    if isinstance(known, VideoFacts) and _may_lie_between_frames(clip, known):
        return _scan(path, "error")  # it was decoded to its end, so decoding it in this process is safe
    return known


def fault(clip: Clip, path: Path, known: Known) -> str | None:
    """Return why a clip cannot be used, None if it can; ``known`` as ``refine`` gives it."""
    return known if isinstance(known, str) else _span_fault(clip, path, known)


def _may_lie_between_frames(clip: Clip, facts: VideoFacts) -> bool:
    """Return False where the clip's span surely holds a frame, or begins after the last one."""
    start_s = clip.start_s or 0.0
    last_frame_s = _last_frame_s(facts)
    if start_s == 0 or start_s > last_frame_s + ROUNDING_S:
        return False
    end_s = float("inf") if clip.end_s is None else clip.end_s
    return start_s > last_frame_s - ROUNDING_S or end_s - start_s < facts.longest_interval_s + ROUNDING_S


def _span_fault(clip: Clip, path: Path, known: VideoFacts | Timeline) -> str | None:
    """Return why the clip has no frame, None if it has one."""
    last_frame_s = _last_frame_s(known) if isinstance(known, VideoFacts) else float(known.time_s[-1])
    if clip.start_s is not None and clip.start_s > last_frame_s + ROUNDING_S:
        return f"start_s is {clip.start_s:g} s, but the last frame of '{path}' is at {last_frame_s:.3f} s"
    if isinstance(known, Timeline):
        try:
            find_span(path, known, clip.start_s, clip.end_s)
        except DataError as error:
            return str(error)
    return None


def _last_frame_s(facts: VideoFacts) -> float:
    return facts.duration_s * (facts.num_frames - 1) / facts.num_frames


def _scan(path: Path, on_damage: OnDamage) -> Timeline | str:
    try:
        return scan_video(path, on_damage=on_damage)
    except DataError as error:
        return str(error)


def _tell(what: str, total: int, found: Sequence[str]) -> None:
    if found:
        more = f"; and {len(found) - 3} more" if len(found) > 3 else ""
        print(f"{len(found)} of {total} {what} ({'; '.join(found[:3])}{more})", flush=True)
