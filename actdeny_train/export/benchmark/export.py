"""Export the benchmark to the formats of other people's harnesses."""

import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, get_args

from actdeny_train.errors import ConfigError, DataError, near_misses
from actdeny_train.export.benchmark.cells import group, slug
from actdeny_train.export.benchmark.checksums import checksums, write_checksums
from actdeny_train.export.benchmark.hf_dataset import write_hf_dataset
from actdeny_train.export.benchmark.lmms_eval import write_lmms_eval
from actdeny_train.export.benchmark.vlmevalkit import write_vlmevalkit
from actdeny_train.types import Clip, Question

Format = Literal["lmms_eval", "vlmevalkit", "hf"]
FORMATS: tuple[Format, ...] = get_args(Format)


def export_benchmark(
    clips: Sequence[Clip],
    questions: Sequence[Question],
    out: Path,
    *,
    formats: Collection[str] = FORMATS,
    video_root: Path | None = None,
    name: str = "ActDeny",
) -> list[Path]:
    """Write the questions to ``out/<format>`` for each format, and return these folders.

    No video is copied: paths stay relative to the video root. Where ``video_root`` is given, the SHA-256 of every video that is asked
    about is written too. ``name`` begins the names of tasks. The same arguments and package versions give the same bytes.
    Raises ConfigError for an unknown format or name, DataError for a folder that exists and for what a format cannot hold; then
    nothing of that format is left behind.
    """
    for wanted in formats:
        if wanted not in FORMATS:
            raise ConfigError(
                f"There is no export format {wanted!r}. Formats: {', '.join(FORMATS)}.{near_misses(wanted, FORMATS)}"
            )
    if not name or slug(name) != name:
        raise ConfigError(
            f"The name of the exported benchmark is {name!r}, but must be letters, digits and single underscores."
        )
    chosen = [one for one in FORMATS if one in formats]
    for one in chosen:
        if (out / one).exists():
            raise DataError(f"{out / one} already exists and is never overwritten. Give another folder, or remove it.")
    cells = group(clips, questions)
    asked = [clip for cell in cells for _, clip in cell.rows]
    sums = checksums(asked, video_root) if video_root is not None else {}
    folders = []
    for one in chosen:
        work = out / f"{one}.partial"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            if one == "lmms_eval":
                write_lmms_eval(work, cells, name)
            elif one == "vlmevalkit":
                write_vlmevalkit(work, cells, name)
            else:
                write_hf_dataset(work, cells, name, sums)
            if sums:
                write_checksums(work, sums)
        except BaseException:
            shutil.rmtree(work)
            raise
        folders.append(work.replace(out / one))
    return folders
