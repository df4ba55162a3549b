"""Run folders read back, and what is said where one cannot be."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from actdeny_train.errors import DataError
from actdeny_train.report.runs import cell_names, load_runs


def test_everything_that_a_folder_holds(two_runs: tuple[Path, Path]) -> None:
    before, after = load_runs(two_runs)
    assert (before.label, after.label) == ("before", "after")
    assert len(before.predictions) == len(before.questions) == 18 * (2 * 4 + 3) + 2 * 12
    assert len(before.clips) == 18
    assert before.checkpoint == "Qwen/Qwen2.5-VL-3B-Instruct"
    assert before.about["view"] == "video"
    assert [entry["id"] for entry in before.quarantined] == ["broken"]
    assert before.missing == ()


def test_setups_come_in_the_order_of_the_paper_and_plain_first(two_runs: tuple[Path, Path]) -> None:
    runs = load_runs(two_runs)
    setups = ("standard", "explicit_denial", "primary_distractor_removed", "yes_no_primary", "yes_no_random")
    assert cell_names(runs, denial=True) == [(s, p) for s in setups for p in ("plain", "causalact")]
    assert cell_names(runs, denial=False) == [("graph_vqa", "plain")]


def test_files_that_may_be_missing(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    for name in ("questions.jsonl", "clips.jsonl", "run.json", "config.yaml", "quarantine.jsonl"):
        (folder / name).unlink()
    (run,) = load_runs([folder])
    assert run.missing == ("questions.jsonl", "clips.jsonl", "run.json", "config.yaml", "quarantine.jsonl")
    assert (run.questions, run.clips, run.about, run.checkpoint, run.quarantined) == ({}, {}, {}, "", ())


def test_runs_of_one_name_are_told_apart_by_their_folders(make_run: Callable[..., Path]) -> None:
    folders = [make_run("small/plain"), make_run("large/plain")]
    assert [run.label for run in load_runs(folders)] == ["small/plain", "large/plain"]


# Errors


def text_of(folders: list[Path]) -> str:
    with pytest.raises(DataError) as error:
        load_runs(folders)
    return str(error.value)


def test_no_such_folder(tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    assert text_of([missing]) == (
        f"There is no run folder at {str(missing)!r} (resolved: {missing}). Name a folder that tools/evaluate.py wrote: runs/<name>."
    )


@pytest.mark.parametrize("name", ["predictions.jsonl", "metrics.json"])
def test_an_evaluation_that_is_not_finished(make_run: Callable[..., Path], name: str) -> None:
    folder = make_run()
    (folder / name).unlink()
    assert text_of([folder]) == (
        f"{folder} has no {name}, so it is no finished evaluation. Run tools/evaluate.py with its config again: it goes on where it "
        "stopped."
    )


def test_the_same_folder_twice(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    again = folder / ".." / folder.name
    assert text_of([folder, again]) == f"Run folder {str(again)!r} was given twice. Name each run once."


def test_metrics_of_other_predictions(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    lines = (folder / "predictions.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["setup"] != "yes_no_random"]
    (folder / "predictions.jsonl").write_text("".join(kept))
    assert text_of([folder]) == (
        f"{folder / 'metrics.json'} and predictions.jsonl beside it are about different setups / prompts: only in the metrics "
        "yes_no_random / causalact, yes_no_random / plain; only in the predictions none. Evaluate again to have the metrics written anew."
    )


def test_metrics_that_are_no_metrics(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    file = folder / "metrics.json"
    file.write_text('{"setups": [1]}')
    assert text_of([folder]) == (
        f"{file} has no object of setups, each with its prompts, under 'setups'. Evaluate again to have it written anew."
    )
    file.write_text("[1]")
    assert text_of([folder]) == (
        f"{file} holds a JSON list, but must be an object. Restore the file, or evaluate again."
    )
    file.write_text('{"setups": ')
    assert text_of([folder]).startswith(f"{file} is not valid JSON (Expecting value")


def test_a_broken_line_is_named(make_run: Callable[..., Path]) -> None:
    folder = make_run()
    with (folder / "quarantine.jsonl").open("a") as file:
        file.write("\n{]\n")
    assert text_of([folder]).startswith(f"{folder / 'quarantine.jsonl'}:3 is not valid JSON (")
    (folder / "quarantine.jsonl").unlink()
    (folder / "config.yaml").write_text("a: [")
    assert text_of([folder]).startswith(f"{folder / 'config.yaml'} is not valid YAML: ")
