"""Which responses are an answer and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.evaluation.bare import is_bare
from actdeny_train.evaluation.parsing import Parsed, parse_response
from actdeny_train.types import ParseStatus

ANSWERS = tuple("ABC")


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("A", True),
        (" b.\n", True),
        ("<think>It is A or B.</think>\n\nC", True),
        ("<think>It is A", False),
        ("Answer: A", False),
        ("**A**", False),
        ("A..", False),
        ("A B", False),
        ("D", False),
        ("", False),
        (".", False),
        ("I cannot tell.", False),
    ],
)
def test_cases(text: str, bare: bool) -> None:
    assert is_bare(text, ANSWERS) is bare


def test_words_in_any_case() -> None:
    assert (
        is_bare("Yes.", ("yes", "no")) and is_bare("NO", ("yes", "no")) and not is_bare("Yes, he does.", ("yes", "no"))
    )


@given(num=st.integers(3, 20), data=st.data())
def test_the_parser_reads_every_bare_answer(num: int, data: st.DataObject) -> None:
    answers = tuple(map(str, range(1, num + 1)))
    place = data.draw(st.integers(0, num - 1))
    text = data.draw(st.sampled_from(["{}", " {}\n", "{}.", "<think>no</think>{}"])).format(answers[place])
    assert is_bare(text, answers)
    choices = tuple(f"A person does thing {chr(97 + i)}." for i in range(num))
    assert parse_response(text, choices, answers) == Parsed(place, ParseStatus.OK)
