import ast
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.evaluation import parsing
from actdeny_train.evaluation.parsing import Parsed, parse, parse_response
from actdeny_train.types import ParseStatus, Question

NONE = "None of the choices accurately describes this video."
DENIAL = (
    "Though the scene may contain cues (objects, environment) for playing the cello, the person is not actually doing that and "
    "instead performing a similar motion."
)
ACTIONS = (
    "playing the cello",
    "doing push ups",
    "doing push ups against a wall",
    "engaged in the sport of fencing, using specialized swords, and following formal fencing rules and techniques",
    "playing drums",
    "knitting",
    "cutting hair",
    "rowing a boat",
    "applying makeup to their eyes",
    "juggling balls",
    "jumping rope",
    "playing sitar",
    "typing on a keyboard",
    "diving into water",
    "riding a horse",
    "walking with a dog",
    "surfing on a wave",
    "mopping the floor",
    "throwing a discus",
)
CAPTIONS = tuple(f"A person or group of people is {action}." for action in ACTIONS)
LETTERS = "ABCDEFGHIJKLMNOPQRST"
HERE = Path(__file__).parent
CORPUS: list[dict[str, Any]] = yaml.safe_load((HERE / "parsing_corpus.yaml").read_text(encoding="utf-8"))
FRAMES: list[str] = yaml.safe_load((HERE / "parsing_frames.yaml").read_text(encoding="utf-8"))
REPLIES = [(group, *row) for group in CORPUS for row in group["rows"]]


def labels(style: str, num: int) -> tuple[str, ...]:
    return tuple(str(i + 1) if style == "numbers" else LETTERS[i] for i in range(num))


def asked(name: str) -> dict[str, Any]:
    """Return choices, answers and the none choice of a kind of question that the corpus names."""
    fixed = {
        "yes_no": ("yes", "no"),
        "open": ("I", "I, O", "P→I→A", "P→S→A; P→I→A"),
        "counts": tuple(str(n) for n in range(11)),
    }
    if name in fixed:
        return {"choices": fixed[name], "answers": fixed[name], "none_choice": None}
    style, num = name.rsplit("_", 1)
    statement = DENIAL if style == "denial" else NONE
    choices = (*CAPTIONS[: int(num) - 1], statement)
    answers = labels("letters" if style == "letters" else "numbers", int(num))
    return {"choices": choices, "answers": answers, "none_choice": int(num) - 1}


def said(parsed: Parsed, answers: tuple[str, ...]) -> str:
    return str(parsed.status) if parsed.choice is None else answers[parsed.choice]


# The corpus


@pytest.mark.parametrize(
    "group, text, want, cut",
    [(g, *row, *[""] * (3 - len(row))) for g, *row in REPLIES],
    ids=lambda value: repr(value)[:60],
)
def test_every_response_of_the_corpus_is_read_as_a_person_would(group: dict, text: str, want: Any, cut: str) -> None:
    question = asked(group["asked"])
    parsed = parse_response(text, **question, finished=not cut)
    assert said(parsed, question["answers"]) == str(want), group["why"]


def test_the_corpus_covers_every_known_fault_and_both_styles() -> None:
    assert {group.get("row") for group in CORPUS} >= set(range(1, 21))
    assert {group["asked"] for group in CORPUS} >= {f"{s}_{n}" for s in ("letters", "numbers") for n in (4, 11, 20)}


def first_capital(text: str) -> str:
    return next((c for c in text if c in LETTERS), "unparsed")


def contains_no(text: str) -> str:
    return "no" if "no" in text.lower() else "yes"


def begins_with_no(text: str) -> str:
    return "no" if text.lower().startswith("no") else "yes"


def first_number(text: str) -> str:
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    return digits[0] if digits else "unparsed"


def whole_response(text: str) -> str:
    return text.strip()


@pytest.mark.parametrize(
    "rule, rows",
    [
        (first_capital, (3, 6, 7, 8, 9, 12)),
        (contains_no, (5, 14)),
        (begins_with_no, (5,)),
        (first_number, (10, 16, 18, 20)),
        (whole_response, (4, 11, 13, 14)),
    ],
)
def test_the_corpus_tells_the_rules_of_others_apart(rule: Any, rows: tuple[int, ...]) -> None:
    """Each rule misreads a response of every row whose fault it caused elsewhere, or the row would prove nothing."""
    for row in rows:
        replies = [(text, str(want)) for group, text, want, *_ in REPLIES if group.get("row") == row]
        assert any(rule(text) != want for text, want in replies), row


# Laws


