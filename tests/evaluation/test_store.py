"""The prediction store: nothing computed is lost, nothing stands twice, two models never share a folder."""

import dataclasses
import multiprocessing
from pathlib import Path

import pytest

from actdeny_train.errors import DataError
from actdeny_train.evaluation.store import PARTS, PREDICTIONS, PredictionStore, read_predictions
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


def finish(store: PredictionStore, order: str = "abcd") -> list[Prediction]:
    """Merge and read back."""
    return list(read_predictions(store.merge(list(order))))


def part_of(folder: Path) -> Path:
    (part,) = folder.glob(PARTS)
    return part


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "name"
    lines = [prediction("a"), prediction("b", text="Drücke 1\n", choice=None, status=ParseStatus.REFUSAL)]
    store = PredictionStore(folder, MODEL)
    store.append(lines)
    assert list(read_predictions(part_of(folder))) == lines, "flushed before the process ends"
    assert finish(store) == lines
    assert [path.name for path in folder.iterdir()] == [PREDICTIONS]


def test_known_questions_are_not_written_again(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("a")])
    store.append([prediction("a"), prediction("b")])
    store.close()
    again = PredictionStore(tmp_path, MODEL)
    again.append([prediction("b")])
    assert again.has("a", "q1") and not again.has("c", "q1") and len(again) == 2
    assert [p.question_id for p in finish(again)] == ["a", "b"]


def test_the_merged_file_has_the_order_of_the_questions(tmp_path: Path) -> None:
    one, two = PredictionStore(tmp_path, MODEL), PredictionStore(tmp_path, MODEL)
    one.append([prediction("c"), prediction("a")])
    two.append([prediction("d"), prediction("b")])
    one.close()
    assert [p.question_id for p in finish(two)] == ["a", "b", "c", "d"]
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("e")])
    assert [p.question_id for p in finish(store, "eabcd")] == ["e", "a", "b", "c", "d"]


def test_a_part_that_is_being_written_is_merged_but_not_removed(tmp_path: Path) -> None:
    busy, done = PredictionStore(tmp_path, MODEL), PredictionStore(tmp_path, MODEL)
    busy.append([prediction("a")])
    done.append([prediction("b")])
    assert [p.question_id for p in finish(done)] == ["a", "b"]
    busy.append([prediction("c")])
    busy.close()
    assert [p.question_id for p in finish(PredictionStore(tmp_path, MODEL))] == ["a", "b", "c"]
    assert not list(tmp_path.glob(PARTS))


@pytest.mark.parametrize("torn", ['{"question_id": "b"', "{", '{"question_id": "b", "text": "\u00fc"}'])
@pytest.mark.parametrize("merged", [False, True])
def test_a_torn_last_line_is_passed_over_and_nothing_else(tmp_path: Path, torn: str, merged: bool) -> None:
    first = PredictionStore(tmp_path, MODEL)
    first.append([prediction("a")])
    path = first.merge(["a"]) if merged else part_of(tmp_path)
    first.close()
    path.write_bytes(path.read_bytes() + torn.encode())
    store = PredictionStore(tmp_path, MODEL)
    assert store.has("a", "q1") and not store.has("b", "q1")
    store.append([prediction("b")])
    assert finish(store) == [prediction("a"), prediction("b")]


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("a")])
    path = store.merge(["a"])
    path.write_text("{}\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(
        DataError, match=r"predictions\.jsonl:1 is not a prediction .* Remove the line to have it computed again"
    ):
        PredictionStore(tmp_path, MODEL)


def test_another_model_is_refused(tmp_path: Path) -> None:
    PredictionStore(tmp_path, MODEL).append([prediction("a")])
    with pytest.raises(DataError) as caught:
        PredictionStore(tmp_path, {**MODEL, "weights": "w2"})
    assert "made with other weights (fingerprint w1, now w2)" in str(caught.value)
    assert "Evaluate under another name (name=...)" in str(caught.value)


def test_another_question_of_the_same_id_is_refused(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("a")])
    with pytest.raises(DataError, match="for 'a' that was made for another wording or other choices"):
        store.has("a", "q2")


