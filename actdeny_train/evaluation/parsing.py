"""The parser of free-text responses: which of the offered choices a response names, or why it names none. It never guesses.

Only statements count: an answer marked as one, a label alone on its line, a caption alone, a label behind a caption. The last wins.
Needs the standard library alone besides ``ParseStatus``, so that an exported task can carry a copy of this file.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from actdeny_train.types import ParseStatus

if TYPE_CHECKING:
    from actdeny_train.types import Question


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a response says. ``choice`` is a 0-based index into the choices, None unless ``status`` is ok."""

    choice: int | None
    status: ParseStatus


def parse(text: str, question: "Question", *, finished: bool = True) -> Parsed:
    """Return what the response ``text`` says to ``question``; see ``parse_response``."""
    choices, answers, none_choice = question.choices, question.answers, question.none_choice
    return parse_response(text, choices, answers, none_choice=none_choice, finished=finished)


def parse_response(
    text: str, choices: Sequence[str], answers: Sequence[str], *, none_choice: int | None = None, finished: bool = True
) -> Parsed:
    """Return which of ``choices`` the response ``text`` names, by one of ``answers`` (in the same order) or by its own words.

    ``none_choice`` is the 0-based place of the choice that "None" means; where it is None, the one choice that begins like
    "None of the ..." is taken. ``finished`` is False if generation stopped at its token limit. Reasoning blocks are removed first.
    Status: ``truncated`` if a reasoning block stays open, or if the response was cut off before it named a choice; ``refusal`` if
    the model declines and states no answer; ``unparsed`` for everything else that does not name exactly one choice.
    """
    visible = without_reasoning(_INVISIBLE.sub("", text))
    if visible is None:
        return Parsed(None, ParseStatus.TRUNCATED)
    turn, ended = _turn(visible)
    finished = finished or ended
    statements = _Reader(turn, tuple(choices), tuple(answers), none_choice).statements(finished)
    choice = _decide(statements, turn)
    if choice is not None:
        return Parsed(choice, ParseStatus.OK)
    if not finished:
        return Parsed(None, ParseStatus.TRUNCATED)
    refused = _REFUSAL.search(turn) and not any(s.kind != "denied" for s in statements)
    return Parsed(None, ParseStatus.REFUSAL if refused else ParseStatus.UNPARSED)


class _Statement(NamedTuple):
    """A place of the response that answers. ``choice`` is None where it does not name exactly one choice that is offered.

    ``kind``: "stated" replaces what was said before; "bare" must agree with it; "denied" says that ``choice`` is not the answer.
    """

    start: int
    end: int
    choice: int | None
    kind: str


def _decide(statements: Sequence[_Statement], reply: str) -> int | None:
    answers = [s for s in statements if s.kind != "denied"]
    last = answers[-1] if answers else _Statement(0, 0, None, "bare")
    denied = any(s.kind == "denied" and s.choice == last.choice and s.start > last.start for s in statements)
    others = [s for s in answers if s.choice != last.choice and last.kind == "bare"]
    disputed = any(not _CORRECTION.search(reply, other.start, last.end) for other in others)
    return None if denied or disputed else last.choice


_TAG = re.compile(r"(?i)(?:<\s?|◁|\[(?=/?think\]))(/?)\s?(think(?:ing)?|thoughts?|reason(?:ing)?|analysis)\s?[>▷\]]")
_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff\u20e3]")
_QUOTES = str.maketrans("“”„‟«»‘’‚‛´", '""""""' + "'" * 5)
_BOLD = re.compile(r"(?<![*_\w])(?:\*{1,3}|__) ?([0-9]{1,4}|[A-Za-z])([.):]?) ?(?:\*{1,3}|__)(?![*_\w])")
_MARKUP = re.compile(r"(?i)\*|`|__|~~|</?(?:b|i|u|em|strong|p|br|span|div|center)\s?/?>")
_TOKEN = r"<[|｜][^|｜<>\n]{1,60}[|｜]>|<(?:s|bos|start_of_turn)>"
_END_OF_TURN = re.compile(r"(?i)<[|｜][^|｜<>]{0,30}(?:end|eo[tsm]|start)[^|｜<>]{0,30}[|｜]>|<(?:/s|eos|end_of_turn)>")
_OPENING = re.compile(rf"(?i)\A\s*(?:(?:{_TOKEN})\s*)*(?:(?:assistant|model)[ \t]*[:\n>]+)?")


