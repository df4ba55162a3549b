"""A dataset folder for the Hugging Face Hub: annotations as parquet, one config a setup. Videos stay where they are."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.export.benchmark.cells import Cell, slug
from actdeny_train.export.benchmark.standalone import standalone
from actdeny_train.types import Clip, Question

CLIP_COLUMNS = ("video", "action", "source", "split", "start_s", "end_s", "video_sha256")
QUESTION_COLUMNS = tuple(field.name for field in dataclasses.fields(Question))


def write_hf_dataset(folder: Path, cells: Sequence[Cell], name: str, sums: Mapping[str, str]) -> None:
    """Write ``<setup>/<split>.parquet``, ``README.md`` (the dataset card) and ``videos.py``, which finds and verifies videos.

    A row has the fields of a question under their names, then those of its clip. Indices are 0-based; what does not apply is null.
    ``sums`` are the videos' SHA-256 by path; null where it is empty. Raises ConfigError without pyarrow.
    """
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError(
            "Exporting a Hub dataset needs pyarrow, which is not installed. Install it with `pip install 'actdeny[hub-dataset]'`, or "
            "export to other formats."
        ) from None
    text, integer = pyarrow.string(), pyarrow.int64()
    types: dict[str, Any] = {
        **dict.fromkeys((*QUESTION_COLUMNS, *CLIP_COLUMNS), text),
        **dict.fromkeys(("clip_ids", "choices", "answers"), pyarrow.list_(text)),
        **dict.fromkeys(("target", "primary_distractor", "none_choice"), integer),
        **dict.fromkeys(("permutation", "clip_places"), pyarrow.list_(integer)),
        **dict.fromkeys(("start_s", "end_s"), pyarrow.float64()),
    }
    configs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for cell in cells:
        for question, clip in cell.rows:
            splits = configs.setdefault(_plain(cell.setup, "setup"), {})
            splits.setdefault(_plain(clip.split, "split"), []).append(_row(question, clip, sums))
    for config, splits in configs.items():
        (folder / config).mkdir()
        for split, rows in splits.items():
            table = pyarrow.Table.from_pylist(rows, schema=pyarrow.schema(list(types.items())))
            pyarrow.parquet.write_table(table, folder / config / f"{split}.parquet", compression="zstd")
    card = _card(
        name, {config: {split: len(rows) for split, rows in splits.items()} for config, splits in configs.items()}
    )
    (folder / "README.md").write_text(card, encoding="utf-8", newline="\n")
    source = standalone("actdeny_train.export.benchmark.shipped.hf_videos")
    (folder / "videos.py").write_text(source, encoding="utf-8", newline="\n")


def _row(question: Question, clip: Clip, sums: Mapping[str, str]) -> dict[str, Any]:
    values = {name: getattr(question, name) for name in QUESTION_COLUMNS}
    about = {"video": clip.path, "video_sha256": sums.get(clip.path)}
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in values.items()},
        **about,
        **{name: getattr(clip, name) for name in CLIP_COLUMNS if name not in about},
    }


def _plain(text: str, what: str) -> str:
    """Return a name of a config or split, which the Hub wants to be letters, digits and underscores."""
    if slug(text) != text:
        raise DataError(
            f"The {what} {text!r} cannot name a part of a Hub dataset, which has letters, digits and single underscores alone. Rename it, "
            f"e.g. to {slug(text) or 'test'!r}."
        )
    return text


def _card(name: str, sizes: Mapping[str, Mapping[str, int]]) -> str:
    configs: list[dict[str, Any]] = [
        {"config_name": c, "data_files": [{"split": s, "path": f"{c}/{s}.parquet"} for s in splits]}
        for c, splits in sizes.items()
    ]
    configs[0]["default"] = True
    front = {
        "pretty_name": name,
        "task_categories": ["visual-question-answering", "video-classification"],
        "tags": ["action-denial", "video"],
        "configs": configs,
    }
    table = "".join(f"| `{c}` | {s} | {n:,} |\n" for c, splits in sizes.items() for s, n in splits.items())
    first = next(iter(sizes))
    return f"---\n{yaml.safe_dump(front, sort_keys=False)}---\n\n# {name}\n\n" + _CARD.format(
        table=table, first=first, split=next(iter(sizes[first]))
    )


_CARD = """\
Questions that measure whether a video language model can deny an action: tell that it does not happen although persons, objects and place
suggest it. Annotations alone; the videos are not part of this dataset and keep their own licence.

| config (setup) | split | questions |
| --- | --- | ---: |
{table}
```python
from datasets import load_dataset

from videos import video_path          # this repository's videos.py

rows = load_dataset("PATH_OR_REPOSITORY", "{first}", split="{split}")
rows = rows.map(lambda row: {{"path": video_path(row, root="/path/to/videos")}})   # or set ACTDENY_VIDEO_ROOT
```

`python videos.py /path/to/videos` compares the videos with `videos.sha256`, where that file is. Pin a revision when you report numbers.

| column | meaning |
| --- | --- |
| `text` | all that the user turn says after the video |
| `choices`, `answers` | what the choices mean, and what a model types for each, in the same order |
| `target`, `none_choice`, `primary_distractor` | 0-based places in both; null where there is none. On denial clips none is right |
| `kind` | of the clip: `presence`, `context_only` (type 1), `different_motion` (type 2), or `denial` where there is no type to tell |
| `prompt` | under which the setup is asked; a config may hold several |
| `source` | the long video that the clip was cut from: resample sources, not clips, for intervals |
| `video`, `start_s`, `end_s` | path under the video root, and which part of it in seconds; null: from the beginning, to the end |
| `permutation` | for each choice, its place before shuffling |
| `clip_places` | empty: the clip stands before the text |
"""
