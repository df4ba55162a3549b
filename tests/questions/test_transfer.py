"""Transfer denial: the same question about a presence clip, its action offered once and once not."""

import dataclasses
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LABEL_SETS, LabelSet, load_finegym99, load_something_v2, load_ucf101
from actdeny_train.actions.templates import load_minimal_pairs
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.primary_distractor_removed import PrimaryDistractorRemoved
from actdeny_train.questions.prompts import CausalAct
from actdeny_train.questions.source import clip_kinds_of
from actdeny_train.questions.transfer import TransferDenial, TransferPresence, fits
from actdeny_train.types import Clip, ClipKind

SETS = [load() for load in LABEL_SETS.values()]
LABELLED = st.sampled_from(SETS).flatmap(lambda labels: st.tuples(st.just(labels), st.sampled_from(labels.actions)))


def make_clip(action: str, id: str = "clip", kind: ClipKind = ClipKind.PRESENCE) -> Clip:
    return Clip(id=id, path="a.mp4", action=action, kind=kind, split="test", source="g01")


def offered(labels: LabelSet, choices: tuple[str, ...]) -> set[str]:
    return {action for action in labels.actions if labels.description(action) in choices}


@given(
    LABELLED,
    st.integers(3, 20),
    st.sampled_from(["numbers", "letters"]),
    st.sampled_from(["close", "unrelated"]),
    st.integers(0, 20),
)
def test_the_two_questions_differ_in_the_action_alone(
    labelled: tuple[LabelSet, str], num: int, labels_as: str, distractors: str, index: int
) -> None:
    labels, action = labelled
    settings = {"num_choices": num, "labelled": labels_as, "distractors": distractors}
    clip = make_clip(action)
    with_action = TransferPresence(**settings).ask(clip, labels, seed=1, index=index)
    without = TransferDenial(**settings).ask(clip, labels, seed=1, index=index)
    assert with_action.choices[with_action.target] == labels.description(action)
    differing = [i for i in range(num) if with_action.choices[i] != without.choices[i]]
    assert differing == [with_action.target]
    assert without.target == without.none_choice == with_action.none_choice != with_action.target
    assert len(set(without.choices)) == num and without.primary_distractor is with_action.primary_distractor is None
    assert (with_action.kind, without.kind, without.group) == ("presence", "denial", "g01")
    assert with_action.setup == without.setup and with_action.id != without.id
    assert without.answers == with_action.answers and without.permutation == with_action.permutation
    # Nothing that is true of the clip is offered where none is right.
    true = {labels.description(a) for a in (action, *labels.also_true.get(action, ()))}
    assert not true & set(without.choices)
    assert fits(without, clip) and fits(with_action, clip)


@given(st.sampled_from(load_ucf101().actions), st.integers(0, 5))
def test_the_question_with_the_action_is_the_standard_one(action: str, index: int) -> None:
    clip = make_clip(action)
    standard = Standard().ask(clip, load_ucf101(), seed=0, index=index)
    transfer = TransferPresence().ask(clip, load_ucf101(), seed=0, index=index)
    assert dataclasses.replace(transfer, id=standard.id, setup="standard") == standard


@given(st.sampled_from(SETS), st.data())
def test_close_or_unrelated_actions_as_set(labels: LabelSet, data: st.DataObject) -> None:
    action = data.draw(st.sampled_from([a for a in labels.actions if len(labels.close[a]) >= 5]))
    clip = make_clip(action)
    close = TransferDenial(num_choices=4).ask(clip, labels, seed=0)
    same = {a for b in labels.close[action] for a in offered(labels, (labels.description(b),))}
    assert offered(labels, close.choices) <= same
    if len({labels.description(a) for a in labels.unrelated(action)}) >= 5:
        unrelated = TransferDenial(num_choices=4, distractors="unrelated").ask(clip, labels, seed=0)
        assert not offered(labels, unrelated.choices) & set(labels.close[action])
        assert unrelated.setup == "transfer_4_unrelated"


