import dataclasses
import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.mcq import FourChoices, Standard, draw_distractors, shuffle
from actdeny_train.questions.prompts import CausalAct, answer_labels
from actdeny_train.types import Clip, ClipKind

NONE = "None of the choices accurately describes this video."
KINDS = st.sampled_from(list(ClipKind))


def make_clip(kind: ClipKind = ClipKind.PRESENCE, action: str = "Archery", id: str = "clip") -> Clip:
    return Clip(id=id, path="a.mp4", action=action, kind=kind, split="test", source="g01")


def make_labels(num: int, close: tuple[str, ...] = ()) -> LabelSet:
    """Actions a0, a1, ...; only a0 has close ones."""
    actions = [f"a{i}" for i in range(num)]
    return LabelSet(
        name="small",
        descriptions={a: f"A person or group of people is doing {a}." for a in actions},
        components={},
        close={a: close if a == "a0" else () for a in actions},
        without_object=frozenset(),
    )


@given(KINDS, st.integers(0, 50), st.integers(0, 5), st.sampled_from(load_ucf101().actions))
def test_standard_question_of_the_benchmark(kind: ClipKind, seed: int, index: int, action: str) -> None:
    labels = load_ucf101()
    clip = make_clip(kind, action)
    question = Standard().ask(clip, labels, seed=seed, index=index)
    by_description = {labels.description(a): a for a in labels.actions}
    assert len(set(question.choices)) == 11
    assert question.answers == ("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11")
    assert question.none_choice is not None and question.choices[question.none_choice] == NONE
    shown = {by_description[c] for c in question.choices if c != NONE}
    assert action in shown and len(shown) == 10
    if kind is ClipKind.PRESENCE:
        assert question.choices[question.target] == labels.description(action)
        assert question.primary_distractor is None
        assert shown - {action} <= set(labels.close[action]), "ten close actions are listed for every class"
    else:
        assert question.target == question.none_choice
        assert question.primary_distractor is not None
        assert question.choices[question.primary_distractor] == labels.description(action)
        assert not shown & set(labels.close[action])
    assert (question.kind, question.group, question.clip_ids) == (kind.value, "g01", ("clip",))
    assert question.id == f"clip|standard|plain|{index}"
    block = question.text.removeprefix(Standard().prompt.render())
    assert block == "\n".join(f"{i + 1}. {c}" for i, c in enumerate(question.choices))


def test_permutation_leads_back_to_the_order_before_shuffling() -> None:
    labels = load_ucf101()
    question = Standard().ask(make_clip(), labels, seed=0)
    ordered = dict(zip(question.permutation, question.choices, strict=True))
    assert ordered[0] == labels.description("Archery") and ordered[10] == NONE
    assert sorted(ordered) == list(range(11))


def test_choices_do_not_depend_on_the_prompt_but_on_clip_seed_and_index() -> None:
    labels, clip = load_ucf101(), make_clip(ClipKind.CONTEXT_ONLY)
    plain = Standard().ask(clip, labels, seed=0)
    causal = Standard(CausalAct()).ask(clip, labels, seed=0)
    assert (plain.choices, plain.target) == (causal.choices, causal.target)
    assert causal.prompt == "causalact" and causal.text != plain.text
    others = [
        Standard().ask(clip, labels, seed=1),
        Standard().ask(clip, labels, seed=0, index=1),
        Standard().ask(dataclasses.replace(clip, id="other"), labels, seed=0),
    ]
    assert all(other.choices != plain.choices for other in others)
    assert Standard().ask(clip, labels, seed=0) == plain


def test_none_choice_stands_at_every_position_equally_often() -> None:
    labels = load_ucf101()
    clips = [make_clip(ClipKind.DENIAL, id=f"c{i}") for i in range(2200)]
    places = Counter(Standard().ask(clip, labels, seed=0).none_choice for clip in clips)
    expected = 200
    chi_square = sum((places[i] - expected) ** 2 / expected for i in range(11))
    assert chi_square < 29.6, "p = .001 at 10 degrees of freedom"


@given(st.integers(3, 20), st.integers(0, 50), KINDS)
def test_over_as_many_indices_as_choices_the_none_choice_stands_once_at_each_place(
    n: int, seed: int, kind: ClipKind
) -> None:
    source = Standard(num_choices=n)
    places = [source.ask(make_clip(kind), load_ucf101(), seed=seed, index=i).none_choice for i in range(2 * n)]
    assert sorted(p for p in places[:n] if p is not None) == list(range(n))
    assert places[n:] == places[:n]


def test_the_place_of_the_action_is_uniform_too() -> None:
    labels = load_ucf101()
    clips = [make_clip(id=f"c{i}") for i in range(2200)]
    places = Counter(Standard().ask(clip, labels, seed=0).target for clip in clips)
    assert sum((places[i] - 200) ** 2 / 200 for i in range(11)) < 29.6, "p = .001 at 10 degrees of freedom"


def test_small_set_fills_up_behind_the_preferred_actions() -> None:
    labels = make_labels(6, close=("a1", "a2"))
    for seed in range(20):
        presence = draw_distractors(make_clip(action="a0"), labels, 4, Draw(seed))
        assert set(presence[:2]) == {"a1", "a2"} and set(presence[2:]) <= {"a3", "a4", "a5"}
        denial = draw_distractors(make_clip(ClipKind.DENIAL, action="a0"), labels, 4, Draw(seed))
        assert set(denial[:3]) == {"a3", "a4", "a5"} and denial[3] in ("a1", "a2")