def without_reasoning(text: str) -> str | None:
    """Return the text without its reasoning blocks, None if one stays open. A lone end tag ends a block that began unseen."""
    kept: list[str] = []
    position, inside = 0, ""
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if tag[1] and not inside:
            kept, position = [], tag.end()
        elif tag[1] and inside == name:
            position, inside = tag.end(), ""
        elif not tag[1] and not inside:
            kept.append(text[position : tag.start()])
            inside = name
    return None if inside else "\n".join([*kept, text[position:]])


def _plain(text: str) -> str:
    """Return the text without emphasis, marks of form and spare blanks. ⟦Bold⟧ labels stay told: so A and I are no words."""
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).translate(_QUOTES)
    text = re.sub(r"(?![0-9])\d", lambda m: str(unicodedata.digit(m[0])), text)
    text = _MARKUP.sub(" ", _BOLD.sub(r" ⟦\1⟧\2 ", text))
    text = re.sub(r"[.!?]{4,}", lambda m: m[0][:3], text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _turn(text: str) -> tuple[str, bool]:
    """Return the model's turn as plain text, and whether a special token ends it. What follows is no response."""
    text = _OPENING.sub("", text.replace("<|begin_of_box|>", r"\boxed{").replace("<|end_of_box|>", "}"))
    end = _END_OF_TURN.search(text)
    return _plain(re.sub(_TOKEN, " ", text[: end.start()] if end else text)), end is not None


def _key(text: str) -> str:
    """Return what is compared of a caption: no case, quotes, enclosing brackets, final full stop."""
    text = re.sub(r" ?(?:-{1,2}>|=>|⟶|⇒|→) ?", "→", re.sub(r'["⟦⟧]', "", text).casefold())
    return re.sub(r"\s?([,;]) ?", r"\1 ", " ".join(text.split())).strip(" .!'()[]{}-•#")


_CORRECTION = re.compile(r"(?i)\b(?:wait|actually|correction|sorry|instead|rather|scratch that|i mean|let me re\w+)\b")
_KNOW = r"determine|tell|say|know|answer|identify|decide|access|view|watch"
_REFUSAL = re.compile(
    r"(?i)\bi(?: am|'m)? (?:(?:really|simply) )?(?:can ?not|can't|could not|couldn't|unable to|not able to|won't|will not) (?:\w+ )?"
    rf"(?:{_KNOW}|provide|assist|help|process|analy[sz]e|choose|select|make|confirm|verify|comply|open|play|describe"
    r"|see (?:the|any|your|this) (?:video|image|frame|clip))|\b(?:i'm|i am) (?:(?:very|so|really) )?sorry\b|\Asorry\b"
    rf"|\bas an? (?:ai|artificial|(?:large )?language model)\b|\b(?:unable|impossible|not possible) to (?:\w+ )?(?:{_KNOW}|see)\b"
    r"|\b(?:can ?not|can't) be (?:determined|answered|identified)|\b(?:insufficient|not enough) (?:information|context)"
    r"|\bi (?:do not|don't) (?:know\b|have (?:access|the ability|enough|sufficient))|\bno video (?:was|is|has been)\b"
)
_OPEN = r"""(?:["'(\[{⟦$<]|\\[(\[]|\\(?:text|math)[a-z]{0,6}\{|\\boxed\{){0,4}"""
_CLOSE = r"""(?: ?(?:["')\]}⟧$]|\\[)\]]|>(?!\w))){0,5}"""
_NOUN = "answer|option|choice|caption|description|antwort|lösung|risposta|opzione|intruso|intruder|respuesta|opción|réponse|resposta"
_NAME = (
    rf"(?:(?:the|my|la|il|el|le|die|das|o|a) |l')?(?:(?:correct|best|final|right) )?"
    rf"(?:(?:{_NOUN}|frase|sentence|number|letter|label|nummer|numero|número|numéro|选项|選項|no\.|nr\.)[ :]{{0,2}}|#|(?<=la ))"
)
_END = r"(?!\w|[\u0300-\u036f]|['/-]\w)"
_OFFERED = rf"(?P<label>[0-9]+(?![.,:/⁄][0-9]|⁄| ?%|°)|[A-Za-z](?!\.[A-Za-z]\.)){_END}"
_YES_NO = rf"(?P<label>yes|no)(?!\.\w){_END}"
_SURELY = r"(?: (?:definitely|clearly|(?:most )?likely|probably|therefore|thus|indeed|simply|still|now|actually|instead|also))?"

# A strong mark announces an answer, so that more may follow the label than after a weak mark, which any sentence may hold.
_STRONG = re.compile(
    r"(?i)<answer>[ \n]?|\\(?:boxed|fbox) ?(?=\{)|\banswer ?\?[ \n]|\bfinal answer (?=(?-i:[0-9A-Z(\[⟦]))"
    rf"|(?:\b(?:{_NOUN}|ans|(?:best|closest) (?:match|fit)|response|reply|output|prediction|selection|solution|ответ)"
    r"(?: (?:corrett\w|correct\w{0,3}|exact\w|giusta|juste|final\w{0,2}|number|letter|choice|option))?"
    r"(?: (?:to|for|in|that|which|from|among|of) [^.:;\n]{1,80}?)?|答案|回答|答え|正解|정답|답)"
    r"""["')\]⟧]{0,2} ?(?:[:=\n]|[-–—→>](?= )|(?<=\] )|\.(?= ?(?-i:[0-9A-Z])\b)|(?P<neg>isn't|is not|cannot be|can't be|is never)\b"""
    r"|\b(?:is|(?:would|should|must|has to|will|seems to|appears to) be|ist|è|es|est|é|är|jest)\b|[是为為は은는])"
    rf"{_SURELY}(?:[ \n:=]|[-–—→>] ){{0,4}}|\b(?:i|we)(?:'d|'ll| would| will| must| have to)?(?: therefore| thus)? "
    r"(?:choose|select|pick|go with|opt for|chose|selected|answer)(?: with)?:? "
)
_WEAK = re.compile(
    r"(?i)\b(?:so|therefore|thus|hence|overall|finally|(?:in )?conclusion|in summary|also)\b[,:]? "
    r"|\bi(?: would|'d)? (?:think|believe|guess|say)(?: that)?(?: it(?:'s| is| must be| should be))?:? "
    r"|\b(?:no,? wait|wait|actually|correction|i mean|rather|sorry|scratch that|instead|make (?:it|that))\b[,:.;!]{0,3}[ \n]"
    r"(?:no[,.] )?(?:it(?:'s| is| should be) )?|\b(?:it(?:'s| is| must be| should be| would be)|this is|that is|going with"
    rf"|best (?:(?:described|represented|captured|matched) by|matches|fits)) (?=(?:not )?(?:{_NAME}|[(\[⟦]))"
)
_VERDICT = re.compile(
    rf"(?i) (?:(?P<neg>is not|isn't|cannot be|can't be)|is|must be|seems to be|appears to be|remains){_SURELY}(?: (?:the|a))?"
    r"(?: (?:only|single|most|one))? (?:(?P<wrong>incorrect|wrong|false)|correct|right|best|answer|(?:accurate|appropriate|closest)"
    r" (?:answer|choice|option|caption|description|match))\b(?! (?:in|about|that|if|only|regarding|except|when|as far)\b)"
    r"| (?:best|most accurately|most closely|correctly) (?:describes|matches|fits|captures|represents|reflects)\b"
)
_NEGATIVE_LEAD = re.compile(
    r"(?i)(?:\b(?:do|does|did|would|could|can)(?:n't| not) |\bcannot |\bnot )(?:think|believe|say|claim|agree|mean|sure|convinced|certain)"
    r"[^.!?\n]{0,40}$|\bnot (?:that |the |a |necessarily )*$|\bdoubt [^.!?\n]{0,40}$"
)
_OTHER_LEAD = re.compile(
    r"(?i)\b(?:if|whether|unless|suppos\w+|assum\w+|imagine|unsure|unclear)\b[^.,;!?\n]{0,40}$|\b(?:wrong|incorrect|false|worst|least"
    r"|other|another|alternative|possible|potential|plausible|tempting|distractor|second|each|every) (?:\w+ )?$"
)
_BECAUSE = r",? (?:because|since|weil|perché|porque|parce que)\b"
_AFTER_STRONG = re.compile(
    rf"(?i)$| ?[.,;:!。、]| [-–—(]|}}|</answer>|{_BECAUSE}|,? (?:as|which|given|so|is|for|with)\b"
)
_AFTER_WEAK = re.compile(rf"(?i)$| ?[.;!。]|,|</answer>|{_BECAUSE}|,? as\b")
_AFTER_WORDLIKE = re.compile(rf"(?i)$| ?[.;!。](?!\w)|</answer>| \(|{_BECAUSE}")
_AFTER_FIRST = re.compile(rf"(?i) ?[.)] (?-i:[A-Z\"])|{_BECAUSE}")
_GIVEN = r"(?: (?:above|given|provided|listed|offered|available|here))?"
_NONE = re.compile(
    rf"(?i)none(?: (?:of|from) (?:the|these|those|them|above){_GIVEN}(?: (?:choices|options|captions|answers|descriptions))?{_GIVEN})?"
    r"(?![^.!?\n]{0,80}?\b(?:except|besides|other than)\b|[^.,!?\n]{0,80}?\bbut\b)(?:$|(?=[.,;:!\n)\]}\"'<-]| \()|(?: accurately| correctly"
    r"| adequately| clearly| seems? to)? (?:appl(?:y|ies)|match(?:es)?|fits?|describes?|is|are|do|does|represents?|captures?|depicts?)\b)"
)
_BULLET = r"(?:[-–—•>#]+ )?"
_ENUMERATED = re.compile(rf"(?m)(?:^|(?<=[.!?] )){_BULLET}[(\[]?(\d{{1,4}}|[A-Za-z])(?: ?\([^)\n]{{1,30}}\))?[.):\]]")
_SENTENCE = re.compile(r"""[^\n]+?(?:[.!?]+["')\]]{0,3}(?= |\n|$)|(?=\n|$))""")
_FULL_STOP = re.compile(r"""(?i)(?<!\bapprox)(?<!\b(?:fig|etc|vol|min|max|e\.g))(?<!\b(?:vs|ca|no|nr))[.!]["')]?$""")
_NO = r"no(?:[.,!;:\n\"')\]}⟧]|$| [-–—]| (?:the|they|he|she|it|this|that|there|because|since|not|i)\b)"
_FIRST_WORD = re.compile(rf"(?im)(?:^|(?<=\? )){_BULLET}{_OPEN} ?(?=yes\b|{_NO})")


# Forms that hold a LABEL. A subject (of "... is correct") without a name must begin its clause.
_ANSWER = rf"{_OPEN} ?(?P<name>(?:{_NAME}){{0,2}}){_OPEN} ?LABEL{_CLOSE}"
_LEAD = r"(?:^|[\n.!?:,;] ?|\b(?:so|thus|therefore|hence|that|think|believe|and|but|clearly) )"
_MORE = r"(?:(?:also|maybe|perhaps|possibly|even|either|then|(?:it )?(?:could|might) be|the) )*"
_FORMS = {
    "said": rf"(?:(?P<denied>not|never)(?: (?:likely|necessarily|be))? |(?P<hedged>either|both|between|also|neither) )?{_ANSWER}",
    "line": rf"{_BULLET}{_ANSWER}[ .:)!,;]{{0,3}}",
    "item": rf"{_BULLET}{_ANSWER}(?P<gap> ?[.:),(–—-]+ ?| )(?P<body>.*)",
    "subject": rf"(?:(?<!\w)(?=(?:the |my )?(?:correct |best )?(?:{_NOUN}|number|#)|[(\[⟦])|{_LEAD}){_ANSWER}$",
    "listed": rf"(?: ?[,/&|;+]| (?:or|and|and/or|oder|und|ou|to)\b| (?=yes|no))(?: (?:or|and|but)\b)? ?{_MORE}"
    rf"{_ANSWER}(?: ?[.,;:!?]|$|\n| (?:or|and)\b)",
    "end": rf"(?:^|\s){_ANSWER}[ .)!]{{0,3}}$",
}
_GRAMMARS = [
    {k: re.compile(f.replace("LABEL", label), re.I) for k, f in _FORMS.items()} for label in (_OFFERED, _YES_NO)
]


class _Reader:
    """Finds the statements of one response."""

    def __init__(self, reply: str, choices: tuple[str, ...], answers: tuple[str, ...], none_choice: int | None) -> None:
        self.reply = reply
        self.enumerated = {m[1] for m in _ENUMERATED.finditer(reply)}
        self.captions = [_key(_plain(choice)) for choice in choices]
        self.span = 2 * max(map(len, self.captions), default=0) + 80
        nones = [i for i, caption in enumerate(self.captions) if re.match(r"none(?: of (?:the|these)\b|$)", caption)]
        self.none_choice = nones[0] if none_choice is None and len(nones) == 1 else none_choice
        self.is_yes_no = {answer.casefold() for answer in answers} == {"yes", "no"}
        self.is_open = not self.is_yes_no and not all(a.isdecimal() or re.fullmatch("[A-Za-z]", a) for a in answers)
        self.labels = {a.casefold(): i for i, a in enumerate(answers)}
        self.texts = {*self.captions} - {""} - (set() if self.is_open else {*self.labels})
        self.grammar = _GRAMMARS[self.is_yes_no]

    def statements(self, finished: bool) -> list[_Statement]:
        """Return all statements in the order of the response; of an unfinished one those alone that could not have gone on."""
        whole = self._exactly(self.reply)
        if whole is not None:
            found = [_Statement(0, len(self.reply), whole, "bare")]
        else:
            found = [*self._marked(_STRONG), *self._marked(_WEAK), *self._verdicts()]
            starts, ends = {s.start for s in found}, {s.end for s in found}
            bare = (*self._lines(), *self._first(finished), *self._last())
            found += [s for s in bare if s.start not in starts and s.end not in ends]
        return sorted((s for s in found if finished or not self._may_go_on(s)), key=lambda s: s.start)

    def _may_go_on(self, statement: _Statement) -> bool:
        """Tell whether a statement that a token limit cut off could have become another one."""
        if self.reply[statement.end :].strip(" .:"):
            return False
        key = _key(self.reply[-self.span :])
        begun = [c for c in self.texts if key.endswith(c)]
        if begun and self.reply[-1] in ".!":
            return False
        unsure = statement.kind == "bare" and statement.start > 0 and not begun
        begun += re.findall(r"\w+$", self.reply[-40:].casefold())
        return unsure or any(t.startswith(b) and t != b for t in (*self.labels, *self.captions) for b in begun)

    def _exactly(self, text: str) -> int | None:
        """Return the choice whose whole caption ``text`` is."""
        key = _key(text) if len(text) <= self.span else ""
        return self.captions.index(key) if key in self.texts and self.captions.count(key) == 1 else None

    def _named(self, text: str) -> set[int | None]:
        """Return the choices whose caption ``text`` begins with or is the beginning of; none if that tells nothing."""
        text = text[: self.span].split("\n")[0].lstrip(" .:)-–—,(\"'}]")
        if _NONE.match(text) and not self.is_open:
            return {self.none_choice}
        key = _key(text)
        begun = {c for c in self.texts if key.startswith(c) and not key[len(c) :][:1].isalnum()}
        begun = {c for c in begun if c.count(" ") > 1 or key[len(c) :][:1] in ("", *".,;:!)(")}
        begins: set[int | None] = {i for i, caption in enumerate(self.captions) if caption.startswith(key)}
        if begun and (key in begun or not begins):
            return {i for i, caption in enumerate(self.captions) if caption == max(begun, key=len)}
        told = key.count(" ") > 1 and len(begins) < len(self.captions) - (self.none_choice is not None)
        return begins if told else set()

    def _caption_at(self, position: int) -> tuple[int | None, int] | None:
        """Return the choice (None if not offered) and the end of the caption or "None ..." that stands at ``position``."""
        line = self.reply[position : position + self.span].split("\n")[0]
        text = re.split(r"</answer>|\}", line)[0]
        ends = [m.start() for m in re.finditer(rf"""$|(?<=[.!])[\s"')]|["')][\s.,]|{_BECAUSE}""", text)]
        for end in reversed(ends):
            index = self._exactly(text[:end])
            if index is not None:
                return index, position + end
        return (self.none_choice, position + len(line)) if _NONE.match(line.lstrip(" \"'([{⟦")) else None

    def _index(self, label: str) -> int | None:
        return self.labels.get(label.lstrip("0") or "0" if label.isdecimal() else label.casefold())

    def _label(self, found: re.Match[str], after: re.Pattern[str]) -> tuple[int | None, int] | None:
        """Return the choice (None if none or several) and the end of a label, None if what follows makes it no label."""
        line, label = self.reply[found.end() : found.end() + self.span].split("\n")[0], found["label"]
        if re.match(r" ?\?", line) or {m[1] for m in _ENUMERATED.finditer(line) if m[1].isdecimal()} - {label}:
            return None
        listed = self.grammar["listed"].match(line)
        if listed and listed["label"].casefold() != label.casefold():
            return None, found.end()
        wrapped = found["name"] or re.search(r"[)\]}⟧]", self.reply[found.end("label") : found.end()])
        if not wrapped and not self.is_yes_no and (label.islower() or label == "I"):
            after = _AFTER_WORDLIKE
        index, named = self._index(label), self._named(line)
        captioned = named and (label.isdecimal() or index in named)
        if not (captioned or after.match(line) or (wrapped and after is _AFTER_STRONG)):
            return None
        return None if named and index not in named else index, found.end()

    def _marked(self, pattern: re.Pattern[str]) -> Iterator[_Statement]:
        """Yield the answers that follow words such as "the answer is"."""
        strong = pattern is _STRONG
        for mark in pattern.finditer(self.reply):
            lead = self.reply[max(0, mark.start() - 80) : mark.start()]
            said = None if self.is_open else self.grammar["said"].match(self.reply, mark.end())
            label = self._label(said, _AFTER_STRONG if strong else _AFTER_WEAK) if said else None
            found = self._caption_at(mark.end()) or label
            if found is None or _OTHER_LEAD.search(lead) or ("\n" in mark[0] and len(self.enumerated) > 1):
                continue
            index, end = found
            denied = _NEGATIVE_LEAD.search(lead) or mark.groupdict().get("neg") or (said and said["denied"])
            several = (said and said["hedged"]) or re.search(r"(?i)\balso\W*$", mark[0])
            if strong or denied or index is not None:
                yield _Statement(mark.start(), end, None if several else index, "denied" if denied else "stated")

    def _verdicts(self) -> Iterator[_Statement]:
        """Yield the labels that are called right or wrong: "Option 3 is correct"."""
        for verdict in () if self.is_open or self.is_yes_no else _VERDICT.finditer(self.reply):
            before = ("x" * (verdict.start() > 60)) + self.reply[max(0, verdict.start() - 60) : verdict.start()]
            found = self.grammar["subject"].search(before)
            index = self._index(found["label"]) if found and (found["name"] or not found["label"].islower()) else None
            if found and index is not None and not _OTHER_LEAD.search(before[: found.start()]):
                wrong = verdict["wrong"] or verdict["neg"] or _NEGATIVE_LEAD.search(before[: found.start()])
                yield _Statement(verdict.start() - 1, verdict.end(), index, "denied" if wrong else "stated")

    def _lines(self) -> Iterator[_Statement]:
        """Yield lines and sentences that are an answer and nothing else. Choices listed line by line are no answer."""
        lines = [(m.start(), m[0]) for m in re.finditer(".+", self.reply)]
        items = [self._item(start, line) for start, line in lines]
        for i, ((start, line), item) in enumerate(zip(lines, items, strict=True)):
            if item is None:
                yield from self._sentences(start, line)
            elif all(near is None or near.choice == item.choice for near in items[max(i - 1, 0) : i + 2]):
                yield item

    def _item(self, start: int, line: str) -> _Statement | None:
        """Return the statement of a line that is a label and a caption, which must be its own."""
        found = None if self.is_open or self.is_yes_no else self.grammar["item"].match(line)
        if found is None or (found["gap"] == " " and self._exactly(found["body"]) is None):
            return None
        named = self._named(found["body"])
        choice = self._index(found["label"])
        choice = choice if choice in named else None
        return _Statement(start, start + found.start("gap"), choice, "bare") if named else None

    def _sentences(self, start: int, line: str) -> Iterator[_Statement]:
        label = None if self.is_open else self.grammar["line"].fullmatch(line)
        if label and (line == self.reply or label["label"] not in ("a", "i")):
            yield _Statement(start, start + len(line), self._index(label["label"]), "bare")
        elif (whole := self._exactly(line)) is not None:
            yield _Statement(start, start + len(line), whole, "bare")
        else:
            for sentence in _SENTENCE.finditer(line):
                text, end = sentence[0].lstrip(" -•#\"'(["), start + sentence.end()
                choice = self._exactly(text)
                word = self.grammar["line"].fullmatch(text) if self.is_yes_no else None
                if choice is not None or word or (_NONE.match(text) and not self.is_yes_no):
                    choice = self._index(word["label"]) if word else self.none_choice if choice is None else choice
                    yield _Statement(start + sentence.start(), end, choice, "bare")

    def _first(self, finished: bool) -> Iterator[_Statement]:
        """Yield the label that an explanation follows, the yes or no that begins a line."""
        if self.is_yes_no:
            for line in _FIRST_WORD.finditer(self.reply):
                word = self.grammar["said"].match(self.reply, line.end())
                label = self._label(word, re.compile("")) if word else None
                if label and not _REFUSAL.match(self.reply[label[1] :][:400].lstrip(" ,.:;-–—\n")):
                    yield _Statement(line.start(), label[1], label[0], "bare")
        elif not self.is_open and finished and len(self.enumerated) <= 1:
            word = (
                None if self.reply[:1].islower() or self._named(self.reply) else self.grammar["said"].match(self.reply)
            )
            label = self._label(word, _AFTER_FIRST) if word else None
            if label is not None:
                yield _Statement(0, label[1], label[0], "bare")

    def _last(self) -> Iterator[_Statement]:
        """Yield the label that ends the response, behind a caption (or its beginning) or behind the end of a sentence."""
        tail = self.reply[-60:]
        found = None if self.is_open or self.is_yes_no else self.grammar["end"].search(tail)
        if found is None or found[0].startswith("\n") or found["label"].islower():
            return
        start = len(self.reply) - len(tail) + found.start()
        line = self.reply[max(0, start - self.span) : start].split("\n")[-1].rstrip(" :-–—,")
        sentence = re.split(r"(?<=[.!?]) (?!\W)", line)[-1]
        named, choice = self._named(line) or self._named(sentence), self._index(found["label"])
        begun = " " in sentence and any(caption.startswith(_key(sentence)) for caption in self.captions)
        behind = _FULL_STOP.search(line) and not self.grammar["line"].fullmatch(line)
        if line and (behind or named or begun):
            yield _Statement(start, len(self.reply), None if named and choice not in named else choice, "bare")
