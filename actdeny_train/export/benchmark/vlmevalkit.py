"""Tables and a dataset class for VLMEvalKit."""

import csv
import json
import math
import string
from collections.abc import Sequence
from pathlib import Path

from actdeny_train.errors import DataError
from actdeny_train.export.benchmark.cells import Cell, before_choices, is_labelled, record, require_whole_videos
from actdeny_train.export.benchmark.standalone import standalone
from actdeny_train.questions.prompts import answer_labels

MISSING = {
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL"),
    *("NaN", "None", "n/a", "nan", "null"),
}  # fmt: skip
"""Cells that pandas.read_csv takes for missing, quoted or not."""


def write_vlmevalkit(folder: Path, cells: Sequence[Cell], name: str) -> None:
    """Write ``<name>_<setup>_<prompt>.tsv`` for each cell, and ``actdeny_vlmevalkit.py`` with their class.

    Choices stand in columns A, B, ... and are lettered in the prompt, whatever they were. VLMEvalKit reads tables with pandas'
    defaults: raises DataError for a cell that would not come back as it is. Cells beyond a question's choices are empty.
    """
    require_whole_videos(cells, "VLMEvalKit")
    for cell in cells:
        _write_table(folder / f"{name}_{cell.name}.tsv", cell)
    source = standalone("actdeny_train.export.benchmark.shipped.vlmevalkit_dataset")
    (folder / "actdeny_vlmevalkit.py").write_text(source, encoding="utf-8", newline="\n")
    first = f"{name}_{cells[0].name}"
    listed = "".join(f"- `{name}_{cell.name}`\n" for cell in cells)
    (folder / "README.md").write_text(_README.format(first=first, listed=listed), encoding="utf-8", newline="\n")


def _write_table(path: Path, cell: Cell) -> None:
    num = max((len(q.choices) for q, _ in cell.rows if is_labelled(q)), default=0)
    letters = string.ascii_uppercase[:num]
    columns = ("index", "video", "question", *letters, "answer", "category", "record")
    table = []
    for index, (question, clip) in enumerate(cell.rows):
        values = record(question, clip)
        if is_labelled(question):
            values["answers"] = list(answer_labels(len(question.choices), "letters"))
            asked, choices = before_choices(question), question.choices
        else:
            asked, choices = question.text, ()
        for text in (clip.path, asked, *choices):
            if text.strip() in MISSING:
                raise DataError(
                    f"Question {question.id!r} has a cell {text!r}, which pandas, and so VLMEvalKit, takes for missing. Write it in more "
                    'words, e.g. "None of the choices accurately describes this video.", or export to another format.'
                )
        answer = values["answers"][question.target]
        empty = [""] * (num - len(choices))
        table.append([str(index), clip.path, asked, *choices, *empty, answer, question.kind, json.dumps(values)])
    for column, cells in zip(columns[1:], list(zip(*table, strict=True))[1:], strict=True):
        texts = [text for text in cells if text]
        if texts and (all(map(_is_number, texts)) or all(text.lower() in ("true", "false") for text in texts)):
            raise DataError(
                f"Every cell of column {column!r} of {cell.setup!r} under {cell.prompt!r} looks like a number or a truth value, e.g. "
                f"{texts[0]!r}, and pandas, and so VLMEvalKit, would turn it into one. Name videos and choices in words."
            )
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_ALL, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(table)


def _is_number(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


_README = """\
# Action denial in VLMEvalKit

```sh
export ACTDENY_VIDEO_ROOT=/path/to/videos     # sha256sum --check videos.sha256 in that folder tells whether they are the same
export PRED_FORMAT=json                       # the default, xlsx, cuts long responses and cannot hold every character
python actdeny_vlmevalkit.py --data {first}_12frame --model MODEL
```

`actdeny_vlmevalkit.py` registers its datasets and starts VLMEvalKit; all options are VLMEvalKit's. With the repository instead of a
package, put its folder on PYTHONPATH. `..._12frame` shows the frames at the middle of 12 equal strides, as the benchmark's released
evaluation does (also 4, 6, 8, 16, 32, 64); without it, a model gets the video and its own rule holds. The datasets:

{listed}
Choices are lettered. `category` is the kind of the clip (`denial` where its action is not offered); `record` holds everything about a
question as JSON, which no reader changes.
Scores come from the file's own parser, not from a judge, and nothing is guessed: `overall_ad`, `ap`, `hm` and others, rates in [0, 1],
null where undefined. To score saved predictions again, without VLMEvalKit:
`python -c "import actdeny_vlmevalkit as a; print(a.score_file('PREDICTIONS.json'))"`.
"""