@pytest.mark.parametrize("style", ["numbers", "letters"])
@pytest.mark.parametrize("frame", FRAMES)
def test_every_label_of_every_number_of_choices_is_read_in_every_frame(style: str, frame: str) -> None:
    for num in (3, 4, 7, 11, 20):
        question = asked(f"{style}_{num}")
        for i, label in enumerate(question["answers"]):
            text = frame.format(label).replace("<caption>", question["choices"][i])
            assert parse_response(text, **question) == Parsed(i, ParseStatus.OK), text


@pytest.mark.parametrize("frame", [frame for frame in FRAMES if "<caption>" in frame])
def test_a_label_with_the_caption_of_another_choice_is_no_answer(frame: str) -> None:
    for name in ("numbers_11", "letters_11"):
        question = asked(name)
        for i, label in enumerate(question["answers"]):
            for other in range(11):
                text = frame.format(label).replace("<caption>", question["choices"][other])
                assert (parse_response(text, **question).choice == i) == (i == other), text


@given(
    st.permutations(range(11)), st.integers(0, 10), st.sampled_from(["{}", "Answer: {}", '"{}"', "<answer>{}</answer>"])
)
@settings(max_examples=60, deadline=None)
def test_permuting_the_choices_permutes_what_a_caption_means(order: list[int], i: int, frame: str) -> None:
    choices = asked("numbers_11")["choices"]
    shuffled = tuple(choices[place] for place in order)
    parsed = parse_response(frame.format(choices[i]), shuffled, labels("numbers", 11))
    assert parsed == Parsed(order.index(i), ParseStatus.OK)


TAGS = ("<think>", "</think>", "<reasoning>", "</thinking>")
PIECES = (
    *(
        "1",
        "3",
        "11",
        "12",
        "A",
        "I",
        "K",
        "a",
        "yes",
        "no",
        "No",
        "None",
        "none of the above",
        "2 people",
        "not",
        "or",
        "and",
        ",",
    ),
    *(
        ".",
        "?",
        ":",
        "(",
        ")",
        "**",
        "\n",
        "...",
        " ",
        '"',
        "\\boxed{",
        "}",
        "$",
        "<answer>",
        "</answer>",
        "<|im_end|>",
        "</s>",
    ),
    *(
        "Answer:",
        "The answer is",
        "option",
        "I think",
        "so",
        "wait,",
        "because",
        "If",
        "I cannot determine",
        "is correct",
        "is wrong",
    ),
    *(
        CAPTIONS[0],
        CAPTIONS[1],
        CAPTIONS[2],
        NONE,
        "A person or group",
        "１",
        "½",
        "\u200b",
        "\ud800",
        "→",
        "I, O",
        "P→I→A",
    ),
)
NAMES = ("numbers_3", "numbers_11", "letters_11", "letters_20", "yes_no", "open", "counts", "denial_11")
REPLY = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=9).map(" ".join))


@given(
    st.one_of(REPLY, st.lists(st.sampled_from((*PIECES, *TAGS)), max_size=9).map("".join)),
    st.sampled_from(NAMES),
    st.booleans(),
)
@settings(max_examples=600, deadline=None)
def test_any_text_is_read_without_error_and_a_choice_stands_for_ok_alone(text: str, name: str, finished: bool) -> None:
    question = asked(name)
    parsed = parse_response(text, **question, finished=finished)
    assert (parsed.choice is not None) == (parsed.status is ParseStatus.OK)
    assert parsed.choice is None or 0 <= parsed.choice < len(question["choices"])
    assert parsed.status is not ParseStatus.ERROR
    assert (
        finished or parsed.status in (ParseStatus.OK, ParseStatus.TRUNCATED) or "<|im_end|>" in text or "</s>" in text
    )


