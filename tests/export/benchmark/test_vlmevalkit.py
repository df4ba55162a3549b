"""The tables and the class for VLMEvalKit, which reads with pandas' defaults."""

import csv
import importlib.util
import json
import os
import string
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.errors import DataError
from actdeny_train.export.benchmark.export import export_benchmark
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.prompts import CausalAct, Plain, PromptFile
from actdeny_train.types import Clip, ClipKind, Question
from actdeny_train.video.sampling import Middle

CLIP = Clip(id="c", path="c.mp4", action="Archery", kind=ClipKind.DENIAL, split="test", source="g01")


@pytest.fixture(scope="module")
def folder(clips: list[Clip], questions: list[Question], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_benchmark(clips, questions, tmp_path_factory.mktemp("out"), formats=["vlmevalkit"])[0]


@pytest.fixture(scope="module")
def exported(folder: Path) -> ModuleType:
    """The exported file as a module, as it is where VLMEvalKit is not installed."""
    return load(folder)


def load(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("actdeny_vlmevalkit", folder / "actdeny_vlmevalkit.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables(folder: Path) -> dict[str, pandas.DataFrame]:
    """Read all tables as VLMEvalKit does."""
    return {path.stem: pandas.read_csv(path, sep="\t") for path in sorted(folder.glob("*.tsv"))}


def ask(choices: tuple[str, ...], text: str = "Which?\n") -> Question:
    return Question(
        id="c|standard|own|0",
        clip_ids=("c",),
        setup="standard",
        prompt="own",
        text=text + "\n".join(f"{i + 1}. {choice}" for i, choice in enumerate(choices)),
        choices=choices,
        answers=tuple(str(i + 1) for i in range(len(choices))),
        target=0,
        kind="denial",
        group="g01",
    )


def test_every_choice_comes_back_from_pandas(folder: Path, clips: list[Clip], questions: list[Question]) -> None:
    by_id = {q.id: q for q in questions}
    paths = {clip.id: clip.path for clip in clips}
    seen = 0
    for table in tables(folder).values():
        for index, row in table.iterrows():
            record = json.loads(row["record"])
            q = by_id[record["id"]]
            cells = [row[letter] for letter in string.ascii_uppercase if letter in table]
            labelled = q.answers != q.choices
            offered = len(q.choices) if labelled else 0
            assert cells[:offered] == list(q.choices)[:offered] and all(pandas.isna(c) for c in cells[offered:])
            assert row["index"] == index and row["video"] == paths[q.clip_ids[0]] and row["category"] == q.kind
            assert row["answer"] == (string.ascii_uppercase[q.target] if labelled else q.answers[q.target])
            assert record["choices"] == list(q.choices) and record["none_choice"] == q.none_choice
            seen += 1
    assert seen == len(questions)


@pytest.mark.parametrize("prompt", [Plain(), CausalAct(), CausalAct(style="released")], ids=lambda p: p.name)
def test_what_is_asked_is_the_question_with_letters(
    prompt: Any, clips: list[Clip], tmp_path: Path, exported: ModuleType
) -> None:
    labels = load_ucf101()
    numbers = [Standard(prompt=prompt).ask(clip, labels, seed=0) for clip in clips]
    letters = [Standard(prompt=prompt, labelled="letters").ask(clip, labels, seed=0) for clip in clips]
    (folder,) = export_benchmark(clips, numbers, tmp_path, formats=["vlmevalkit"])
    (table,) = tables(folder).values()
    assert [exported.text_of(row) for row in table.to_dict("records")] == [q.text for q in letters]


def test_lettered_and_yes_no_questions_stay_as_they_are(
    folder: Path, questions: list[Question], exported: ModuleType
) -> None:
    by_id = {q.id: q.text for q in questions}
    for name in ("ActDeny_standard_letters_plain", "ActDeny_yes_no_primary_plain", "ActDeny_yes_no_random_causalact"):
        for row in tables(folder)[name].to_dict("records"):
            assert exported.text_of(row) == by_id[json.loads(row["record"])["id"]]
    assert "A" not in tables(folder)["ActDeny_yes_no_primary_plain"]
    assert "T" in tables(folder)["ActDeny_standard_20_plain"]


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize("ending", ["json", "tsv"])
def test_an_oracle_scores_all_or_nothing_however_it_says_it(
    folder: Path, ending: str, shift: int, oracle: SimpleNamespace, tmp_path: Path, exported: ModuleType
) -> None:
    for name, table in tables(folder).items():
        records = [json.loads(record) for record in table["record"]]
        for style, say in oracle.styles.items():
            table["prediction"] = [say(r, (r["target"] + shift) % len(r["choices"])) for r in records]
            scores = exported.ActDeny.evaluate(save(table, tmp_path / f"predictions.{ending}"), model="gpt", nproc=4)
            rates = {scores[key] for key in ("t1", "t2", "overall_ad", "ap", "overall", "hm")}
            assert rates - {None} == {1 - shift}, (name, style)
            assert json.loads((tmp_path / "predictions_score.json").read_text()) == scores


def test_metrics_are_those_of_this_package_even_without_pandas(
    folder: Path, oracle: SimpleNamespace, run_alone: Callable[..., Any], tmp_path: Path
) -> None:
    files, own = [], []
    for name, table in tables(folder).items():
        records = [json.loads(record) for record in table["record"]]
        table["prediction"] = [oracle.babble(r, seed=2) for r in records]
        own.append(oracle.expected(records, list(table["prediction"])))
        files.append(save(table, tmp_path / f"{name}.json"))
    code = "import actdeny_vlmevalkit as a\nprint(json.dumps([a.score_file(path) for path in VALUE]))"
    assert run_alone(folder, code, files) == [pytest.approx(values, abs=1e-12) for values in own]


def test_responses_that_were_not_had_are_errors(folder: Path, tmp_path: Path, exported: ModuleType) -> None:
    table = tables(folder)["ActDeny_standard_plain"]
    table["prediction"] = "Failed to obtain answer via API."
    scores = exported.score_file(save(table, tmp_path / "p.json"))
    assert scores["error"] == len(table) and scores["overall"] == scores["unparsed"] == 0


def test_datasets_are_the_tables_with_frames_or_without(exported: ModuleType) -> None:
    names = exported.ActDeny.supported_datasets()
    assert {"ActDeny_standard_plain", "ActDeny_standard_plain_12frame", "ActDeny_standard_letters_plain"} < set(names)
    assert len(names) == 15 * 8


class Base:
    """What the class needs of VLMEvalKit's own, which is not installed here."""

    def __init__(self, dataset: str, nframe: int = 0, fps: float = -1) -> None:
        self.dataset_name, self.nframe, self.fps = dataset, nframe, fps
        found = self.prepare_dataset(dataset)  # type: ignore[attr-defined]
        self.data_root, self.data = found["root"], pandas.read_csv(found["data_file"], sep="\t")


class VideoReader:
    """A video of 30 frames at 10 frames per second; frame i is an image of the colour i."""

    def __init__(self, path: str) -> None:
        assert Path(path).is_file()

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> SimpleNamespace:
        return SimpleNamespace(asnumpy=lambda: np.full((4, 4, 3), index, dtype=np.uint8))

    def get_avg_fps(self) -> float:
        return 10.0


@pytest.fixture
def dataset(folder: Path, video_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Make the class as VLMEvalKit does: ``dataset("ActDeny_standard_plain_12frame")``."""
    monkeypatch.setitem(sys.modules, "vlmeval", ModuleType("vlmeval"))
    monkeypatch.setitem(sys.modules, "vlmeval.dataset", ModuleType("vlmeval.dataset"))
    monkeypatch.setitem(sys.modules, "vlmeval.dataset.video_base", SimpleNamespace(VideoBaseDataset=Base))
    monkeypatch.setitem(sys.modules, "decord", SimpleNamespace(VideoReader=VideoReader))
    monkeypatch.setenv("ACTDENY_VIDEO_ROOT", str(video_root))

    def make(name: str) -> Any:
        made = load(folder).ActDeny(name)
        made.frame_root = str(tmp_path / "frames")
        return made

    return make


def test_models_see_the_video_or_the_frames_of_the_released_evaluation(
    dataset: Callable[..., Any], video_root: Path, questions: list[Question], exported: ModuleType
) -> None:
    made = dataset("ActDeny_standard_plain_12frame")
    assert made.dataset_name == "ActDeny_standard_plain_12frame"
    video, text = made.build_prompt(np.int64(3), video_llm=True)
    assert video == {"type": "video", "value": str(video_root / made.data["video"][3])}
    assert text == {"type": "text", "value": exported.text_of(made.data.iloc[3])}
    *images, text_again = made.build_prompt(made.data.iloc[3], video_llm=False)
    assert text_again == text
    colours = [int(np.asarray(Image.open(image["value"]))[0, 0, 0]) for image in images]
    assert colours == Middle(12).choose(30, np.arange(30.0)).tolist()
    assert len(dataset("ActDeny_standard_plain_64frame").build_prompt(3, video_llm=False)) == 30 + 1
    with pytest.raises(ValueError, match=r"sees images, not videos: name a number of frames, as in --data ..._12frame"):
        dataset("ActDeny_standard_plain").build_prompt(3, video_llm=False)


def test_a_replaced_video_has_new_frames(dataset: Callable[..., Any], video_root: Path) -> None:
    made = dataset("ActDeny_standard_plain_4frame")
    before = made.build_prompt(0, video_llm=False)[:-1]
    os.utime(video_root / made.data["video"][0], ns=(1, 1))
    after = made.build_prompt(0, video_llm=False)[:-1]
    assert len(before) == len(after) == 4 and not [image for image in before if image in after]


def test_the_video_root_must_be_named(dataset: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACTDENY_VIDEO_ROOT")
    with pytest.raises(
        FileNotFoundError, match=r"Set the environment variable ACTDENY_VIDEO_ROOT \(now ''\) to the folder"
    ):
        dataset("ActDeny_standard_plain")


def save(table: pandas.DataFrame, path: Path) -> str:
    """Write predictions as VLMEvalKit's ``dump`` does."""
    if path.suffix == ".json":
        path.write_text(json.dumps(table.to_dict("records"), indent=4, ensure_ascii=False), encoding="utf-8")
    else:
        table.to_csv(path, sep="\t", index=False, encoding="utf-8", quoting=csv.QUOTE_ALL)
    return str(path)


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1) | st.sampled_from(
    [
        "None",
        "nan",
        "NA",
        "n/a",
        " None",
        "7",
        "1e5",
        "True",
        '"',
        "\t",
        "a\tb",
        "a\nb",
        "a\r\nb",
        '"a"',
        "'a",
        "=1+1",
        "#a",
        "a\\",
    ]
)


@given(st.lists(WORDS, min_size=2, max_size=20, unique=True).map(tuple))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_choices_come_back_or_are_refused(
    tmp_path_factory: pytest.TempPathFactory, choices: tuple[str, ...]
) -> None:
    out = tmp_path_factory.mktemp("any")
    question = ask(choices)
    try:
        (folder,) = export_benchmark([CLIP], [question], out, formats=["vlmevalkit"])
    except DataError:
        assert list(out.iterdir()) == []
        return
    (table,) = tables(folder).values()
    assert [table[letter][0] for letter in string.ascii_uppercase[: len(choices)]] == list(choices)
    assert json.loads(table["record"][0])["choices"] == list(choices)


@pytest.mark.parametrize("lost", ["None", "nan", "N/A", "null", " NA "])
def test_a_choice_that_pandas_takes_for_missing_is_refused(lost: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        export_benchmark([CLIP], [ask(("running", lost))], tmp_path, formats=["vlmevalkit"])
    assert str(error.value) == (
        f"Question 'c|standard|own|0' has a cell {lost!r}, which pandas, and so VLMEvalKit, takes for missing. Write it in more words, "
        'e.g. "None of the choices accurately describes this video.", or export to another format.'
    )


@pytest.mark.parametrize(("choice", "column"), [("7", "A"), ("1e5", "A"), ("true", "A")])
def test_a_column_that_pandas_would_retype_is_refused(choice: str, column: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=f"Every cell of column '{column}' of 'standard' under 'own' looks like a number"
    ):
        export_benchmark([CLIP], [ask((choice, "b"))], tmp_path, formats=["vlmevalkit"])


def test_own_prompts_must_not_speak_of_numbers(tmp_path: Path) -> None:
    labels = load_ucf101()
    for text, refused in (("Say the number.", True), ("Say which.", False), ("Give the choice number.", False)):
        (tmp_path / "mine.txt").write_text(text)
        question = Standard(prompt=PromptFile(str(tmp_path / "mine.txt"))).ask(CLIP, labels, seed=0)
        out = tmp_path / text.split()[-1]
        if refused:
            with pytest.raises(
                DataError, match="Prompt 'mine' speaks of a number, but VLMEvalKit's choices have letters"
            ):
                export_benchmark([CLIP], [question], out, formats=["vlmevalkit"])
        else:
            (folder,) = export_benchmark([CLIP], [question], out, formats=["vlmevalkit"])
            (table,) = tables(folder).values()
            assert table["question"][0] == text.replace("number", "letter") + "\n"
        tmp_path.joinpath("mine.txt").unlink()
        PromptFile.__init__.__globals__["_read_prompt"].cache_clear()


def test_choices_must_end_the_text(tmp_path: Path) -> None:
    question = ask(("run", "row"))
    odd = Question(**{f: getattr(question, f) for f in question.__slots__} | {"text": "run or row?"})
    with pytest.raises(DataError, match="does not end with its choices, one a line"):
        export_benchmark([CLIP], [odd], tmp_path, formats=["vlmevalkit"])
