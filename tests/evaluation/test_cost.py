"""The cost record: sums over sessions and processes, worked out by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from actdeny_train.errors import DataError
from actdeny_train.evaluation.cost import SUMS, CostRecord, summarise_cost
from actdeny_train.evaluation.processes import Processes


def line(session: str, rank: int, world_size: int, wall_s: float, **values: Any) -> str:
    known = {
        "session": session,
        "rank": rank,
        "world_size": world_size,
        "wall_s": wall_s,
        "peak_gib": 1.0,
        "device": "cpu",
    }
    return json.dumps({**dict.fromkeys(SUMS, 1), **known, **values}) + "\n"


def test_calls_add_up_and_processes_run_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "cost.jsonl"
    file.write_text(
        line("a0", 0, 2, 3.0, decode_s=2.0)
        + line("a1", 1, 2, 4.0, llm_s=5.0, peak_gib=2.5)
        + line("a0", 0, 2, 2.0)  # 3 + 2 s beside 4 s
        + line("b0", 0, 2, 1.0)
        + line("b1", 1, 2, 6.0)  # a second call of two processes: 1 s beside 6 s
        + line("c0", 0, 1, 10.0, device="H200")
        + '{"session": "torn'
    )
    found = summarise_cost(file)
    assert found is not None
    assert found["wall_s"] == 5 + 6 + 10 and found["process_s"] == 26
    assert found["num_clips"] == found["num_tokens"] == 6
    stages = {"decode": 7.0, "prepare": 6.0, "encode": 6.0, "llm": 10.0}
    assert found["shares"] == pytest.approx({name: s / 29 for name, s in stages.items()})
    assert (found["peak_gib"], found["devices"], found["num_processes"]) == (2.5, ["cpu", "H200"], 2)


def test_nothing_on_record(tmp_path: Path) -> None:
    assert summarise_cost(tmp_path / "cost.jsonl") is None
    (tmp_path / "cost.jsonl").write_text("")
    assert summarise_cost(tmp_path / "cost.jsonl") is None
    (tmp_path / "cost.jsonl").write_text(line("a", 0, 1, 1.0, decode_s=0, prepare_s=0, encode_s=0, llm_s=0))
    found = summarise_cost(tmp_path / "cost.jsonl")
    assert found is not None and found["shares"] is None, "a control takes no time by stage"


def test_a_line_of_another_shape(tmp_path: Path) -> None:
    file = tmp_path / "cost.jsonl"
    file.write_text(line("a", 0, 1, 1.0) + "{}\n")
    with pytest.raises(
        DataError, match=r"cost\.jsonl:2 is no line of cost \('num_clips'\)\. Remove the line; predictions do not"
    ):
        summarise_cost(file)


def test_what_is_recorded_is_summed(tmp_path: Path) -> None:
    record = CostRecord(tmp_path, Processes(1, 3, 1), torch.device("cpu"))
    for n in (1, 2):
        record.add(**dict.fromkeys(SUMS, n))
    rows = [json.loads(text) for text in (tmp_path / "cost.jsonl").read_text().splitlines()]
    assert [(row["rank"], row["world_size"], row["device"], row["num_clips"]) for row in rows] == [
        (1, 3, "cpu", 1),
        (1, 3, "cpu", 2),
    ]
    assert all(row["wall_s"] >= 0 and row["peak_gib"] > 0.01 for row in rows)
    found = summarise_cost(tmp_path / "cost.jsonl")
    assert found is not None and found["num_questions"] == 3 and found["wall_s"] == sum(row["wall_s"] for row in rows)