@given(REPLY, st.lists(st.text(max_size=20), min_size=2, max_size=6, unique=True), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_choices_are_read_without_error(text: str, choices: list[str], own_words: bool) -> None:
    answers = [f"{choice}." for choice in choices] if own_words else [str(i + 1) for i in range(len(choices))]
    parsed = parse_response(text, choices, answers)
    assert (parsed.choice is not None) == (parsed.status is ParseStatus.OK)


@given(REPLY, REPLY, st.sampled_from(["think", "thinking", "reasoning", "THINK"]), st.sampled_from(NAMES))
@settings(max_examples=400, deadline=None)
def test_what_reasoning_says_changes_nothing(reasoning: str, reply: str, tag: str, name: str) -> None:
    question = asked(name)
    alone = parse_response(reply, **question)
    assert parse_response(f"<{tag}>{reasoning}</{tag}>{reply}", **question) == alone
    assert parse_response(f"{reasoning}</{tag}>{reply}", **question) == alone
    assert parse_response(f"<{tag}>{reasoning}", **question) == Parsed(None, ParseStatus.TRUNCATED)


@given(REPLY, st.text(alphabet=" \n\t\u200b\u3000", max_size=5), st.sampled_from(NAMES), st.booleans())
@settings(max_examples=300, deadline=None)
def test_blanks_around_a_response_change_nothing(reply: str, blanks: str, name: str, finished: bool) -> None:
    question = asked(name)
    alone = parse_response(reply, **question, finished=finished)
    assert parse_response(reply + blanks, **question, finished=finished) == alone
    assert parse_response(blanks + reply, **question, finished=finished) == alone


NASTY = (
    "a",
    "(",
    "answer is ",
    "answer to the ",
    "None of the ",
    ". ",
    "!?",
    "1.\n",
    "3, ",
    "no ",
    "\\boxed{",
    "<think></think>",
    "<|",
)


@pytest.mark.parametrize("unit", NASTY)
def test_long_responses_take_time_in_proportion(unit: str) -> None:
    """Quadratic rules need minutes for these 100,000 characters, linear ones two seconds at most."""
    question = asked("letters_11")
    began = time.process_time()
    parse_response(unit * (100_000 // len(unit)) + "x", **question, finished=False)
    assert time.process_time() - began < 20


# What "None" means


def test_none_means_the_denial_statement_where_that_is_the_none_choice() -> None:
    question = asked("denial_11")
    for text in ("None", "None of the above.", DENIAL, f"11. {DENIAL}", "11", f"Answer: 11. {DENIAL}"):
        assert parse_response(text, **question).choice == 10, text
    assert parse_response("None", question["choices"], question["answers"]) == Parsed(None, ParseStatus.UNPARSED)


def test_none_means_the_choice_that_says_so_where_no_place_is_given() -> None:
    choices = (CAPTIONS[0], NONE, CAPTIONS[1])
    assert parse_response("None of the above", choices, ("1", "2", "3")).choice == 1
    assert parse_response("None of the above", (NONE, "None", "x"), ("1", "2", "3")).choice is None


def test_equal_captions_name_no_choice() -> None:
    assert parse_response("A cat.", ("A cat.", "a cat", "A dog."), ("1", "2", "3")) == Parsed(
        None, ParseStatus.UNPARSED
    )
    assert parse_response("2. A cat.", ("A cat.", "a cat", "A dog."), ("1", "2", "3")).choice == 1


def test_a_caption_that_begins_like_a_label_is_read_whole() -> None:
    choices = ("He stands.", "A. Rossi opens the door.", "3 boys run.")
    for answers in (("1", "2", "3"), ("A", "B", "C")):
        for i, caption in enumerate(choices):
            for text in (caption, f"Answer: {caption}", f"{caption} {answers[i]}", f"{answers[i]}. {caption}"):
                assert parse_response(text, choices, answers) == Parsed(i, ParseStatus.OK), text


def test_a_label_is_read_before_a_caption_of_the_same_text() -> None:
    assert parse_response("3", ("2", "3", "4"), ("1", "2", "3")).choice == 2


def test_parse_reads_the_choices_and_the_none_choice_of_a_question() -> None:
    question = Question(
        id="v|explicit_denial|plain|0",
        clip_ids=("v",),
        setup="explicit_denial",
        prompt="plain",
        text="Which?",
        choices=(*CAPTIONS[:3], DENIAL),
        answers=labels("letters", 4),
        target=3,
        kind="context_only",
        group="g",
        primary_distractor=0,
        none_choice=3,
    )
    assert parse("None of the above.", question) == Parsed(3, ParseStatus.OK)
    assert parse("Answer: B", question) == Parsed(1, ParseStatus.OK)
    assert parse("The person", question, finished=False) == Parsed(None, ParseStatus.TRUNCATED)


# The copy in an exported task


def test_the_module_works_alone_once_the_one_line_that_imports_the_statuses_is_replaced() -> None:
    line = "from actdeny_train.types import ParseStatus\n"
    source = Path(str(parsing.__file__)).read_text(encoding="utf-8")
    assert source.count(line) == 1
    names: dict[str, Any] = {"__name__": "alone"}
    statuses = "import enum\nParseStatus = enum.StrEnum('ParseStatus', ['OK', 'UNPARSED', 'REFUSAL', 'TRUNCATED'])\n"
    sys.modules["alone"] = type(sys)("alone")
    try:
        exec(source.replace(line, statuses), names)
    finally:
        del sys.modules["alone"]
    assert names["parse_response"]("Answer: K", **asked("letters_11")).choice == 10
    imported = {n.module for n in ast.parse(source).body if isinstance(n, ast.ImportFrom)}
    imported |= {a.name for n in ast.parse(source).body if isinstance(n, ast.Import) for a in n.names}
    assert imported - set(sys.stdlib_module_names) <= {"actdeny_train.types", "collections.abc"}
