"""The evaluation loop: scores as one sequence at a time would have them, resumption, and what it refuses."""

import gc
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from actdeny_train import config
from actdeny_train.datasets.manifest import read_manifest
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.evaluation import evaluate as evaluation
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.freeze import freeze
from actdeny_train.evaluation.plan import Questions
from actdeny_train.evaluation.predictions import predict
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.evaluation.scoring import Answer
from actdeny_train.evaluation.store import read_predictions
from actdeny_train.models.batch import Batch
from actdeny_train.questions.frozen import read_questions
from actdeny_train.types import ClipGroup, ParseStatus, Prediction, Question
from actdeny_train.video.decode import read_frames

Answers = tuple[list[Answer], float, float]


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Question], int]], None]:
    """Replace the model's scores by those of an oracle that answers ``choose(question)``."""

    def use(choose: Callable[[Question], int]) -> None:
        def answers(model: Any, batch: Batch, *_: Any) -> Answers:
            scores = (tuple(-float(i != choose(q)) for i in range(len(q.answers))) for q in batch.questions)
            return [Answer(s) for s in scores], 0.0, 0.0

        monkeypatch.setattr(evaluation, "answer_batch", answers)

    return use


def drawn(run: EvaluateRun, data: Any) -> Questions:
    return Questions(run.ask, data.labels, run.seed)


def folder_of(run: EvaluateRun) -> Path:
    return Path(run.folder) / run.name


def stored(run: EvaluateRun) -> list[Prediction]:
    return list(read_predictions(folder_of(run) / "predictions.jsonl"))


def test_scores_are_those_of_one_sequence_at_a_time(make_run: Any, alone: Any, small_clips: Path) -> None:
    run = make_run()
    family, data = run.model.build(), run.data.build()
    evaluate(run, family, data)
    by_id = {p.question_id: p for p in stored(run)}
    clips = data.clips("test")
    assert len(by_id) == len(clips) * 16
    for clip in clips[:2]:
        visual = family.processor.visual(read_frames(small_clips / clip.path, run.frames))
        for question in drawn(run, data).about(clip):
            made = by_id[question.id]
            for choice, text in enumerate(question.answers):
                sequence = family.processor.sequence([visual], question.text, text, question=0, choice=choice)
                with torch.no_grad():
                    expected = float(alone(family.model, sequence, [visual]).sum())
                assert made.logprobs[choice] == pytest.approx(expected, abs=1e-4)
            assert made.choice == max(range(len(made.logprobs)), key=lambda i: made.logprobs[i])
            assert (made.source, made.action, made.kind) == (clip.source, clip.action, question.kind)
            assert len(made.frame_indices) == len(made.frame_times_s) == 4


def test_the_right_answer_everywhere_scores_one(make_run: Any, oracle: Any) -> None:
    oracle(lambda question: question.target)
    cell = evaluate(make_run())["setups"]["standard"]
    for prompt in ("plain", "causalact"):
        values = {name: cell[prompt][name]["value"] for name in ("t1", "t2", "overall_ad", "ap", "overall", "hm")}
        assert set(values.values()) == {1.0}
        assert [cell[prompt][name]["n"] for name in ("t1", "t2", "ap", "overall")] == [2, 2, 2, 6]


def test_always_none_denies_all_and_recognises_nothing(make_run: Any, oracle: Any) -> None:
    oracle(lambda question: question.target if question.none_choice is None else question.none_choice)
    run = make_run()
    cell = evaluate(run)["setups"]["standard"]["plain"]
    assert (cell["overall_ad"]["value"], cell["ap"]["value"], cell["hm"]["value"]) == (1.0, 0.0, 0.0)
    assert cell["false_denial"]["value"] == 1.0
    written = json.loads((folder_of(run) / "metrics.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert written["setups"]["standard"]["plain"] == cell
    assert written["clips"] == {"split": "test", "used": 6, "quarantined": 0}


def test_an_evaluation_that_breaks_off_goes_on_to_the_same_bytes(
    make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, broken = make_run("name=whole", "clips_per_share=2"), make_run("name=broken", "clips_per_share=2")
    evaluate(whole)
    real, calls = evaluation.answer_batch, []

    def answers(model: Any, batch: Batch, *others: Any) -> Answers:
        calls.append(batch)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(model, batch, *others)

    monkeypatch.setattr(evaluation, "answer_batch", answers)
    with pytest.raises(KeyboardInterrupt):
        evaluate(broken)
    (part,) = folder_of(broken).glob("predictions.part-*.jsonl")
    lines = part.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4 * 16
    part.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])  # as a kill in mid-write leaves it
    gc.collect()  # the lock of the part goes with its store, as it would with its process
    summary = evaluate(broken)
    file, expected = (folder_of(run) / "predictions.jsonl" for run in (broken, whole))
    assert file.read_bytes() == expected.read_bytes()
    assert len(calls) == 3 + 2, "a finished forest is not computed again, a torn one is"
    assert summary == json.loads((folder_of(whole) / "metrics.json").read_text(encoding="utf-8")) | {
        "cost": summary["cost"]
    }
    assert summary["cost"]["num_questions"] == 8 * 16
    assert not part.exists()


def test_other_weights_or_other_questions_do_not_go_into_the_same_file(make_run: Any) -> None:
    run = make_run()
    family = run.model.build()
    evaluate(run, family)
    with pytest.raises(DataError, match="made for another wording or other choices"):
        evaluate(make_run("seed=1"), family)
    with torch.no_grad():
        next(iter(family.parameters())).add_(1.0)
    with pytest.raises(DataError, match="holds predictions made with other weights"):
        evaluate(make_run(), family)


@pytest.mark.slow
def test_the_config_is_saved_before_the_first_answer(
    evaluate_config: Path, make_run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> Answers:
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "answer_batch", killed)
    values = config.read(evaluate_config, ["seed=3"])
    run = make_run("seed=3")
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, values=values)
    assert config.read(folder_of(run) / "config.yaml") == values


