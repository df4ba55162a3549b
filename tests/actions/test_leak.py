import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.actions.leak import inflect, leaks
from actdeny_train.errors import DataError

UCF101 = load_ucf101()

TELLING = [
    ("Typing", "a woman is typing", ("typing",)),
    ("Typing", "She typed a letter.", ("typed",)),
    ("Typing", "the typist types", ("typist", "types")),
    ("PlayingGuitar", "a man plays the guitar", ("plays the guitar",)),
    ("PlayingGuitar", "Playing Guitar", ("Playing Guitar",)),
    ("PlayingGuitar", "NotPlayingGuitar", ("PlayingGuitar",)),
    ("PlayingGuitar", "v_playingguitar_g01", ("playingguitar",)),
    ("PlayingGuitar", "two guitarists PLAYED", ("guitarists", "PLAYED")),
    ("Biking", "a girl rode off", ("rode",)),
    ("Biking", "bikers cycling past", ("bikers", "cycling")),
    ("PullUps", "ten pull-ups", ("pull-ups",)),
    ("PushUps", "three pushups", ("pushups",)),
    ("GolfSwing", "the golf swings look good", ("golf swings",)),
    ("BenchPress", "a bench press", ("bench press",)),
    ("ParallelBars", "on the parallel bars", ("parallel bars",)),
    ("CliffDiving", "he dove", ("dove",)),
    ("Shotput", "she puts the shot", ("puts the shot",)),
    ("FieldHockeyPenalty", "he takes the penalty", ("takes the penalty",)),
    ("SoccerPenalty", "a soccer penalty kick", ("soccer penalty kick",)),
    ("WritingOnBoard", "he wrote it and she has written it", ("wrote", "written")),
    ("HeadMassage", "the masseur", ("masseur",)),
    ("TaiChi", "a tai chi group", ("tai chi",)),
    ("YoYo", "a boy playing with a yoyo", ("playing with a yoyo",)),
]

CLEAN = [
    ("PlayingGuitar", "a guitar leans on the wall"),
    ("PlayingGuitar", "a display of a playground"),
    ("PlayingGuitar", "the man walks, shoots, dives and writes"),
    ("Basketball", "a basketball lies on the floor"),
    ("Nunchucks", "a pair of nunchucks on a mat"),
    ("YoYo", "a yo-yo and a yoyo"),
    ("Biking", "a bicycle leans on a tree"),
    ("JavelinThrow", "a javelin sticks in the grass"),
    ("Shotput", "a heavy metal ball; put the answer as a number"),
    ("TaiChi", "Perform the following and practice with care."),
    ("SoccerPenalty", "Take the list of nodes."),
    ("Typing", "a keyboard and a monitor on a desk"),
    ("BrushingTeeth", "a toothbrush and a tube of paste"),
    ("Archery", "Which node is present on every path, along which edge, and what action or motion do you observe?"),
    ("WalkingWithDog", ""),
]


@pytest.mark.parametrize(("action", "text", "spans"), TELLING)
def test_finds_what_tells_the_action(action: str, text: str, spans: tuple[str, ...]) -> None:
    assert leaks(text, action, UCF101) == spans


@pytest.mark.parametrize(("action", "text"), CLEAN)
def test_leaves_context_and_ordinary_english_alone(action: str, text: str) -> None:
    assert leaks(text, action, UCF101) == ()


@pytest.mark.parametrize("action", UCF101.actions)
def test_description_phrase_and_name_leak(action: str) -> None:
    for text in (UCF101.description(action), UCF101.phrase(action).upper(), f"Is this {UCF101.phrase(action)}?"):
        assert leaks(text, action, UCF101), text
    assert bool(leaks(f"v_Not{action}_g01_c01", action, UCF101)) == (action not in UCF101.named_by_object)


@pytest.mark.parametrize(
    ("lemma", "forms"),
    [
        ("type", {"type", "types", "typed", "typing", "typer", "typers"}),
        ("play", {"play", "plays", "played", "playing", "player", "players"}),
        ("dry", {"dry", "dries", "dried", "drying", "drier", "driers"}),
        ("box", {"box", "boxes", "boxed", "boxing", "boxer", "boxers"}),
        ("march", {"march", "marches", "marched", "marching", "marcher", "marchers"}),
        ("row", {"row", "rows", "rowed", "rowing", "rower", "rowers"}),
        ("ski", {"ski", "skis", "skied", "skiing", "skier", "skiers"}),
        ("climb", {"climb", "climbs", "climbed", "climbing", "climber", "climbers"}),
    ],
)
def test_inflects_regularly(lemma: str, forms: set[str]) -> None:
    assert inflect(lemma) == forms


@pytest.mark.parametrize(
    ("lemma", "doubled"), [("skip", "skipping"), ("swim", "swimmers"), ("mop", "mopped"), ("cut", "cutter")]
)
def test_doubles_a_final_consonant(lemma: str, doubled: str) -> None:
    assert doubled in inflect(lemma)


neutral = st.text(alphabet=string.digits + " .,;:?!()", max_size=12)
actions_with_verbs = st.sampled_from([a for a in UCF101.actions if UCF101.verbs[a]])


@given(action=actions_with_verbs, before=neutral, after=neutral, data=st.data())
def test_any_form_of_any_verb_is_found_wherever_it_stands(
    action: str, before: str, after: str, data: st.DataObject
) -> None:
    verb, *particle = data.draw(st.sampled_from(UCF101.verbs[action])).split()
    told = " ".join([data.draw(st.sampled_from(sorted(inflect(verb)))), *particle])
    told = data.draw(st.sampled_from([told, told.upper(), told.capitalize()]))
    assert leaks(f"{before} {told} {after}", action, UCF101) == (told,)


@given(action=st.sampled_from(UCF101.actions), parts=st.lists(st.sampled_from(TELLING + [(*c, ()) for c in CLEAN])))
def test_spans_are_parts_of_the_text_in_order(action: str, parts: list[tuple[str, str, tuple[str, ...]]]) -> None:
    text = ". ".join(text for _, text, _ in parts)
    place = 0
    for span in leaks(text, action, UCF101):
        place = text.index(span, place) + len(span)
        assert leaks(span, action, UCF101) == (span,)


def test_unknown_action_names_near_misses() -> None:
    with pytest.raises(DataError, match=r"Unknown action 'PlayingGitar'.*Did you mean 'PlayingGuitar'"):
        leaks("anything", "PlayingGitar", UCF101)


def test_a_set_without_verbs_is_refused() -> None:
    labels = LabelSet("small", {"Wave": "A person or group of people is waving."}, {}, {}, frozenset())
    with pytest.raises(DataError, match=r"No verbs for action 'Wave' in label set 'small'.*verbs.yaml"):
        leaks("a hand goes up", "Wave", labels)
