import pickle
from collections import Counter

import pytest

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.actions.leak import leaks
from actdeny_train.causal.graph import CausalGraph
from actdeny_train.causal.variants import full, person_only, pruned, random
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.questions.graph_vqa import GraphQuestions, allowed_kinds
from actdeny_train.questions.graph_vqa.asked import DISTRACTORS, PHRASINGS, named
from actdeny_train.questions.graph_vqa.source import KINDS
from actdeny_train.types import NODES, Clip, ClipKind, Components, Question

GRAPHS = [full(), pruned(), person_only(), random(0), random(3)]
PROPERTIES = ("inconsistent_component", "antecedent", "reverse_causality")


def components(kind: ClipKind, action: str) -> Components:
    return Components(
        persons=f"{action} persons",
        objects=f"{action} objects",
        location=f"{action} location",
        spatial=f"{action} {kind} spatial",
        interaction=f"{action} {kind} interaction",
        motion=f"{action} {kind} motion",
    )


def label_set(*actions: str) -> LabelSet:
    kinds = (ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION)
    return LabelSet(
        name="small",
        descriptions={action: f"A person or group of people is {action.lower()}ing." for action in actions},
        components={action: {kind: components(kind, action) for kind in kinds} for action in actions},
        close=dict.fromkeys(actions, ()),
        without_object=frozenset(),
        verbs={action: (f"no{action.lower()}",) for action in actions},
    )


LABELS = label_set("Yodel", "Wiggle", "Vault", "Quack")


def clip(
    kind: ClipKind = ClipKind.PRESENCE, name: str = "c1", own: Components | None = None, action: str = "Yodel"
) -> Clip:
    return Clip(id=name, path=f"{name}.mp4", action=action, kind=kind, split="train", source="g01", components=own)


def test_all_fourteen_kinds_in_four_groups() -> None:
    assert len(KINDS) == 14 and set(PHRASINGS) == set(KINDS)
    assert Counter(KINDS.values()) == {"structure": 6, "relations": 3, "paths": 2, "properties": 3}
    assert all(len(set(entry["phrasings"])) >= 4 for entry in PHRASINGS.values())
    assert all("the causal graph of actions" in text for entry in PHRASINGS.values() for text in entry["phrasings"])
    assert not set(DISTRACTORS) & set(NODES)


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_any_fourteen_indices_in_a_row_cover_every_kind_once(graph: CausalGraph) -> None:
    source = GraphQuestions(graph=graph)
    kinds = [source.ask(clip(), LABELS, seed=1, index=index).kind for index in range(40)]
    for start in range(26):
        assert Counter(kinds[start : start + 14]) == Counter(list(KINDS))


def test_first_questions_of_clips_are_even_over_kinds() -> None:
    first = Counter(GraphQuestions().ask(clip(name=f"c{i}"), LABELS, seed=0).kind for i in range(1400))
    assert set(first) == set(KINDS) and all(60 <= n <= 140 for n in first.values())  # 100 +- 4 standard deviations


def test_fields_of_a_question() -> None:
    question = GraphQuestions(graph=pruned(), kinds=("node_count",)).ask(clip(), LABELS, seed=0, index=5)
    assert question.id == "c1|graph_vqa:pruned|5" and question.clip_ids == ("c1",)
    assert (question.setup, question.prompt, question.kind, question.group) == (
        "graph_vqa",
        "plain",
        "node_count",
        "structure",
    )
    assert question.choices == question.answers == tuple(str(n) for n in range(11)) and question.target == 4
    assert question.text.endswith(" Answer with a number.") and question.permutation == ()


@pytest.mark.parametrize("kind", ClipKind)
def test_questions_depend_on_their_key_alone(kind: ClipKind) -> None:
    source = GraphQuestions()
    forward = [source.ask(clip(kind), LABELS, seed=7, index=index) for index in range(28)]
    backward = [GraphQuestions().ask(clip(kind), LABELS, seed=7, index=index) for index in reversed(range(28))]
    assert forward == backward[::-1]
    assert len({question.text for question in forward if question.group != "structure"}) > 12
    other_seed = [source.ask(clip(kind), LABELS, seed=8, index=index).text for index in range(28)]
    other_clip = [source.ask(clip(kind, "c2"), LABELS, seed=7, index=index).text for index in range(28)]
    texts = [question.text for question in forward]
    assert texts != other_seed and texts != other_clip


def test_a_source_that_has_asked_travels_into_workers() -> None:
    source = GraphQuestions(graph=random(1))
    question = source.ask(clip(), LABELS, seed=0, index=3)
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source and copy.ask(clip(), LABELS, seed=0, index=3) == question


