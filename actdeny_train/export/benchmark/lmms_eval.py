"""A task folder for lmms-eval: ``lmms-eval --include_path FOLDER --tasks NAME``."""

import json
from collections.abc import Sequence
from pathlib import Path

from actdeny_train.export.benchmark.cells import Cell, record, require_whole_videos
from actdeny_train.export.benchmark.shipped.scores import AGGREGATIONS, STATUSES
from actdeny_train.export.benchmark.standalone import standalone
from actdeny_train.types import ClipKind

TEMPLATE = "_default_template_yaml"
MAX_NEW_TOKENS = 1024
"""Room for a reasoned response; a plain one ends after a token or two."""

DENIALS = frozenset(kind for kind in ClipKind if kind.is_denial)
NEEDS: dict[str, frozenset[ClipKind]] = {
    "t1": frozenset({ClipKind.CONTEXT_ONLY}),
    "t2": frozenset({ClipKind.DIFFERENT_MOTION}),
    **dict.fromkeys(("overall_ad", "hallucinated_action", "primary_distractor", "hm"), DENIALS),
    **dict.fromkeys(("ap", "false_denial"), frozenset({ClipKind.PRESENCE})),
}
"""Kinds of clip of which a cell needs one for a metric; ``hm`` needs a presence clip too."""
LOWER_IS_BETTER = {"false_denial", "hallucinated_action", "primary_distractor", *STATUSES}


def write_lmms_eval(folder: Path, cells: Sequence[Cell], name: str) -> None:
    """Write the task folder: a group of the given name, a task ``<name>_<setup>_<prompt>`` for each cell.

    Questions are asked to the letter. Each row of ``questions/`` holds its question as JSON text: the reader that lmms-eval uses
    takes a column of dates, say, for times, and would change what it says.
    """
    require_whole_videos(cells, "lmms-eval")
    (folder / "questions").mkdir()
    for cell in cells:
        lines = [{"id": q.id, "record": _dumps(record(q, clip) | {"text": q.text})} for q, clip in cell.rows]
        (folder / "questions" / f"{cell.name}.jsonl").write_text(
            "".join(f"{_dumps(line)}\n" for line in lines), encoding="utf-8", newline="\n"
        )
        _write(folder / f"{name}_{cell.name}.yaml", _task(cell, name))
    tasks = "".join(f"  - {name}_{cell.name}\n" for cell in cells)
    _write(folder / f"{name}.yaml", f"group: {name}\ntask:\n{tasks}metadata:\n  version: 1.0\n")
    _write(folder / TEMPLATE, _TEMPLATE.format(max_new_tokens=MAX_NEW_TOKENS))
    _write(folder / "utils.py", standalone("actdeny_train.export.benchmark.shipped.lmms_eval_utils"))
    _write(folder / "README.md", _README.format(name=name, tasks=tasks, max_new_tokens=MAX_NEW_TOKENS))


def metrics_of(cell: Cell) -> list[str]:
    """Return the metrics that are defined for a cell whose responses can all be read."""
    kinds = cell.kinds
    names = [metric for metric in AGGREGATIONS if not (needs := NEEDS.get(metric)) or needs & kinds]
    if ClipKind.PRESENCE not in kinds:
        names.remove("hm")
    if all(q.none_choice is None for q, _ in cell.rows if not ClipKind(q.kind).is_denial):
        names = [metric for metric in names if metric != "false_denial"]
    if all(q.primary_distractor is None for q, _ in cell.rows):
        names = [metric for metric in names if metric != "primary_distractor"]
    return names


def _task(cell: Cell, name: str) -> str:
    metrics = "".join(
        f"  - metric: {metric}\n    aggregation: !function utils.{AGGREGATIONS[metric].__name__}\n"
        f"    higher_is_better: {str(metric not in LOWER_IS_BETTER).lower()}\n"
        for metric in metrics_of(cell)
    )
    return (
        f"include: {TEMPLATE}\ntask: {name}_{cell.name}\n"
        f"dataset_kwargs:\n  data_files:\n    test: questions/{cell.name}.jsonl\nmetric_list:\n{metrics}"
    )


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


# "until" must be there: without it, lmms-eval cuts a response at its first empty line.
_TEMPLATE = """\
dataset_path: json
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: !function utils.doc_to_text
doc_to_target: !function utils.doc_to_target
process_results: !function utils.process_results
generation_kwargs:
  max_new_tokens: {max_new_tokens}
  temperature: 0
  do_sample: false
  until: []
cluster_key: source
score_key: score
metadata:
  version: 1.0
"""

_README = """\
# Action denial in lmms-eval

```sh
export ACTDENY_VIDEO_ROOT=/path/to/videos     # sha256sum --check videos.sha256 in that folder tells whether they are the same
python -m lmms_eval --include_path THIS_FOLDER --tasks {name} --model MODEL --model_args ... --batch_size 1 --log_samples --output_path OUT
```

The group `{name}` has these tasks, each a setup under a prompt:

{tasks}
Rates are in [0, 1]: `t1`, `t2`, `overall_ad`, `ap`, `overall` are accuracies on context-only, different-motion, all denial, presence and
all clips, `hm` is the harmonic mean of `overall_ad` and `ap`. A response without a readable choice is wrong and stays in the denominator;
`unparsed`, `refusal`, `truncated` and `error` count them. Clips of one source are alike: read the clustered standard error (`cluster_key:
source`). `hm` has none here.

`utils.py` brings its own parser; nothing is guessed, no judge is asked. lmms-eval does not tell a task whether a response was cut off at
`max_new_tokens` ({max_new_tokens}), so a cut-off one counts as `unparsed`, unless its reasoning block stays open (`truncated`).
"""
