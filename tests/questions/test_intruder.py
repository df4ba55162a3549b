"""Find the intruder: the published words, and what must hold for any captions in any order."""

import dataclasses
import json
from pathlib import Path

import jinja2
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.frozen import read_questions, write_questions
from actdeny_train.questions.intruder import Intruder
from actdeny_train.questions.mcq import Standard
from actdeny_train.questions.source import ask_group
from actdeny_train.types import Clip, ClipGroup, ClipKind, IntruderTuple, Question

LABELS = load_ucf101()
CAPTIONS = (
    "La zia preme il citofono",
    "Il sarto preme un bottone {s1}",
    "Il portiere spinge via il ladro",
    "Un'allieva preme [F5]",
)
ITALIAN = (
    "Tre di queste azioni sono dello stesso tipo, mentre una è di un tipo diverso. Individua la frase che descrive l’azione di tipo "
    "diverso rispondendo soltanto con il numero della frase (1, 2, 3 o 4).\n"
    "1: La zia preme il citofono\n2: Il sarto preme un bottone {s1}\n3: Il portiere spinge via il ladro\n4: Un'allieva preme [F5]"
)


def make_tuple(captions: tuple[str, ...] = CAPTIONS, intruder: int = 2, verbs: tuple[str, ...] = ()) -> IntruderTuple:
    clips = tuple(
        Clip(id=f"v{i}", path=f"v{i}.avi", action="pushing", kind=ClipKind.PRESENCE, split="test", source=f"v{i}")
        for i in range(len(captions))
    )
    return IntruderTuple(
        id="t", clips=clips, action="pushing", source="t", captions=captions, intruder=intruder, verbs=verbs
    )


def ask(group: ClipGroup, index: int = 0, template: str = "italian", seed: int = 0) -> Question:
    return Intruder(template).ask_group(group, LABELS, seed=seed, index=index)


def test_the_published_question() -> None:
    question = ask(make_tuple(verbs=("premere", "premere", "spingere", "premere")))
    assert question.text == ITALIAN
    assert (question.answers, question.choices, question.target) == (("1", "2", "3", "4"), CAPTIONS, 2)
    assert (question.setup, question.prompt, question.kind, question.group) == ("intruder", "italian", "3_1", "t")
    assert question.clip_ids == ("v0", "v1", "v2", "v3")
    assert [question.text[:place].splitlines()[-1] for place in question.clip_places] == ["1: ", "2: ", "3: ", "4: "]


@pytest.mark.shared
def test_the_published_words(shared: Path) -> None:
    package = Path(__file__).parents[2] / "actdeny_train" / "questions" / "macid_prompt.txt"
    assert package.read_bytes() == (shared / "spec" / "macid_prompt.txt").read_bytes()


@pytest.mark.shared
def test_the_template_of_the_published_harness(shared: Path, tmp_path: Path) -> None:
    task = yaml.safe_load((shared / "annotations" / "macid" / "calamita-eval_macid.yaml").read_text(encoding="utf-8"))
    file = tmp_path / "calamita.txt"
    file.write_text(task["doc_to_text"].replace("{{", "{").replace("}}", "}"), encoding="utf-8")
    question = ask(make_tuple(), template=str(file))
    assert question.text == jinja2.Template(task["doc_to_text"]).render({f"s{i}": c for i, c in enumerate(CAPTIONS, 1)})
    assert (question.prompt, list(question.answers)) == ("calamita", task["doc_to_choice"])


def test_the_english_question_is_about_the_same_captions() -> None:
    italian, english = ask(make_tuple()), ask(make_tuple(), template="english")
    assert english.text.splitlines()[1:] == italian.text.splitlines()[1:]
    assert english.text.startswith("Three of these actions are of the same type, while one is of a different type.")
    assert english.prompt == "english" and english.id != italian.id


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1), min_size=4, max_size=4),
    st.integers(0, 3),
    st.integers(0, 40),
    st.integers(0, 3),
    st.sampled_from(["italian", "english"]),
)
def test_laws(captions: list[str], intruder: int, index: int, seed: int, template: str) -> None:
    group = make_tuple(tuple(captions), intruder)
    question = ask(group, index, template, seed)
    order = question.permutation
    assert sorted(order) == [0, 1, 2, 3]
    assert order[question.target] == intruder
    assert question.choices == tuple(captions[i] for i in order)
    assert question.clip_ids == tuple(f"v{i}" for i in order)
    for place, caption in zip(question.clip_places, question.choices, strict=True):
        assert question.text[place:].startswith(caption)
    # A tuple whose captions lie in another order from the start asks the same in the same words.
    other = dataclasses.replace(
        group, captions=tuple(captions[i] for i in order), intruder=order.index(intruder), clips=group.clips
    )
    same = ask(other, 0, template)
    assert (same.text, same.target, same.clip_places) == (question.text, question.target, question.clip_places)


@given(st.integers(0, 3), st.integers(0, 5), st.integers(0, 100))
def test_over_four_questions_the_intruder_is_once_at_each_place(intruder: int, rounds: int, seed: int) -> None:
    asked = [ask(make_tuple(intruder=intruder), 4 * rounds + turn, seed=seed) for turn in range(4)]
    assert sorted(question.target for question in asked) == [0, 1, 2, 3]
    assert rounds or asked[0].permutation == (0, 1, 2, 3)


def test_what_is_no_tuple_is_refused() -> None:
    clip = make_tuple().clips[0]
    with pytest.raises(
        DataError, match=r"asked about clip 'v0' alone, but is about four clips or captions. Use a dataset"
    ):
        Intruder().ask(clip, LABELS, seed=0)
    for group in (ClipGroup.of(clip), make_tuple(CAPTIONS[:3], 1)):
        with pytest.raises(DataError, match="which is no tuple of four captions with an intruder"):
            ask_group(Intruder(), group, LABELS, seed=0)
    with pytest.raises(
        DataError, match=r"Standard asks about one clip, but 't' is a group of 4 clips. Ask about such gr"
    ):
        ask_group(Standard(), make_tuple(), LABELS, seed=0)


def test_any_source_asks_about_a_group_of_one_clip() -> None:
    clip = Clip(id="c", path="c.avi", action="Archery", kind=ClipKind.PRESENCE, split="test", source="g")
    assert ask_group(Standard(), ClipGroup.of(clip), LABELS, seed=3, index=1) == Standard().ask(
        clip, LABELS, seed=3, index=1
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"cannot be read \(.*Choose italian or english, or give the path"),
        (b"\xff", r"cannot be read \(.*utf-8"),
        (b"{s1} {s2} {s3}", r"must hold {s1}, {s2}, {s3} and {s4} once each and in this order, but holds {s1}, {s2}, {s3}. Co"),
        (b"{s1} {s2} {s3} {s4} {s1}", r"but holds {s1}, {s2}, {s3}, {s4}, {s1}"),
        (b"{s2} {s1} {s3} {s4}", r"in this order, but holds {s2}, {s1}"),
        (b"nothing", r"but holds none of them"),
    ],
)  # fmt: skip
def test_templates_that_cannot_be_asked(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "template.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Intruder(str(file))


def test_frozen_questions_keep_the_places_of_the_clips(tmp_path: Path) -> None:
    asked = [ask(make_tuple(), index) for index in range(4)]
    file = tmp_path / "questions.jsonl"
    write_questions(file, asked)
    assert read_questions(file) == asked
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows[-1]["clip_places"] = ["1"]
    file.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DataError, match="clip_places must hold int values alone"):
        read_questions(file)