def test_workers_change_nothing(make_run: Any) -> None:
    evaluate(make_run("name=none"))
    evaluate(make_run("name=two", "num_workers=2"))
    one, two = ((folder_of(make_run(f"name={n}")) / "predictions.jsonl").read_bytes() for n in ("none", "two"))
    assert one == two


def test_the_same_question_twice_is_an_error(make_run: Any) -> None:
    run = make_run()
    data = run.data.build()
    with pytest.raises(DataError, match=r"Two questions have the id .* Remove the source that stands twice under ask"):
        Questions((*run.ask, run.ask[-1]), data.labels, 0).about(data.clips("test")[0])


def test_ties_go_to_the_first_and_what_is_not_finite_is_an_error(make_run: Any, make_frames: Any) -> None:
    run = make_run()
    data = run.data.build()
    clip = data.clips("test")[0]
    question = drawn(run, data).about(clip)[-1]
    scores = [-1.0] * 11
    tied = predict(question, Answer(tuple(scores)), ClipGroup.of(clip), (make_frames(4),), {})
    assert (tied.choice, tied.status) == (0, ParseStatus.OK)
    scores[4] = float("nan")
    broken = predict(question, Answer(tuple(scores)), ClipGroup.of(clip), (make_frames(4),), {})
    assert (broken.choice, broken.status, broken.logprobs, broken.is_right) == (None, ParseStatus.ERROR, (), False)


def test_two_splits_do_not_go_into_one_score(make_run: Any, oracle: Any) -> None:
    oracle(lambda question: question.target)
    evaluate(make_run())
    with pytest.raises(DataError, match=r"holds 96 predictions for questions that this evaluation does not ask"):
        evaluate(make_run("split=val"))
    with pytest.raises(DataError, match=r"holds 90 predictions .* no longer stands under ask"):
        evaluate(make_run("ask=[{source: {_target_: actdeny_train.questions.mcq.Standard}}]"))


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("frames.num_frames=2", r"given under frames=middle\(num_frames=4\), now frames is middle\(num_frames=2\)"),
        ("precision=bfloat16", r"given under precision=float32, now precision is bfloat16, and a score must not mix"),
    ],
)
def test_other_frames_or_another_precision_do_not_go_into_one_score(
    evaluate_config: Path, make_run: Any, oracle: Any, override: str, text: str
) -> None:
    oracle(lambda question: question.target)
    evaluate(make_run(), values=config.read(evaluate_config, []))
    before = (folder_of(make_run()) / "config.yaml").read_bytes()
    with pytest.raises(ConfigError, match=text):
        evaluate(make_run(override), values=config.read(evaluate_config, [override]))
    assert (folder_of(make_run()) / "config.yaml").read_bytes() == before
    again = ["num_workers=0", "clips_per_share=2"]
    evaluate(make_run(*again), values=config.read(evaluate_config, again))


def test_clips_that_nothing_is_asked_about_share_a_forest_with_others(make_run: Any) -> None:
    ask = "ask=[{source: {_target_: actdeny_train.questions.mcq.Standard}, kinds: [context_only]}]"
    run = make_run(ask, "clips_per_share=6")
    evaluate(run)
    assert [p.kind for p in stored(run)] == ["context_only"] * 2