def test_every_phrasing_is_used() -> None:
    for kind in KINDS:
        source = GraphQuestions(kinds=(kind,))
        heads = Counter()
        for index in range(200):
            text = source.ask(clip(), LABELS, seed=0, index=index).text
            fits = [p for p in PHRASINGS[kind]["phrasings"] if all(part in text for part in _fixed_parts(p))]
            heads.update(fits)
        assert len(heads) == len(PHRASINGS[kind]["phrasings"]), kind


def _fixed_parts(phrasing: str) -> list[str]:
    return [part.split("}")[-1] for part in phrasing.split("{")]


@pytest.mark.parametrize("kind", ["node_membership", "edge_validity", "relation_validity", "path_validity"])
@pytest.mark.parametrize("graph", GRAPHS, ids=lambda graph: graph.name)
def test_yes_and_no_are_balanced(graph: CausalGraph, kind: str) -> None:
    source = GraphQuestions(graph=graph, kinds=(kind,))
    yes = sum(source.ask(clip(), LABELS, seed=0, index=index).target == 0 for index in range(600))
    assert 250 <= yes <= 350  # 300 +- 4 standard deviations


def test_unknown_type_of_denial_quotes_only_what_both_types_share() -> None:
    for graph in GRAPHS:
        source = GraphQuestions(graph=graph, kinds=PROPERTIES)
        texts = [source.ask(clip(ClipKind.DENIAL), LABELS, seed=0, index=index).text for index in range(90)]
        assert not any(f"Yodel {kind}" in text for text in texts for kind in ClipKind)
        assert all("Yodel" in text for text in texts)


@pytest.mark.parametrize("kind", [ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION])
def test_known_kinds_quote_their_own_phrases(kind: ClipKind) -> None:
    source = GraphQuestions(kinds=("antecedent", "reverse_causality"))
    texts = "\n".join(source.ask(clip(kind), LABELS, seed=0, index=index).text for index in range(60))
    assert all(f"Yodel {kind} {field}" in texts for field in ("spatial", "interaction", "motion"))
    assert not any(f"Yodel {other} " in texts for other in ClipKind if other is not kind)


def test_components_of_the_clip_win() -> None:
    own = components(ClipKind.DENIAL, "own")
    source = GraphQuestions(kinds=("antecedent",))
    texts = "\n".join(source.ask(clip(ClipKind.DENIAL, own=own), LABELS, seed=0, index=i).text for i in range(60))
    assert "own denial motion" in texts and "Yodel" not in texts


def test_swapped_phrase_that_tells_the_action_is_not_used() -> None:
    labels = label_set("Yodel", "Wiggle", "Vault")
    telling = {**labels.verbs, "Yodel": ("wiggle",)}
    labels = LabelSet(labels.name, labels.descriptions, labels.components, labels.close, labels.without_object, telling)
    source = GraphQuestions(kinds=("inconsistent_component",))
    texts = "\n".join(source.ask(clip(), labels, seed=0, index=index).text for index in range(40))
    assert "Vault" in texts and "Wiggle" not in texts


def test_no_action_to_swap_with() -> None:
    with pytest.raises(
        DataError,
        match=r"Clip 'c1': no action unrelated to 'Yodel' in label set 'small' has another phrase .* more actions",
    ):
        GraphQuestions(kinds=("inconsistent_component",)).ask(clip(), label_set("Yodel"), seed=0)


