"""The setups beside the standard one: what they offer, what is right, and that they differ from it in one thing alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.errors import DataError
from actdeny_train.questions.explicit_denial import ExplicitDenial
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.primary_distractor_removed import PrimaryDistractorRemoved
from actdeny_train.questions.prompts import CausalAct
from actdeny_train.questions.source import clip_kinds_of
from actdeny_train.questions.yes_no import YesNoPrimary, YesNoRandom
from actdeny_train.types import Clip, ClipKind

LABELS = load_ucf101()
DENIAL = [kind for kind in ClipKind if kind.is_denial]
ACTIONS = st.sampled_from(LABELS.actions)


def make_clip(kind: ClipKind = ClipKind.CONTEXT_ONLY, action: str = "Archery") -> Clip:
    return Clip(id="clip", path="a.mp4", action=action, kind=kind, split="test", source="g01")


@given(st.sampled_from(list(ClipKind)), ACTIONS, st.integers(0, 20))
def test_explicit_denial_replaces_the_none_choice_alone(kind: ClipKind, action: str, index: int) -> None:
    clip = make_clip(kind, action)
    standard = Standard().ask(clip, LABELS, seed=0, index=index)
    explicit = ExplicitDenial().ask(clip, LABELS, seed=0, index=index)
    differing = [i for i in range(11) if standard.choices[i] != explicit.choices[i]]
    assert differing == [explicit.none_choice]
    assert explicit.choices[differing[0]] == (
        f"Though the scene may contain cues (objects, environment) for {LABELS.phrase(action)}, the person is not actually doing that and "
        "instead performing a similar motion."
    )
    assert (explicit.target, explicit.primary_distractor) == (standard.target, standard.primary_distractor)
    assert (explicit.setup, explicit.id) == ("explicit_denial", f"clip|explicit_denial|plain|{index}")


@given(st.sampled_from(DENIAL), ACTIONS, st.integers(0, 20))
def test_without_the_primary_distractor_one_more_unrelated_action_stands_in_its_place(
    kind: ClipKind, action: str, index: int
) -> None:
    clip = make_clip(kind, action)
    standard = Standard().ask(clip, LABELS, seed=0, index=index)
    removed = PrimaryDistractorRemoved().ask(clip, LABELS, seed=0, index=index)
    differing = [i for i in range(11) if standard.choices[i] != removed.choices[i]]
    assert differing == [standard.primary_distractor]
    assert len(set(removed.choices)) == 11 and LABELS.description(action) not in removed.choices
    others = {a for a in LABELS.actions if LABELS.description(a) in removed.choices}
    assert not others & set(LABELS.close[action])
    assert removed.primary_distractor is None
    assert removed.target == removed.none_choice == standard.none_choice


def test_presence_clips_are_not_asked_without_their_action() -> None:
    assert clip_kinds_of(PrimaryDistractorRemoved()) == tuple(DENIAL)
    assert clip_kinds_of(Standard()) == tuple(ClipKind)
    with pytest.raises(DataError) as error:
        PrimaryDistractorRemoved().ask(make_clip(ClipKind.PRESENCE), LABELS, seed=0)
    assert str(error.value) == (
        "Setup 'primary_distractor_removed' was asked about clip 'clip' of kind 'presence', but is about clips of kind context_only, "
        "different_motion, denial alone. Ask the others in another setup."
    )


@pytest.mark.parametrize("kind", list(ClipKind))
def test_yes_no_about_the_own_action(kind: ClipKind) -> None:
    question = YesNoPrimary().ask(make_clip(kind, "ApplyEyeMakeup"), LABELS, seed=0)
    assert question.text == "Is a person or group of people applying makeup to their eyes? Answer yes or no."
    assert question.answers[question.target] == ("no" if kind.is_denial else "yes")
    assert (question.answers, question.none_choice, question.primary_distractor) == (("yes", "no"), None, None)
    assert (question.kind, question.group, question.setup) == (kind.value, "g01", "yes_no_primary")


@given(st.sampled_from(list(ClipKind)), ACTIONS, st.integers(0, 50))
def test_yes_no_about_another_action(kind: ClipKind, action: str, index: int) -> None:
    question = YesNoRandom().ask(make_clip(kind, action), LABELS, seed=0, index=index)
    assert question.answers[question.target] == "no"
    asked = question.text.removeprefix("Is a person or group of people ").removesuffix("? Answer yes or no.")
    assert asked in {LABELS.phrase(other) for other in LABELS.unrelated(action)}


def test_prompts_do_not_change_what_is_asked() -> None:
    plain, causal = (YesNoRandom(p).ask(make_clip(), LABELS, seed=0) for p in (YesNoRandom().prompt, CausalAct()))
    asked = plain.text.removesuffix(" Answer yes or no.")
    assert f"\n\n{asked} Review the video carefully. Answer yes or no.\n\n" in causal.text
    assert causal.text.endswith("Output format: reply with yes or no only.")
    assert "caption" not in causal.text and "list of options" not in causal.text
    released = YesNoRandom(CausalAct(style="released")).ask(make_clip(), LABELS, seed=0).text
    assert f"\n        {asked}\n        Review the video carefully. Answer yes or no.\n" in released


def test_another_action_needs_another_description() -> None:
    alone = LabelSet(
        name="alone",
        descriptions={"a": "x", "b": "x"},
        components={},
        close={"a": (), "b": ()},
        without_object=frozenset(),
    )
    with pytest.raises(DataError) as error:
        YesNoRandom().ask(make_clip(action="a"), alone, seed=0)
    assert str(error.value) == (
        "Clip 'clip' cannot be asked about another action: label set 'alone' has none with another description than 'a'. Use a label set "
        "with more actions, or leave YesNoRandom out."
    )
    with pytest.raises(DataError, match="Did you mean 'Archery'"):
        YesNoPrimary().ask(make_clip(action="Archry"), LABELS, seed=0)
