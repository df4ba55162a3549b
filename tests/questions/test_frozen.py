"""Frozen questions: what is written is read back, and what is not a question is refused with its place."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.errors import DataError
from actdeny_train.questions.explicit_denial import ExplicitDenial
from actdeny_train.questions.frozen import FrozenQuestions, read_questions, write_questions
from actdeny_train.questions.graph_vqa import GraphQuestions
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.prompts import CausalAct
from actdeny_train.questions.yes_no import YesNoPrimary
from actdeny_train.types import Clip, ClipKind, Question

LABELS = load_ucf101()


def clips(num: int = 5) -> list[Clip]:
    return [
        Clip(id=f"c{i}", path="a.mp4", action="Archery", kind=ClipKind.CONTEXT_ONLY, split="test", source="g01")
        for i in range(num)
    ]


def asked(num_clips: int = 5) -> list[Question]:
    sources = (Standard(), Standard(CausalAct()), ExplicitDenial(), YesNoPrimary(), YesNoPrimary(CausalAct()))
    made = [source.ask(clip, LABELS, seed=0) for clip in clips(num_clips) for source in sources]
    return made + [GraphQuestions().ask(clip, LABELS, seed=0, index=i) for clip in clips(num_clips) for i in range(14)]


def test_questions_are_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "below" / "questions.jsonl"
    write_questions(path, asked())
    assert read_questions(path) == asked()
    first = path.read_bytes()
    write_questions(path, read_questions(path))
    assert path.read_bytes() == first


def test_long_prompts_are_written_once(tmp_path: Path) -> None:
    write_questions(tmp_path / "q.jsonl", asked(40))
    opening = "You will be given a set of observed components"
    assert (tmp_path / "q.jsonl").read_text(encoding="utf-8").count(opening) == 2  # standard and yes_no_primary


@given(st.lists(st.text(min_size=1), min_size=2, max_size=5, unique=True), st.text(), st.integers(1, 3))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, choices: list[str], text: str, num: int) -> None:
    try:
        "".join([*choices, text]).encode()
    except UnicodeEncodeError:
        return
    question = Question(
        id="q0",
        clip_ids=("c",),
        setup="s",
        prompt="p",
        text=text,
        choices=tuple(choices),
        answers=tuple(choices),
        target=1,
        kind="k",
        group="g",
    )
    made = [dataclasses.replace(question, id=f"q{i}", text=text + "\n" * i) for i in range(num)]
    path = tmp_path_factory.mktemp("frozen") / "q.jsonl"
    write_questions(path, made)
    assert read_questions(path) == made


def test_frozen_questions_ask_what_stands_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    write_questions(path, asked())
    source = FrozenQuestions(str(path), "standard", "causalact")
    clip = clips()[2]
    assert source.ask(clip, LABELS, seed=9) == Standard(CausalAct()).ask(clip, LABELS, seed=0)
    graph = FrozenQuestions(str(path), "graph_vqa", "plain")
    assert graph.ask(clip, LABELS, seed=9, index=13) == GraphQuestions().ask(clip, LABELS, seed=0, index=13)
    with pytest.raises(DataError) as error:
        FrozenQuestions(str(path), "standrd").ask(clip, LABELS, seed=0)
    assert str(error.value) == (
        f"{path} has 0 questions about clip 'c2' in setup / prompt 'standrd / plain', but number 1 is asked for. The file has: "
        "explicit_denial / plain, graph_vqa / plain, standard / causalact, standard / plain, yes_no_primary / causalact, yes_no_primary / "
        "plain. Did you mean 'standard / plain' or 'standard / causalact'? Freeze the questions of all these clips, or name another setup "
        "and prompt."
    )
    with pytest.raises(DataError, match=r"has 14 questions about clip 'c2' .* but number 15 is asked for"):
        graph.ask(clip, LABELS, seed=0, index=14)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"target": 11}, "index 11 of 11 choices"),
        ({"choices": ["a", 3]}, "choices must hold str values alone"),
        ({"text": 4}, "can only concatenate str"),
        ({"extra": 1}, "unexpected keyword argument 'extra'"),
        ({"opening": "elsewhere"}, "elsewhere"),
        ({"kind": None}, "kind must be a string"),
    ],
)
def test_lines_that_are_no_questions(tmp_path: Path, change: dict[str, object], text: str) -> None:
    path = tmp_path / "q.jsonl"
    write_questions(path, asked(2)[:10])
    lines = path.read_text(encoding="utf-8").splitlines()
    spoiled = json.loads(lines[-5])
    lines[-5] = json.dumps({**spoiled, **change})
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DataError) as error:
        read_questions(path)
    assert str(error.value).startswith(f"{path}:{len(lines) - 4} is not a question (") and text in str(error.value)


def test_repeated_ids_and_missing_files(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    write_questions(path, asked(2)[:1])
    path.write_text(path.read_text() * 2)
    with pytest.raises(DataError, match=rf"{path}:2 has the id 'c0\|standard\|plain\|0' of an earlier question"):
        read_questions(path)
    with pytest.raises(DataError, match=r"There is no file of questions at .* --freeze FILE"):
        read_questions(tmp_path / "none.jsonl")