def test_unknown_action_names_the_clip() -> None:
    with pytest.raises(DataError, match=r"Unknown action 'Yodle' in clip 'c1'.*Did you mean 'Yodel'"):
        GraphQuestions().ask(clip(action="Yodle"), LABELS, seed=0)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (("node_counts",), "kind 'node_counts' cannot be asked. Did you mean 'node_count'"),
        ((), "it is empty or repeats one."),
        (("edge_count", "edge_count"), "it is empty or repeats one."),
    ],
)
def test_wrong_kinds(kinds: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        GraphQuestions(kinds=kinds)
    assert message in str(error.value) and "Graph 'full' allows node_count, " in str(error.value)


def test_kinds_that_a_small_graph_cannot_ask() -> None:
    assert all(allowed_kinds(graph) == tuple(KINDS) for graph in GRAPHS)
    no_chain = CausalGraph("no_chain", ("P", "O", "A"), (("P", "A"), ("O", "A")))
    assert set(KINDS) - set(allowed_kinds(no_chain)) == {"path_validity"}
    no_context = CausalGraph("no_context", ("I", "M", "A"), (("I", "M"), ("M", "A")))
    assert set(KINDS) - set(allowed_kinds(no_context)) == set(PROPERTIES)
    smallest = CausalGraph("smallest", ("P", "A"), (("P", "A"),))
    assert set(KINDS) - set(allowed_kinds(smallest)) == {"path_validity", "inconsistent_component"}
    with pytest.raises(ConfigError, match="kind 'path_validity' cannot be asked"):
        GraphQuestions(graph=no_chain, kinds=("path_validity",))
    for graph in (no_chain, no_context, smallest):
        for index in range(56):
            assert len(GraphQuestions(graph=graph).ask(clip(), LABELS, seed=0, index=index).answers) >= 2


def test_phrasings_tell_no_action_of_ucf101() -> None:
    labels = load_ucf101()
    words = [named(node) for node in (*NODES, *DISTRACTORS)] + [
        "parents",
        "children",
        "direct causes",
        "direct effects",
    ]
    texts = [text for entry in PHRASINGS.values() for text in (*entry["phrasings"], entry["answer"])] + words
    found = {(action, text): leaks(text, action, labels) for action in labels.actions for text in texts}
    assert not {key: spans for key, spans in found.items() if spans}


@pytest.mark.parametrize("graph", [full(), person_only()], ids=lambda graph: graph.name)
def test_questions_tell_no_action_of_ucf101(graph: CausalGraph) -> None:
    labels = load_ucf101()
    source = GraphQuestions(graph=graph)
    for action in labels.actions:
        for kind in ClipKind:
            for index in range(14):
                question = source.ask(clip(kind, f"{action}_{kind}", action=action), labels, seed=0, index=index)
                assert not leaks(question.text, action, labels), question.text
                assert not any(leaks(answer, action, labels) for answer in question.answers), question.answers


def right(question: Question) -> str:
    return question.answers[question.target]


def test_questions_never_drift() -> None:
    """Texts pinned when the phrasings were written: a change of draws or wording changes trained models."""
    questions = [GraphQuestions().ask(clip(), LABELS, seed=0, index=index) for index in range(14)]
    assert {question.kind: (question.text, right(question)) for question in questions} == PINNED


PINNED = {
    "node_count": ("Count the nodes of the causal graph of actions. How many are there? Answer with a number.", "7"),
    "node_membership": (
        "Does V (Viewpoint and Camera) belong to the nodes of the causal graph of actions? Answer yes or no.",
        "no",
    ),
    "node_selection": (
        "Which of these are nodes of the causal graph of actions?\n"
        "- C (Colors)\n"
        "- S (Spatial Relation)\n"
        "- U (Audio)\n"
        "- O (Objects)\n"
        "- I (Interaction)\n"
        "- V (Viewpoint and Camera)\n"
        "- B (Background Music)\n"
        "Answer with the letters of all that are, in alphabetical order, separated by commas.",
        "I, O, S",
    ),
    "edge_count": (
        "What is the total number of directed edges in the causal graph of actions? Answer with a number.",
        "8",
    ),
    "edge_validity": (
        "Does S (Spatial Relation) directly influence P (Persons) in the causal graph of actions? Answer yes or no.",
        "no",
    ),
    "edge_selection": (
        "Which of these are directed edges of the causal graph of actions?\n"
        "1. L→M\n"
        "2. L→S\n"
        "3. A→M\n"
        "4. S→A\n"
        "5. P→O\n"
        "6. M→P\n"
        "7. O→S\n"
        "Answer with the numbers of all that are, in ascending order, separated by commas.",
        "2, 7",
    ),
    "list_relatives": (
        "What are the parents of O (Objects) in the causal graph of actions? List the letters in "
        "alphabetical order, separated by commas, or answer none.",
        "none",
    ),
    "count_relatives": ("Count the children of P (Persons) in the causal graph of actions. Answer with a number.", "2"),
    "relation_validity": (
        "Does A (Action) have O (Objects) as a parent in the causal graph of actions? Answer yes or no.",
        "no",
    ),
    "list_paths": (
        "By which causal routes does P (Persons) reach A (Action) in the causal graph of actions? "
        "Name each path like X→Y→Z, shorter paths first, then alphabetically, separated by "
        "semicolons, or answer none.",
        "P→I→A; P→I→M→A",
    ),
    "path_validity": ("Is O→I→P→A a path of the causal graph of actions? Answer yes or no.", "no"),
    "inconsistent_component": (
        "One of these components of the causal graph of actions comes from another "
        "video. Which one does not fit?\n"
        "- P (Persons): Yodel persons\n"
        "- O (Objects): Yodel objects\n"
        "- L (Location): Vault location\n"
        "- S (Spatial Relation): Yodel presence spatial\n"
        "- I (Interaction): Yodel presence interaction\n"
        "- M (Motion): Yodel presence motion\n"
        "Answer with one letter.",
        "L",
    ),
    "antecedent": (
        "If we observe the action (A), which of these must be present earlier in the causal graph of "
        "actions?\n"
        "- M (Motion): Yodel presence motion\n"
        "- G (Lighting)\n"
        "- L (Location): Yodel location\n"
        "- S (Spatial Relation): Yodel presence spatial\n"
        "Answer with one letter.",
        "M",
    ),
    "reverse_causality": (
        "According to the causal graph of actions, does the action (A) influence the motion "
        '(M) "Yodel presence motion"? Answer yes or no.',
        "no",
    ),
}
