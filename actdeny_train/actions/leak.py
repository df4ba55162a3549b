"""The leak guard: does a text tell the action of a clip?

Graph questions must teach structure without ever showing the label (paper 1, section 9.3).
"""

import functools
import re

from actdeny_train.actions.labels import LabelSet
from actdeny_train.errors import DataError

# A word of a CamelCase name counts as a word, so "NotPlayingGuitar" is read like "not playing guitar".
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_POSSESSIVES = {"its", "his", "her", "their"}
_LITTLE_WORDS = {"a", "an", "the", "of", "on", "in", "at", "to", "into", "with", "by", "and", "or", "it"} | _POSSESSIVES
_RUN = 3  # content words of the description in a row that tell the action


def leaks(text: str, action: str, labels: LabelSet) -> tuple[str, ...]:
    """Return the spans of ``text`` that tell ``action``, in order and without overlap; empty means clean.

    Told by, in any case, whole words; hyphens and little words ("the", "on", "their") are ignored:

    - three content words of the description in a row, or all of them where there are fewer;
    - the name of the class as words, inflected ("playing guitar", "play the guitar", "golf swings") or written together;
    - every form of the action's verbs and of the doer's name ("typing", "typed", "typist"), listed in ``verbs.yaml``.

    Verbs that ordinary English needs everywhere (do, perform, practice, take, put, give, receive, engage, use, move) count only
    together with the object that makes them the action ("put the shot", "take the penalty"). "Play" counts: it is the
    verb of every instrument, so a question about a clip of one finds another word. Bare objects ("a guitar", "a
    basketball") are context and may stand, also where a class is named by nothing but its object. The guard knows this action's words
    alone: "walks" is clean for Archery. Raises DataError for an unknown action or one without an entry of verbs.
    """
    found = [m for m in _WORD.finditer(text) if m.group().lower() not in _LITTLE_WORDS]
    words = [m.group().lower() for m in found]
    giveaways = _giveaways(action, labels)
    spans = []
    i = 0
    while i < len(words):
        length = _longest_match(words[i:], giveaways)
        if length:
            spans.append(text[found[i].start() : found[i + length - 1].end()])
        i += max(length, 1)
    return tuple(spans)


def inflect(lemma: str) -> frozenset[str]:
    """Return ``lemma`` with its regular endings: s, ed, ing, er, ers.

    Covers doubled consonants ("skip", "skipping"), a dropped e ("ride", "riding") and y ("carry", "carried"). Where spelling
    alone does not tell whether a consonant doubles, both are returned: an extra form that is no word harms nobody.
    """
    ends_in_y = lemma.endswith("y") and lemma[-2:-1] not in tuple("aeiou")
    if lemma.endswith("e"):
        stems = [lemma[:-1]]
    elif ends_in_y:
        stems = [lemma[:-1] + "i"]
    elif re.search(r"[^aeiou][aeiou][^aeiouwxy]$", lemma):
        stems = [lemma, lemma + lemma[-1]]
    else:
        stems = [lemma]
    plural = stems[0] + "es" if ends_in_y or lemma.endswith(("s", "x", "z", "ch", "sh")) else lemma + "s"
    gerunds = [lemma + "ing"] if ends_in_y else [stem + "ing" for stem in stems]
    return frozenset([lemma, plural, *gerunds, *(stem + ending for stem in stems for ending in ("ed", "er", "ers"))])


def _longest_match(words: list[str], giveaways: tuple[tuple[frozenset[str], ...], ...]) -> int:
    """Return how many words at the start of ``words`` match the longest of the giveaways; 0 if none matches."""
    return max(
        (
            len(forms)
            for forms in giveaways
            if len(forms) <= len(words) and all(word in form for word, form in zip(words, forms, strict=False))
        ),
        default=0,
    )


@functools.lru_cache(maxsize=1024)
def _giveaways(action: str, labels: LabelSet) -> tuple[tuple[frozenset[str], ...], ...]:
    """Return the sequences of words that tell an action, each word as the set of its forms."""
    phrase = _content_words(labels.phrase(action))
    if action not in labels.verbs:
        raise DataError(
            f"No verbs for action {action!r} in label set {labels.name!r}: the leak guard cannot vouch for a text. Add a list "
            "of its verbs to verbs.yaml (an empty list where its name alone tells it)."
        )
    verbs = [tuple(inflect(word) for word in _content_words(verb)) for verb in labels.verbs[action]]

    def forms(word: str) -> frozenset[str]:
        """Return the forms of ``word``; those of the action's verb where it is one ("playing" -> "plays")."""
        return inflect(word).union(*(verb[0] for verb in verbs if len(verb) == 1 and word in verb[0]))

    sequences = list(verbs)
    run = min(_RUN, len(phrase))
    sequences += [tuple(map(forms, phrase[i : i + run])) for i in range(len(phrase) - run + 1)]
    if action not in labels.named_by_object:
        sequences += [tuple(map(forms, _content_words(action))), (inflect(action.lower()),)]
    return tuple(sequences)


def _content_words(text: str) -> list[str]:
    words = [word.lower() for word in _WORD.findall(text)]
    return [word for word in words if word not in _LITTLE_WORDS]