def test_what_another_process_has_answered_is_not_computed_again(
    make_run: Any, oracle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    oracle(lambda question: question.target)
    run, other = make_run("clips_per_share=1"), make_run("name=other", "clips_per_share=1")
    evaluate(other)
    answered = (folder_of(other) / "predictions.jsonl").read_bytes().splitlines(keepends=True)
    real, calls = evaluation.answer_batch, []

    def answers(model: Any, batch: Batch, *others: Any) -> Answers:
        if not calls:  # while the first clip is at work, another process writes the second and the third
            (folder_of(run) / "predictions.part-elsewhere-1-0.jsonl").write_bytes(b"".join(answered[16:48]))
        calls.append(batch.questions[0].clip_ids)
        return real(model, batch, *others)

    monkeypatch.setattr(evaluation, "answer_batch", answers)
    assert evaluate(run)["setups"]["standard"]["plain"]["overall"]["n"] == 6
    assert len(calls) == 4 and len(stored(run)) == 6 * 16


@pytest.mark.slow
def test_an_error_in_a_worker_is_one_paragraph(make_run: Any, small_clips: Path, tmp_path: Path) -> None:
    root = tmp_path / "clips"
    shutil.copytree(small_clips, root)
    run = make_run("num_workers=1", f"data.root={root}", f"data.file={root / 'manifest.jsonl'}")
    data = run.data.build()
    spoiled = data.usable("test")[1]
    (root / spoiled.path).write_bytes(b"no video any more")
    with pytest.raises(DataError) as caught:
        evaluate(run, data=data)
    text = str(caught.value)
    assert text.startswith(f"Clip {spoiled.id!r} decoded when it was verified, but not now.")
    assert "Traceback" not in text and "DataLoader" not in text and "\n" not in text


def test_a_video_that_has_changed_under_its_name_is_noticed(
    make_run: Any, oracle: Any, small_clips: Path, tmp_path: Path
) -> None:
    oracle(lambda question: question.target)
    root = tmp_path / "clips"
    shutil.copytree(small_clips, root)
    where = (f"data.root={root}", f"data.file={root / 'manifest.jsonl'}")
    run = make_run(*where)
    evaluate(run)
    clips = run.data.build().clips("test")
    evaluate(make_run(*where))
    shutil.copy(root / clips[0].path, root / clips[1].path)
    with pytest.raises(DataError) as caught:
        evaluate(make_run(*where))
    assert str(caught.value) == (
        f"The video of clip {clips[1].id!r}, {str(root / clips[1].path)!r}, has changed since questions about it were answered in "
        f"{folder_of(run)}. Restore the file, evaluate under another name (name=...), or remove the answers about it."
    )


def test_a_run_folder_tells_all_that_a_report_needs(evaluate_config: Path, make_run: Any, small_clips: Path) -> None:
    run = make_run()
    evaluate(run, values=config.read(evaluate_config, []))
    folder, data = folder_of(run), run.data.build()
    assert read_questions(folder / "questions.jsonl") == [
        q for c in data.clips("test") for q in drawn(run, data).about(c)
    ]
    assert list(read_manifest(folder / "clips.jsonl")) == data.clips("test")
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["video_root"] == str(small_clips.resolve()) and record["frames"] == "middle(num_frames=4)"
    assert record["fingerprints"]["weights"] == stored(run)[0].fingerprints["weights"]
    assert (record["view"], record["answers"], record["split"]) == ("video", "score", "test")
    cost = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["cost"]
    assert (cost["num_clips"], cost["num_questions"], cost["num_processes"]) == (6, 96, 1)
    assert cost["num_tokens"] < cost["num_tokens_alone"] and cost["peak_gib"] > 0
    assert sum(cost["shares"].values()) == pytest.approx(1)


def test_the_same_answers_whatever_fits_into_a_forest(make_run: Any) -> None:
    """One clip a forest, all in one: the same choices, and scores that differ in the last bits of float32 alone."""
    for name, tokens in (("one", 1), ("all", 1 << 20)):
        evaluate(make_run(f"name={name}", f"tokens_per_forest={tokens}"))
    one, everything = stored(make_run("name=one")), stored(make_run("name=all"))
    assert [p.choice for p in one] == [p.choice for p in everything]
    for ours, theirs in zip(one, everything, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def test_frozen_questions_are_asked_in_the_place_of_drawn_ones(
    make_run: Any, oracle: Any, tmp_path: Path, capsys: Any
) -> None:
    oracle(lambda question: question.target)
    file = tmp_path / "q.jsonl"
    assert freeze(make_run("seed=5"), file) == 6 * 16
    evaluate(make_run("name=drawn", "seed=5"))
    evaluate(make_run("name=frozen", f"questions_file={file}"))
    drawn_ones, frozen_ones = stored(make_run("name=drawn")), stored(make_run("name=frozen"))
    assert drawn_ones == frozen_ones
    again = tmp_path / "again.jsonl"
    freeze(make_run(f"questions_file={file}"), again)
    assert again.read_bytes() == file.read_bytes()
    freeze(make_run("split=val"), file)
    with pytest.raises(DataError, match=r"No question of .*q.jsonl is about a usable clip of split 'test'"):
        evaluate(make_run("name=none", f"questions_file={file}"))
    assert "96 of 96 questions are about clips that are quarantined or not in split 'test'" in capsys.readouterr().out
