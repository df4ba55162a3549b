"""From official files to a verified manifest: every clip decoded once, counts beside the published ones, leaks between splits named."""

import dataclasses
import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.manifest import read_manifest, write_manifest
from actdeny_train.datasets.near_duplicates import MAX_BITS, NearDuplicates
from actdeny_train.datasets.quarantine import Known, Quarantined, fault, refine, use_prefix
from actdeny_train.datasets.verified import Verified, file_key
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import Clip
from actdeny_train.video.verification import VideoFacts, verify_all

OUTCOMES = ("usable", "missing", "broken")
"""What becomes of a listed clip: it decodes; its file is not there; its file, or its span, cannot be used."""

CHUNK = 2_000
"""Clips whose videos are looked up at a time."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """The files that ``prepare`` writes, named after the manifest: ``ucf101.jsonl``, ``ucf101.videos.jsonl``, ..."""

    manifest: Path

    def beside(self, what: str) -> Path:
        """Return the path of ``what``: videos (measured), quarantine, duplicates, or summary."""
        suffix = "json" if what == "summary" else "jsonl"
        return self.manifest.with_name(f"{self.manifest.stem}.{what}.{suffix}")


def prepare(
    data: ClipDataModule,
    out: Path,
    *,
    max_bits: float = MAX_BITS,
    watch: Callable[[int], Callable[[int], None]] = lambda total: lambda done: None,
) -> dict[str, Any]:
    """Verify all clips of a dataset, write the files of ``Outputs``, and return the content of the summary.

    ``out`` is the manifest, which ``datasets.manifest.Manifest`` reads; ``data.screening`` says how videos are verified and where
    ``verified.jsonl`` lies, which trainings and evaluations read too. A video known from there is not decoded again, so a killed call
    goes on where it stopped; videos that failed are tried again. ``max_bits``: see ``NearDuplicates``. ``watch(total)`` gives a function
    that is told of every finished clip. Raises DataError for repeated ids, a source in two splits, or if no clip can be used.
    """
    duplicates = NearDuplicates(max_bits)
    outputs = Outputs(manifest=out)
    if out.suffix != ".jsonl":
        raise ConfigError(
            f"The manifest is to be written to {str(out)!r}, but its name must end with .jsonl. Name another file."
        )
    data.prepare_data()
    listed = out.with_name(f"{out.stem}.listed.jsonl")
    counts: dict[str, Counter[str]] = {}
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_manifest(listed, _checked(data.read_clips(), counts))
    except OSError as error:
        raise ConfigError(f"{str(out)!r} cannot be written: {error.strerror}. Name another file with --out.") from None
    advance = watch(sum(found["listed"] for found in counts.values()))
    first_fault = ""
    with _Parts(outputs) as parts:
        for clip, outcome in _outcomes(data, read_manifest(listed)):
            path = data.video_path(clip)
            reason = fault(clip, path, refine(clip, path, outcome))
            if reason is None and not isinstance(outcome, str):
                parts.keep(clip, outcome)
                if isinstance(outcome, VideoFacts):
                    duplicates.add(clip.id, clip.split, outcome.sha256, outcome.frame_hashes)
                counts[clip.split]["usable"] += 1
            else:
                assert reason is not None
                first_fault = first_fault or f"{clip.path!r}: {reason}"
                parts.set_aside(Quarantined(id=clip.id, path=clip.path, reason=reason))
                counts[clip.split]["broken" if path.is_file() else "missing"] += 1
            advance(1)
        pairs = Counter(parts.tell(pair) for pair in duplicates.pairs())
    listed.unlink()
    summary = _summarise(data, counts, pairs, duplicates)
    outputs.beside("summary").write_text(json.dumps(summary, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if not any(found["usable"] for found in counts.values()):
        total = sum(found["listed"] for found in counts.values())
        raise DataError(
            f"None of the {total:,} clips of {type(data).__name__} can be used; the first, under {str(data.root)!r}, {first_fault}. Check "
            f"that ROOT is the folder that holds the videos. All reasons stand in {outputs.beside('quarantine')}."
        )
    return summary


def _checked(clips: Iterable[Clip], counts: dict[str, Counter[str]]) -> Iterator[Clip]:
    """Yield the clips, counting them by split. Raises DataError at a repeated id or a source in two splits."""
    ids: set[bytes] = set()
    split_of: dict[bytes, str] = {}
    for clip in clips:
        key = _digest(clip.id)
        if key in ids:
            raise DataError(
                f"Two clips have the id {clip.id!r}. Ids must be unique: remove one of them from the dataset's list."
            )
        ids.add(key)
        split = split_of.setdefault(_digest(clip.source), clip.split)
        if split != clip.split:
            raise DataError(
                f"Source {clip.source!r} has clips in splits {split!r} and {clip.split!r}, the latter {clip.id!r}. All clips of a source "
                "belong to one split, or a test would ask about videos that were trained on. Mend the dataset's split files."
            )
        counts.setdefault(clip.split, Counter(dict.fromkeys(("listed", *OUTCOMES), 0)))["listed"] += 1
        yield clip


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:12]


def _outcomes(data: ClipDataModule, clips: Iterable[Clip]) -> Iterator[tuple[Clip, Known]]:
    """Yield every clip in order with what is known of its video, decoding what is not known yet."""
    screening = data.screening
    known = Verified(Path(screening.cache) if screening.cache else data.root)
    rest = iter(clips)
    try:
        while chunk := [(clip, data.video_path(clip)) for clip in itertools.islice(rest, CHUNK)]:
            # Taken before a video is decoded: one that is replaced meanwhile is verified again at the next start.
            keys = {path: file_key(path) for _, path in chunk}
            found: dict[Path, Known] = {
                path: facts for path, key in keys.items() if (facts := known.get(key)) is not None
            }
            unknown = [path for path in keys if path not in found]
            decoded = verify_all(unknown, num_workers=screening.num_workers, timeout_s=screening.timeout_s)
            for clip, path in chunk:
                while path not in found:
                    done, outcome = next(decoded)
                    if isinstance(outcome, VideoFacts):
                        known.write(keys[done], outcome)
                        found[done] = outcome
                    else:
                        found[done] = use_prefix(done, outcome, screening.on_damage)
                yield clip, found[path]
    finally:
        known.close()


class _Parts:
    """The files as they grow, beside their names; they take these when all is done, so a manifest is always a whole one."""

    def __init__(self, outputs: Outputs) -> None:
        self._paths = (outputs.manifest, *(outputs.beside(what) for what in ("videos", "quarantine", "duplicates")))
        self._files: list[TextIO] = []

    def __enter__(self) -> "_Parts":
        self._files = [
            _part(path).open("w", encoding="utf-8", errors="backslashreplace", newline="\n") for path in self._paths
        ]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for file in self._files:
            file.close()
        for path in self._paths:
            if kind is None:
                _part(path).replace(path)
            else:
                _part(path).unlink(missing_ok=True)

    def keep(self, clip: Clip, known: Any) -> None:
        row = {key: value for key, value in dataclasses.asdict(clip).items() if value is not None}
        self._write(0, row)
        facts = dataclasses.asdict(known)
        facts.pop("time_s", None)  # of a damaged video: one number a frame
        self._write(1, {"id": clip.id, "path": clip.path, **facts})

    def set_aside(self, entry: Quarantined) -> None:
        self._write(2, dataclasses.asdict(entry))

    def tell(self, pair: Any) -> str:
        self._write(3, dataclasses.asdict(pair))
        return str(pair.how)

    def _write(self, place: int, row: dict[str, Any]) -> None:
        self._files[place].write(json.dumps(row, ensure_ascii=False) + "\n")


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _summarise(
    data: ClipDataModule, counts: dict[str, Counter[str]], pairs: Counter[str], duplicates: NearDuplicates
) -> dict[str, Any]:
    published = data.published()
    splits = list(dict.fromkeys((*published, *counts)))
    return {
        "dataset": type(data).__name__,
        "root": str(data.root),
        "splits": {
            split: {
                "published": list(published[split].counts) if split in published else [],
                **{name: counts.get(split, Counter())[name] for name in ("listed", *OUTCOMES)},
                "note": published[split].note if split in published else "",
            }
            for split in splits
        },
        "duplicates": {
            "same_file": pairs["same file"],
            "looks_alike": pairs["looks alike"],
            "max_bits": duplicates.max_bits,
            "too_plain": duplicates.num_plain,
            "groups_left_out": duplicates.num_groups_left_out,
        },
    }