def test_elements_of_one_text_never_meet() -> None:
    labels = load_finegym99()
    shared = labels.description(labels.actions[58])
    assert shared == labels.description(labels.actions[70])
    for action in labels.actions:
        for source in (TransferPresence(num_choices=20), TransferDenial(num_choices=20)):
            for index in range(3):
                question = source.ask(make_clip(action), labels, seed=0, index=index)
                assert question.choices.count(shared) <= 1
                if shared == labels.description(action):
                    assert (shared in question.choices) == (question.kind == "presence")


def test_minimal_pairs_come_first() -> None:
    labels = load_something_v2()
    counterparts: dict[str, set[str]] = {}
    for done, undone in load_minimal_pairs():
        counterparts.setdefault(done, set()).add(undone)
        counterparts.setdefault(undone, set()).add(done)
    most = max(map(len, counterparts.values()))
    assert most <= 9
    for action, others in counterparts.items():
        for source in (TransferPresence(minimal_pairs=True), TransferDenial(minimal_pairs=True)):
            question = source.ask(make_clip(action), labels, seed=0)
            assert others <= offered(labels, question.choices), action
            # With room for one other action alone, it is a counterpart.
            least = dataclasses.replace(source, num_choices=3).ask(make_clip(action), labels, seed=0)
            assert offered(labels, least.choices) - {action} & others
    plain = TransferDenial(minimal_pairs=True).ask(make_clip("Holding something"), labels, seed=0)
    assert plain.choices == TransferDenial().ask(make_clip("Holding something"), labels, seed=0).choices
    assert plain.setup == "transfer_minimal_pairs"


def test_the_none_choice_stands_at_each_place_equally_often() -> None:
    labels = load_ucf101()
    places: Counter[int] = Counter()
    for i in range(40):
        for index in range(11):
            places[TransferDenial().ask(make_clip("YoYo", f"clip{i}"), labels, seed=0, index=index).target] += 1
    assert places == Counter(dict.fromkeys(range(11), 40))


def test_names_of_setups_and_questions() -> None:
    clip, labels = make_clip("Archery"), load_ucf101()
    question = TransferDenial(prompt=CausalAct()).ask(clip, labels, seed=0)
    assert (question.id, question.setup) == ("clip|transfer:denial|causalact|0", "transfer")
    assert TransferPresence().ask(clip, labels, seed=0).id == "clip|transfer|plain|0"
    assert TransferDenial(num_choices=5, labelled="letters").setup == "transfer_5_letters"


def test_denial_clips_are_not_asked() -> None:
    assert clip_kinds_of(TransferDenial()) == clip_kinds_of(TransferPresence()) == (ClipKind.PRESENCE,)
    with pytest.raises(
        DataError, match="about clip 'clip' of kind 'denial', but is about clips of kind presence alone"
    ):
        TransferDenial().ask(make_clip("Archery", kind=ClipKind.DENIAL), load_ucf101(), seed=0)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(ConfigError, match=r"distractors of a TransferDenial question is 'closed', .*'close'"):
        TransferDenial(distractors="closed")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"label set 'ucf101' of clip 'clip' has no minimal pairs\. Set it to false"):
        TransferPresence(minimal_pairs=True).ask(make_clip("Archery"), load_ucf101(), seed=0)
    few = load_ucf101().subset(load_ucf101().actions[:11], "few")
    TransferPresence().ask(make_clip(few.actions[0]), few, seed=0)
    assert len(TransferDenial().ask(make_clip(few.actions[0]), few, seed=0).choices) == 11
    few = few.subset(few.actions[:10], "fewer")
    with pytest.raises(DataError, match="needs 10 distractors, but label set 'fewer' has 9 actions besides"):
        TransferDenial().ask(make_clip(few.actions[0]), few, seed=0)


def test_a_denial_of_another_setup_does_not_fit_a_presence_clip() -> None:
    clip = make_clip("Archery", kind=ClipKind.DENIAL)
    for source in (Standard(), PrimaryDistractorRemoved()):
        question = source.ask(clip, load_ucf101(), seed=0)
        assert fits(question, clip) and not fits(question, dataclasses.replace(clip, kind=ClipKind.PRESENCE))
    transfer = TransferDenial().ask(make_clip("Archery"), load_ucf101(), seed=0)
    assert not fits(transfer, dataclasses.replace(clip, kind=ClipKind.CONTEXT_ONLY))
