"""MACID through the whole evaluation: captions alone and with four clips, scored and generated, killed and resumed, controls."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from transformers import AutoModelForCausalLM, LlamaConfig

from actdeny_train import config
from actdeny_train.cli import export_benchmark
from actdeny_train.datasets.macid import MACID
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.evaluation import evaluate as evaluation
from actdeny_train.evaluation.controls import AlwaysPosition, RandomChoice
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.freeze import freeze
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.models import tiny_ovis2_5, tiny_video_llama_3
from actdeny_train.models.tiny import make_tokenizer
from actdeny_train.report.html import write_report
from actdeny_train.report.terminal import open_console, print_summary
from actdeny_train.types import Question

ITALIAN = "{source: {_target_: actdeny_train.questions.intruder.Intruder}, count: 2}"
ENGLISH = "{source: {_target_: actdeny_train.questions.intruder.Intruder, template: english}}"


@pytest.fixture
def make_run(evaluate_config: Path, small_clips: Path, write_macid: Callable[..., Path]) -> Callable[..., EvaluateRun]:
    """Make an evaluation of tuples: ``make_run("answers=both", num_tuples=4, root=None)``; two Italian questions a tuple, one English."""

    def make(*overrides: str, num_tuples: int = 5, root: str | None = str(small_clips)) -> EvaluateRun:
        values = yaml.safe_load(evaluate_config.read_text())
        file = write_macid(num_tuples, verbs=True)
        data = {"_target_": "actdeny_train.datasets.macid.MACID", "file": str(file), "root": root}
        values |= {"data": data, "clips_per_share": 2, "tokens_per_forest": 1500}
        evaluate_config.write_text(yaml.safe_dump(values))
        asked = f"ask=[{ITALIAN}, {ENGLISH}]"
        return config.parse(config.read(evaluate_config, [asked, *overrides]), EvaluateRun, "macid.yaml")

    return make


def lines(run: EvaluateRun) -> list[dict[str, Any]]:
    path = Path(run.folder) / run.name / "predictions.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_four_clips_scored_and_generated(make_run: Callable[..., EvaluateRun]) -> None:
    run = make_run("answers=both", "max_new_tokens=4")
    summary = evaluate(run)
    assert {prompt: cell["accuracy"]["n"] for prompt, cell in summary["setups"]["intruder"].items()} == {
        "italian": 10, "english": 5
    }  # fmt: skip
    cell = summary["setups"]["intruder"]["english"]
    assert (cell["by_pattern"]["3_1"]["n"], cell["agreement"]["n"], cell["score_accuracy"]["n"]) == (5, 5, 5)
    assert len(cell["positions"]) == 4
    assert (summary["clips"]["groups"], summary["clips"]["groups_left_out"]) == (5, 0)
    assert summary["cost"]["num_clips"] == 20
    made = lines(run)
    assert len(made) == 15
    published, rotated = made[0], made[1]
    assert rotated["clip_ids"] == [*published["clip_ids"][1:], published["clip_ids"][0]]
    for line in made:
        assert len(line["logprobs"]) == 4 and line["frames_per_clip"] == [4, 4, 4, 4]
        assert len(line["frame_indices"]) == len(line["frame_times_s"]) == 16
        assert len(line["fingerprints"]["video"].split()) == len(line["fingerprints"]["frames"].split()) == 4
    videos = [line["fingerprints"]["video"].split() for line in (published, rotated)]
    assert videos[1] == [*videos[0][1:], videos[0][0]] and published["logprobs"] != rotated["logprobs"]


def test_captions_alone_need_no_videos(make_run: Callable[..., EvaluateRun]) -> None:
    run = make_run("view=text_only", root=None)
    summary = evaluate(run)
    assert summary["setups"]["intruder"]["italian"]["accuracy"]["n"] == 10
    assert all(line["frame_indices"] == [] and "video" not in line["fingerprints"] for line in lines(run))
    assert all("frames_per_clip" not in line for line in lines(run))
    with pytest.raises(ConfigError, match=r"view is 'video', but the dataset has no videos to show. Set data.root to"):
        evaluate(make_run("name=other", root=None))


def test_captions_alone_are_asked_like_captions_with_clips(make_run: Callable[..., EvaluateRun]) -> None:
    seen, blind = make_run("name=seen"), make_run("name=blind", "view=text_only")
    for run in (seen, blind):
        evaluate(run)
    for a, b in zip(lines(seen), lines(blind), strict=True):
        assert a["fingerprints"]["question"] == b["fingerprints"]["question"] and a["logprobs"] != b["logprobs"]


def test_killed_and_resumed_gives_the_same_lines(
    make_run: Callable[..., EvaluateRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, killed = make_run("name=whole"), make_run("name=killed")
    evaluate(whole)
    real, calls = evaluation.answer_batch, []

    def dies(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(evaluation, "answer_batch", dies)
    with pytest.raises(KeyboardInterrupt):
        evaluate(killed)
    monkeypatch.undo()
    evaluate(killed)
    assert lines(killed) == lines(whole)


def test_a_changed_video_of_a_tuple_is_noticed(
    make_run: Callable[..., EvaluateRun], small_clips: Path, tmp_path: Path
) -> None:
    root = tmp_path / "videos"
    shutil.copytree(small_clips, root)
    run = make_run(root=str(root))
    evaluate(run)
    clip = MACID(str(tmp_path / "macid.csv"), str(root)).tuples()[1].clips[3]
    other = next(path for path in root.rglob("*.mp4") if path.read_bytes() != (root / clip.path).read_bytes())
    shutil.copy(other, root / clip.path)
    with pytest.raises(DataError, match=rf"The video of clip '{clip.id}', .* has changed since questions about it"):
        evaluate(run)


def test_frozen_questions_are_asked_again(make_run: Callable[..., EvaluateRun], tmp_path: Path) -> None:
    run = make_run()
    assert freeze(run, tmp_path / "questions.jsonl") == 15
    frozen = make_run("name=frozen", f"questions_file={tmp_path / 'questions.jsonl'}")
    evaluate(run)
    evaluate(frozen)
    assert lines(frozen) == lines(run)


@pytest.mark.parametrize("view", ["video", "text_only"])
def test_other_families(make_run: Callable[..., EvaluateRun], tmp_path: Path, view: str) -> None:
    llama = tiny_video_llama_3.load(str(tmp_path / "tiny"), tokens_per_frame=(4, 4))
    run = make_run(f"view={view}", "answers=both", "max_new_tokens=2", num_tuples=4)
    assert evaluate(run, llama)["setups"]["intruder"]["english"]["accuracy"]["n"] == 4
    ovis = tiny_ovis2_5.load(str(tmp_path / "tiny"), tokens_per_frame=(4, 4))
    run = make_run(f"view={view}", "name=ovis", num_tuples=4)
    if view == "text_only":
        assert evaluate(run, ovis)["setups"]["intruder"]["english"]["accuracy"]["n"] == 4
        return
    with pytest.raises(
        ConfigError,
        match=r"about 4 clips at once \(the first: 't0'\), but Ovis25 can be shown 1. Choose a model that takes several videos.*text_only",
    ):
        evaluate(run, ovis)


def test_random_answers_score_chance(make_run: Callable[..., EvaluateRun]) -> None:
    run = make_run(f"ask=[{ENGLISH}]", "view=text_only", num_tuples=400, root=None)
    cell = evaluate(run, RandomChoice())["setups"]["intruder"]["english"]
    for name in ("accuracy", "accuracy_exact"):
        assert cell[name]["n"] == 400 and cell[name]["low"] < 0.25 < cell[name]["high"]
    for place in cell["positions"]:
        assert place["chosen"]["low"] < 0.25 < place["chosen"]["high"]


@pytest.mark.parametrize("position", [1, 2, 3, 4])
def test_a_fixed_place_scores_how_often_the_intruder_stands_there(
    make_run: Callable[..., EvaluateRun], position: int
) -> None:
    run = make_run(f"ask=[{ENGLISH}]", "view=text_only", num_tuples=10, root=None)
    cell = evaluate(run, AlwaysPosition(position))["setups"]["intruder"]["english"]
    assert cell["accuracy"]["value"] == [0.3, 0.3, 0.2, 0.2][position - 1]
    assert [place["chosen"]["value"] for place in cell["positions"]] == [float(i == position - 1) for i in range(4)]
    assert [place["right"]["value"] for place in cell["positions"]] == [float(i == position - 1) for i in range(4)]


def test_places_that_no_choice_has(make_run: Callable[..., EvaluateRun]) -> None:
    with pytest.raises(ConfigError, match=r"position of AlwaysPosition is 0, but counts from 1"):
        AlwaysPosition(0)
    with pytest.raises(
        DataError, match=r"AlwaysPosition takes choice 5, but question 't0\|intruder\|english\|0' has 4 choices"
    ):
        evaluate(make_run(f"ask=[{ENGLISH}]", "view=text_only", root=None), AlwaysPosition(5))


def test_italian_responses_are_parsed(make_run: Callable[..., EvaluateRun]) -> None:
    styles = ("{n}", "{n}.", "**{n}**", "{n}: {caption}", "{caption}", "Risposta: {n}", "La frase {n}", "Frase {n}.")

    class Speaks(AlwaysPosition):
        def reply(self, question: Question, clip: Any) -> str:
            style = styles[int(question.group[1:]) % len(styles)]
            return style.format(n=question.target + 1, caption=question.choices[question.target])

    run = make_run(f"ask=[{ENGLISH}]", "view=text_only", num_tuples=len(styles), root=None)
    cell = evaluate(run, Speaks(1))["setups"]["intruder"]["english"]
    said = {styles[int(line["group"][1:])]: line["status"] for line in lines(run)}
    assert cell["accuracy"]["value"] == 1.0, said


def test_a_language_model_without_vision(make_run: Callable[..., EvaluateRun], tmp_path: Path) -> None:
    tokenizer = make_tokenizer(300)
    config_of = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = AutoModelForCausalLM.from_config(LlamaConfig(vocab_size=len(tokenizer), **config_of))
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "llama")
    target = f"model={{_target_: actdeny_train.models.causal_lm.load, checkpoint: {tmp_path / 'llama'}}}"
    summary = evaluate(make_run(target, "view=text_only", "answers=both", "max_new_tokens=2", root=None, num_tuples=4))
    cell = summary["setups"]["intruder"]["italian"]
    assert (cell["accuracy"]["n"], cell["score_accuracy"]["n"]) == (8, 8)
    with pytest.raises(ConfigError, match=r"about 4 clips at once \(the first: 't0'\), but CausalLM can be shown none"):
        evaluate(make_run(target, "name=seeing"))


@pytest.mark.parametrize("name", ["macid", "macid_video", "macid_text_llm"])
def test_shipped_configs_run(write_macid: Callable[..., Path], small_clips: Path, tmp_path: Path, name: str) -> None:
    overrides = [
        f"data.file={write_macid(4)}",
        "num_workers=0",
        f"folder={tmp_path}",
        "model={_target_: actdeny_train.evaluation.controls.AlwaysPosition, position: 2}",
        "ask.0.source.template=english",
        *([f"data.root={small_clips}"] if name == "macid_video" else []),
    ]
    file = Path(__file__).parents[2] / "configs" / "evaluate" / f"{name}.yaml"
    run = config.parse(config.read(file, overrides), EvaluateRun, name)
    cell = evaluate(run)["setups"]["intruder"]["english"]
    assert (cell["accuracy"]["value"], cell["accuracy"]["n"]) == (0.25, 16 if name == "macid_video" else 4)


def test_the_report_and_the_terminal(make_run: Callable[..., EvaluateRun], tmp_path: Path) -> None:
    runs = [make_run(f"name={name}", "view=text_only", root=None) for name in ("second", "random")]
    summaries = [evaluate(run, control) for run, control in zip(runs, (AlwaysPosition(2), RandomChoice()), strict=True)]
    folders = [Path(run.folder) / run.name for run in runs]
    page = write_report(folders, tmp_path / "report.html", markdown=tmp_path / "report.md").read_text(encoding="utf-8")
    for words in ('id="intruder-section"', "By verb pattern", "By place of the intruder", "Llama-3.1-70B"):
        assert words in page
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| english | second | 20.0 [0.0, 60.0] (5) |" in text and "| Llama-3.1-70B | 58.0 |" in text
    assert "## Other setups" not in text and "## Find the intruder, compared" in text
    file = io.StringIO()
    print_summary(summaries[0], open_console(file))
    told = file.getvalue()
    assert "Find the intruder" in told and "3 + 1" in told and "Other setups" not in told


def test_export_of_questions_about_several_clips_is_refused(
    make_run: Callable[..., EvaluateRun], evaluate_config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run()  # writes the config
    out = tmp_path / "exported"
    assert export_benchmark([str(evaluate_config), str(out), f"ask=[{ITALIAN}]"]) == 2
    said = capsys.readouterr().err
    assert "Question 't0|intruder|italian|0' is about the clips " in said and not out.exists()
    assert "but an exported question is about exactly one of the" in said
