"""Is a response an answer and nothing else? Strict parsing asks no more."""

from collections.abc import Sequence

from actdeny_train.evaluation.parsing import without_reasoning


def is_bare(text: str, answers: Sequence[str]) -> bool:
    """Return True if ``text`` is one of ``answers`` alone.

    Reasoning blocks (an open one makes it False), white space around, one full stop behind and capital letters are no matter:
    "<think>...</think> 3", "3." and "Yes" are bare, "Answer: 3" and "**3**" are not.
    """
    visible = without_reasoning(text)
    return visible is not None and visible.strip().removesuffix(".").casefold() in {a.casefold() for a in answers}