def test_nan_never_reaches_the_file(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("b")])
    with pytest.raises(ValueError, match="JSON"):
        store.append([prediction("a", logprobs=(float("nan"), -1.0))])
    assert finish(store) == [prediction("b")]


def test_no_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file of predictions at .* Run tools/evaluate\.py first\."):
        list(read_predictions(tmp_path / "none.jsonl"))
    PredictionStore(tmp_path, MODEL).append([prediction("a")])
    with pytest.raises(
        DataError, match=r"There are 1 parts of an evaluation that did not finish beside it\. Run tools"
    ):
        list(read_predictions(tmp_path / PREDICTIONS))


def write_many(folder: Path, first: int) -> None:
    """Append 40 predictions of 20 kB in 20 calls: more than a buffer holds, half of them those of the other writer."""
    store = PredictionStore(folder, MODEL)
    for i in range(first, first + 40, 2):
        store.refresh()
        store.append([prediction(f"q{j}", text="ü" * 10_000) for j in (i, i + 1)])
    store.merge([])


def test_processes_that_write_and_merge_at_once_lose_and_repeat_no_line(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_many, args=(tmp_path, first)) for first in (0, 20, 40)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    made = finish(PredictionStore(tmp_path, MODEL), "")
    assert sorted(p.question_id for p in made) == sorted(f"q{i}" for i in range(80))
    assert all(p.text == "ü" * 10_000 for p in made)


def test_what_another_store_writes_is_seen_and_not_repeated(tmp_path: Path) -> None:
    one, two = PredictionStore(tmp_path, MODEL), PredictionStore(tmp_path, MODEL)
    one.append([prediction("a"), prediction("b")])
    assert not two.has("a", "q1")
    two.refresh()
    assert two.has("a", "q1")
    two.append([prediction("b"), prediction("c")])
    one.refresh()
    assert one.has("c", "q1") and len(one) == len(two) == 3
    foreign = tmp_path / PARTS.replace("*", "elsewhere-1-0")
    foreign.write_bytes(b'{"question_id": "d')  # by a third process, in mid-write
    one.refresh()
    assert len(one) == 3
    foreign.write_bytes(b"{}\n")
    with pytest.raises(DataError, match=r"elsewhere-1-0\.jsonl:1 is not a prediction"):
        one.refresh()


def test_a_question_that_two_processes_answered_counts_once(tmp_path: Path) -> None:
    one, two = PredictionStore(tmp_path, MODEL), PredictionStore(tmp_path, MODEL)
    one.append([prediction("a")])
    two.append([prediction("a"), prediction("b")])
    one.close()
    assert finish(two) == [prediction("a"), prediction("b")]


def test_a_question_answered_twice_in_one_file_is_an_error(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("a"), prediction("b")])
    path = store.merge(["a", "b"])
    path.write_bytes(path.read_bytes() + path.read_bytes())  # two files joined by hand
    text = r"predictions\.jsonl:3 answers 'a', which an earlier line answers too, so it would count twice\. Remove one"
    with pytest.raises(DataError, match=text):
        list(read_predictions(path))
    with pytest.raises(DataError, match=text):
        PredictionStore(tmp_path, MODEL)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("a")])
    path = store.merge(["a"])
    path.write_bytes(path.read_bytes() + b"\xff\xfe\n")
    with pytest.raises(DataError, match=r"predictions\.jsonl:2 is not a prediction"):
        list(read_predictions(path))
    with pytest.raises(DataError, match=r"predictions\.jsonl:2 is not a prediction"):
        PredictionStore(tmp_path, MODEL)


def test_answers_to_questions_that_are_not_asked_are_refused(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append([prediction("a"), prediction("b")])
    store.require_only({"a", "b", "c"})
    with pytest.raises(DataError, match=r"holds 1 predictions for questions that this .* \(the first one: 'b'\)"):
        store.require_only({"a"})


def test_videos_that_answers_rest_on(tmp_path: Path) -> None:
    store = PredictionStore(tmp_path, MODEL)
    store.append(
        [prediction("a", fingerprints={**MODEL, "question": "q1", "video": "v1"}), prediction("b", clip_ids=("blind",))]
    )
    assert store.videos() == {"clip": "v1"}
    assert PredictionStore(tmp_path, MODEL).videos() == {"clip": "v1"}