def test_equal_descriptions_never_meet_in_one_question() -> None:
    labels = make_labels(4)
    twins = dataclasses.replace(labels, descriptions={**labels.descriptions, "a2": labels.descriptions["a1"]})
    assert set(draw_distractors(make_clip(action="a0"), twins, 2, Draw(0))) in ({"a1", "a3"}, {"a2", "a3"})
    assert draw_distractors(make_clip(action="a1"), twins, 2, Draw(0)) in (["a0", "a3"], ["a3", "a0"])


def test_too_few_actions() -> None:
    with pytest.raises(DataError) as error:
        Standard().ask(make_clip(action="a0"), make_labels(5), seed=0)
    assert str(error.value) == (
        "Clip 'clip' needs 9 distractors, but label set 'small' has 4 actions besides 'a0' with a description of their own. Ask with 5 "
        "choices fewer, or use a label set with more actions."
    )
    assert len(Standard(num_choices=6).ask(make_clip(action="a0"), make_labels(5), seed=0).choices) == 6


def test_unknown_action_names_the_clip_and_near_misses() -> None:
    with pytest.raises(DataError, match=r"Unknown action 'Archry' in clip 'clip'.*Did you mean 'Archery'"):
        Standard().ask(make_clip(action="Archry"), load_ucf101(), seed=0)


@pytest.mark.parametrize("num", [2, 21])
def test_numbers_of_choices_that_are_not_allowed(num: int) -> None:
    with pytest.raises(ConfigError) as error:
        Standard(num_choices=num)
    assert str(error.value) == (
        f"num_choices of a Standard question is {num}, but must be from 3 (the clip's action, one distractor and the none choice) to 20. "
        "The benchmark uses 11."
    )


def test_letters_change_the_labels_alone() -> None:
    labels, clip = load_ucf101(), make_clip(ClipKind.CONTEXT_ONLY)
    numbered = Standard(num_choices=20).ask(clip, labels, seed=0)
    lettered = Standard(num_choices=20, labelled="letters").ask(clip, labels, seed=0)
    assert (numbered.setup, lettered.setup) == ("standard_20", "standard_20_letters")
    assert (lettered.choices, lettered.target) == (numbered.choices, numbered.target)
    assert lettered.answers == tuple("ABCDEFGHIJKLMNOPQRST")
    assert lettered.text.endswith(
        "\n".join(f"{x}. {c}" for x, c in zip(lettered.answers, lettered.choices, strict=True))
    )
    assert "Reply with the choice letter only." in lettered.text and "number" not in lettered.text
    assert "number" not in Standard(CausalAct(), labelled="letters").ask(clip, labels, seed=0).text


def test_four_choices_are_a_part_of_the_eleven() -> None:
    labels, clip = load_ucf101(), make_clip(ClipKind.CONTEXT_ONLY)
    four = FourChoices().ask(clip, labels, seed=0)
    assert four.setup == "four_choices" and len(four.choices) == 4
    assert set(four.choices) < set(Standard().ask(clip, labels, seed=0).choices)
    assert four.primary_distractor is not None and four.choices[four.primary_distractor] == labels.description(
        "Archery"
    )
    assert four.target == four.none_choice


@given(st.lists(st.text(), max_size=12), st.integers())
def test_shuffle_tells_where_each_choice_came_from(choices: list[str], seed: int) -> None:
    shuffled, permutation = shuffle(choices, Draw(seed))
    assert [choices[place] for place in permutation] == list(shuffled)
    assert sorted(permutation) == list(range(len(choices)))


def test_answer_labels() -> None:
    assert answer_labels(3) == ("1", "2", "3")
    assert answer_labels(3, "letters") == ("A", "B", "C")


@pytest.mark.parametrize("kind", ClipKind)
def test_rotations_put_every_choice_at_every_place_once(kind: ClipKind) -> None:
    clip, labels = make_clip(kind), load_ucf101()
    plain, turned = Standard(num_choices=7), Standard(num_choices=7, rotations=7)
    asked = [turned.ask(clip, labels, seed=1, index=i) for i in range(8)]
    first = plain.ask(clip, labels, seed=1)
    assert dataclasses.replace(asked[0], rotation_of="") == first and first.rotation_of == ""
    places = {choice: [q.choices.index(choice) for q in asked[:7]] for choice in first.choices}
    assert all(sorted(found) == list(range(7)) for found in places.values())
    assert all(b == (a + 1) % 7 for found in places.values() for a, b in itertools.pairwise(found))
    assert len({q.rotation_of for q in asked[:7]}) == 1 and asked[7].rotation_of != asked[0].rotation_of
    assert set(asked[7].choices) != set(first.choices)
    assert all(q.choices[q.target] == first.choices[first.target] and q.none_choice is not None for q in asked[:7])


def test_more_rotations_than_places_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"rotations of a Standard question is 8, but must be from 1 .* to num_choices = 7, beyond"
    ):
        Standard(num_choices=7, rotations=8)
