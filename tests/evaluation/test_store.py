"""The prediction store: nothing computed is lost, nothing stands twice, two models never share a file."""

import dataclasses
import json
import multiprocessing
from pathlib import Path

import pytest

from actdeny_train.errors import DataError
from actdeny_train.evaluation.store import PredictionStore, read_predictions
from actdeny_train.types import ParseStatus, Prediction

MODEL = {"weights": "w1", "processor": "p1"}


def prediction(name: str, question: str = "q1", **changes: object) -> Prediction:
    made = Prediction(
        question_id=name,
        clip_ids=("clip",),
        action="Archery",
        source="g01",
        setup="standard",
        prompt="plain",
        kind="presence",
        group="g01",
        target=1,
        choice=0,
        status=ParseStatus.OK,
        num_choices=2,
        logprobs=(-0.25, -1.0e-7),
        fingerprints={**MODEL, "question": question, "frames": "f1"},
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "predictions.jsonl"
    lines = [prediction("a"), prediction("b", text="Drücke 1\n", choice=None, status=ParseStatus.REFUSAL)]
    PredictionStore(path, MODEL).append(lines)
    assert list(read_predictions(path)) == lines


def test_known_questions_are_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    store = PredictionStore(path, MODEL)
    store.append([prediction("a")])
    store.append([prediction("a"), prediction("b")])
    again = PredictionStore(path, MODEL)
    again.append([prediction("b")])
    assert [p.question_id for p in read_predictions(path)] == ["a", "b"] and len(again) == 2
    assert again.has("a", "q1") and not again.has("c", "q1")


@pytest.mark.parametrize("torn", ['{"question_id": "b"', "{", '{"question_id": "b", "text": "\u00fc"}'])
def test_a_torn_last_line_is_dropped_and_nothing_else(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "p.jsonl"
    PredictionStore(path, MODEL).append([prediction("a")])
    whole = path.read_bytes()
    path.write_bytes(whole + torn.encode())
    store = PredictionStore(path, MODEL)
    assert path.read_bytes() == whole and not store.has("b", "q1")


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    PredictionStore(path, MODEL).append([prediction("a")])
    path.write_text("{}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(DataError, match=r"p\.jsonl:1 is not a prediction .* Remove the line to have it computed again"):
        PredictionStore(path, MODEL)


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    PredictionStore(path, MODEL).append([prediction("a")])
    with pytest.raises(DataError) as caught:
        PredictionStore(path, {**MODEL, "weights": "w2"})
    assert "made with other weights (fingerprint w1, now w2)" in str(caught.value)
    assert "Evaluate under another name (name=...)" in str(caught.value)


def test_another_question_of_the_same_id_is_refused(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path / "p.jsonl", MODEL)
    store.append([prediction("a")])
    with pytest.raises(DataError, match="for 'a' that was made for another wording or other choices"):
        store.has("a", "q2")


def test_nan_never_reaches_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    store = PredictionStore(path, MODEL)
    with pytest.raises(ValueError, match="JSON"):
        store.append([prediction("a", logprobs=(float("nan"), -1.0))])
    assert not any("NaN" in json.dumps(p.to_json()) for p in read_predictions(path))


def test_no_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file of predictions at .* Run tools/evaluate\.py first\."):
        list(read_predictions(tmp_path / "none.jsonl"))


def write_many(path: Path, first: int) -> None:
    """Append 40 predictions of 20 kB in 20 calls: more than a buffer holds, half of them those of the other writer."""
    store = PredictionStore(path, MODEL)
    for i in range(first, first + 40, 2):
        store.append([prediction(f"q{j}", text="ü" * 10_000) for j in (i, i + 1)])


def test_two_processes_tear_and_repeat_no_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_many, args=(path, first)) for first in (0, 20)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert sorted(p.question_id for p in read_predictions(path)) == sorted(f"q{i}" for i in range(60))


def test_what_another_store_writes_is_seen_and_not_repeated(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    one, two = PredictionStore(path, MODEL), PredictionStore(path, MODEL)
    one.append([prediction("a"), prediction("b")])
    assert not two.has("a", "q1")
    two.append([prediction("b"), prediction("c")])
    assert two.has("a", "q1") and [p.question_id for p in read_predictions(path)] == ["a", "b", "c"]
    one.refresh()
    assert one.has("c", "q1") and len(one) == len(two) == 3
    with path.open("ab") as file:
        file.write(b'{"question_id": "d')  # by a third process, killed in mid-write
    two.append([prediction("d")])
    one.refresh()
    assert [p.question_id for p in read_predictions(path)] == ["a", "b", "c", "d"] and len(one) == 4
    with path.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(DataError, match=r"p\.jsonl:5 is not a prediction"):
        one.refresh()


def test_a_question_answered_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    PredictionStore(path, MODEL).append([prediction("a"), prediction("b")])
    path.write_bytes(path.read_bytes() + path.read_bytes())  # two files joined by hand
    text = r"p\.jsonl:3 answers 'a', which an earlier line answers too, so it would count twice\. Remove one"
    with pytest.raises(DataError, match=text):
        list(read_predictions(path))
    with pytest.raises(DataError, match=text):
        PredictionStore(path, MODEL)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    PredictionStore(path, MODEL).append([prediction("a")])
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    with pytest.raises(DataError, match=r"p\.jsonl:2 is not a prediction"):
        list(read_predictions(path))
    with pytest.raises(DataError, match=r"p\.jsonl:2 is not a prediction"):
        PredictionStore(path, MODEL)


def test_answers_to_questions_that_are_not_asked_are_refused(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path / "p.jsonl", MODEL)
    store.append([prediction("a"), prediction("b")])
    store.require_only({"a", "b", "c"})
    with pytest.raises(DataError, match=r"holds 1 predictions for questions that this .* \(the first one: 'b'\)"):
        store.require_only({"a"})
