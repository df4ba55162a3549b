import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_something_v2
from actdeny_train.actions.templates import count_slots, fill, load_minimal_pairs, load_patterns
from actdeny_train.errors import DataError

LABELS = load_something_v2()


def test_patterns_are_the_descriptions_with_slots() -> None:
    assert tuple(load_patterns()) == LABELS.actions
    for action, pattern in load_patterns().items():
        assert pattern.replace("{", "").replace("}", "") == LABELS.phrase(action)


def test_nouns_fill_the_slots_in_order() -> None:
    assert fill(
        "Tipping something with something in it over, so something in it falls out", ["a cup", "tea", "the tea"]
    ) == ("A person or group of people is tipping over a cup with tea in it, so that the tea falls out.")
    assert fill("Stacking number of something", ["3", "books "]) == "A person or group of people is stacking 3 books."
    # A noun is put in as it is, whatever it looks like.
    assert fill("Holding something", [r"{0} \1 $x"]) == r"A person or group of people is holding {0} \1 $x."


@given(action=st.sampled_from(LABELS.actions), nouns=st.lists(st.text(), max_size=4))
def test_as_many_nouns_as_slots(action: str, nouns: list[str]) -> None:
    assert count_slots(action) in (0, 1, 2, 3)
    if len(nouns) == count_slots(action):
        assert all(noun.strip() in fill(action, nouns) for noun in nouns)
    else:
        with pytest.raises(DataError, match=r"placeholders, .* but its template .* slots"):
            fill(action, nouns)


def test_too_few_nouns() -> None:
    with pytest.raises(DataError) as error:
        fill("Holding something next to something", ["a cup"], "val.json, entry 3")
    assert str(error.value) == (
        "val.json, entry 3 has 1 placeholders, ['a cup'], but its template 'Holding something next to something' has 2 slots. Get the "
        "annotation file anew, or mend the row."
    )


def test_every_pretended_template_has_a_counterpart() -> None:
    pairs = load_minimal_pairs()
    assert len(set(pairs)) == len(pairs) and all(done != undone for done, undone in pairs)
    undone = {action for _, action in pairs}
    done = {action for action, _ in pairs}
    opened = [action for action in LABELS.actions if action.startswith(("Pretending", "Failing", "Trying"))]
    assert len(opened) == 26
    assert set(opened) <= undone and not set(opened) & done


def test_counterparts_are_close() -> None:
    for done, undone in load_minimal_pairs():
        assert undone in LABELS.close[done] and done in LABELS.close[undone]
