"""UCF101-AD as its authors released it: clips from folders and question files, questions read as they are."""

import csv
import functools
import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.datasets.base import ClipDataModule, Published
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import DataError, near_misses
from actdeny_train.questions.prompts import Plain, Prompt, answer_labels, option_block
from actdeny_train.types import Clip, ClipKind, Question

PRESENCE_FILE = "ucf101_ad_action_presence.json"
DENIAL_FILES = {
    "standard": "ucf101_ad_action_denial_standard.json",
    "explicit_denial": "ucf101_ad_action_denial_explicit_denial.json",
    "primary_distractor_removed": "ucf101_ad_action_denial_primary_distractor_removed.json",
}
TRAIN_FILE = "auxilary_finetuning_questions.json"
"""The authors' finetuning questions, in their spelling; read for the names of the train clips alone."""
WHERE_TO_GET = (
    "Question files: folder mcq_questions/ of https://github.com/raiyaan-abdullah/Learn-to-Deny; clips: Hugging Face dataset "
    "raiyaanabdullah/UCF101-AD (CC-BY-NC-SA-4.0)."
)
TYPES = {
    "1": ClipKind.CONTEXT_ONLY,
    "2": ClipKind.DIFFERENT_MOTION,
    ClipKind.CONTEXT_ONLY.value: ClipKind.CONTEXT_ONLY,
    ClipKind.DIFFERENT_MOTION.value: ClipKind.DIFFERENT_MOTION,
}
_NAME = re.compile(r"(?P<not>Not)?(?P<action>[^/]+)/[^/]*_g_?(?P<group>[0-9]+)_c_?[0-9]+\.mp4")


class UCF101AD(ClipDataModule):
    """The released clips.

    ``root`` holds the class folders (``Archery``, ``NotArchery``), directly or below ``train/`` and ``test/``; ``questions`` is
    the folder of the JSON files, ``root/mcq_questions`` unless given. Split ``"test"`` is what the question files ask about.
    Split ``"train"`` is what ``auxilary_finetuning_questions.json`` lists where that file exists, else every denial clip on disk
    that no question file names and that does not lie below ``test/``. No presence clips were released for training.

    A clip's id is its released name without ``.mp4``. Denial clips were collected anew, so ``NotArchery/g01`` and ``Archery/g01``
    are two sources. ``types`` is a CSV file ``video_name,type`` with type 1 or 2 (or ``context_only``, ``different_motion``);
    a denial clip that it does not name has kind ``denial``.
    """

    def __init__(
        self, root: str, questions: str | None = None, types: str | None = None, screening: Screening | None = None
    ) -> None:
        super().__init__(root, screening)
        self.questions = Path(questions) if questions else self.root / "mcq_questions"
        self.types = Path(types) if types else None

    @property
    def labels(self) -> LabelSet:
        return load_ucf101()

    def published(self) -> dict[str, Published]:
        note = "3,549 denial and 675 presence clips; the authors skip two broken ones"
        return {"train": Published((7_059,)), "test": Published((4_224,), note)}

    def read_clips(self) -> Iterator[Clip]:
        """Yield test clips in the order of the files, then train clips by name. Raises DataError on malformed files."""
        required = (PRESENCE_FILE, DENIAL_FILES["standard"])
        missing = [name for name in required if not (self.questions / name).is_file()]
        if missing:
            raise _missing_files(self.questions, missing)
        files = [path for name in (PRESENCE_FILE, *DENIAL_FILES.values()) if (path := self.questions / name).is_file()]
        splits = {name: "test" for path in files for name in read_questions(path)}
        for name in self._train_names(splits):
            splits[name] = "train"
        kinds = read_types(self.types) if self.types else {}
        elsewhere = [name for name in kinds if name not in splits]
        if elsewhere:
            print(
                f"{self.types}: {len(elsewhere)} of {len(kinds)} rows name clips that are not here, such as {elsewhere[0]!r}"
            )
        for name, split in splits.items():
            yield self._clip(name, split, kinds.get(name))

    def _clip(self, name: str, split: str, kind: ClipKind | None) -> Clip:
        action, is_denial, group = parse_name(name, self.labels, f"split {split!r} below {self.root}")
        return Clip(
            id=name.removesuffix(".mp4"),
            path=f"{split}/{name}" if (self.root / split / name).is_file() else name,
            action=action,
            kind=(kind or ClipKind.DENIAL) if is_denial else ClipKind.PRESENCE,
            split=split,
            source=f"{'Not' if is_denial else ''}{action}/{group}",
        )

    def _train_names(self, asked: Collection[str]) -> list[str]:
        """Return the released names of the train clips, none of them ``asked`` about in the question files."""
        path = self.questions / TRAIN_FILE
        if path.is_file():
            names = read_train_names(path)
            both = [name for name in names if name in asked]
            if both:
                raise DataError(
                    f"{path}: {len(both)} of {len(names)} clips for finetuning are asked about in the question files, such as {both[0]!r}. "
                    "A clip is for training or for the test. Remove their records, or get the files anew."
                )
            return names
        # Names with a dot in front are unfinished downloads and macOS's companions of files (._name.mp4).
        videos = [path for folder in ("", "train") for path in (self.root / folder).glob("Not*/[!.]*.mp4")]
        return sorted({f"{path.parent.name}/{path.name}" for path in videos}.difference(asked))


@dataclass(frozen=True)
class ReleasedQuestions:
    """The authors' questions, choices and order as released; nothing is drawn, so every index gives the same question.

    ``questions`` is the folder of the JSON files. Presence clips have a question in setup ``"standard"`` alone.
    """

    questions: str
    setup: Literal["standard", "explicit_denial", "primary_distractor_removed"] = "standard"
    prompt: Prompt = field(default_factory=Plain)

    @property
    def clip_kinds(self) -> tuple[ClipKind, ...]:
        """Kinds of clip that the files have this setup for."""
        return tuple(kind for kind in ClipKind if kind.is_denial or self.setup == "standard")

    def ask(self, clip: Clip, labels: LabelSet, *, seed: int, index: int = 0) -> Question:
        """Return the clip's question. Raises DataError if the files have none."""
        if not clip.kind.is_denial and self.setup != "standard":
            raise DataError(
                f"Setup {self.setup!r} was asked about presence clip {clip.id!r}, but the released files have it for denial clips only. "
                "Ask presence clips in setup 'standard'."
            )
        path = Path(self.questions) / (DENIAL_FILES[self.setup] if clip.kind.is_denial else PRESENCE_FILE)
        entry = read_questions(path).get(f"{clip.id}.mp4")
        if entry is None:
            raise DataError(
                f"{path} has no question about clip {clip.id!r}: it covers the released test clips only. Ask other clips with "
                "`actdeny_train.questions.mcq.Standard`, which draws its choices."
            )
        return Question(
            id=f"{clip.id}|{self.setup}|{self.prompt.name}|{index}",
            clip_ids=(clip.id,),
            setup=self.setup,
            prompt=self.prompt.name,
            text=self.prompt.render() + option_block(entry["choices"]),
            choices=tuple(entry["choices"]),
            answers=answer_labels(len(entry["choices"])),
            target=entry["none_index" if clip.kind.is_denial else "main_positive_index"],
            primary_distractor=entry.get("main_positive_index") if clip.kind.is_denial else None,
            none_choice=entry["none_index"],
            kind=clip.kind.value,
            group=clip.source,
        )


def parse_name(name: str, labels: LabelSet, where: str) -> tuple[str, bool, str]:
    """Return action, whether it is denied, and source number (``"g01"``) of a released name such as ``NotX/v_NotX_g01_c02.mp4``.

    The folder gives the class, whatever its casing; the file's own spelling varies.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise DataError(
            f"{where}: the video name {name!r} is not one of UCF101-AD. Denial clips are named Not<Class>/v_Not<Class>_gNN_cNN.mp4, "
            "presence clips <Class>/<Class>_gNN_cNN.mp4. Correct or remove the entry."
        )
    by_lowercase = {action.lower(): action for action in labels.actions}
    action = by_lowercase.get(match["action"].lower(), match["action"])
    return (
        labels.check(action, f"video name {name!r} of {where}"),
        match["not"] is not None,
        f"g{int(match['group']):02d}",
    )


@functools.cache
def read_questions(path: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of a released question file by video name. Raises DataError on a malformed entry."""
    if not path.is_file():
        raise _missing_files(path.parent, [path.name])
    keys = {"video_name", "choices", "none_index"}
    if path.name != DENIAL_FILES["primary_distractor_removed"]:
        keys |= {"main_positive", "main_positive_index"}
    labels = load_ucf101()
    entries: dict[str, dict[str, Any]] = {}
    for i, entry in enumerate(_json_list(path)):
        where = f"{path}, entry {i}"
        _check_entry(entry, keys, where)
        name = entry["video_name"]
        if name in entries:
            raise DataError(
                f"{where} repeats the video {name!r}. A clip has one question a file. Get the file anew, or remove one entry."
            )
        action, is_denial, _ = parse_name(name, labels, where)
        if is_denial == (path.name == PRESENCE_FILE):
            raise DataError(
                f"{where}: {name!r} is a {'denial' if is_denial else 'presence'} clip, but {path.name} is about "
                f"{'presence' if is_denial else 'denial'} clips, where another choice is right. Check that the files were not renamed."
            )
        if entry.get("main_positive", action).lower() != action.lower():
            raise DataError(
                f"{where}: main_positive is {entry['main_positive']!r}, but the video {name!r} is about {action!r}. Get the file anew."
            )
        entries[name] = entry
    return entries


def _check_entry(entry: Any, keys: set[str], where: str) -> None:
    if not isinstance(entry, dict) or set(entry) != keys:
        got = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
        unknown = [key for key in got if key not in keys] if isinstance(entry, dict) else []
        raise DataError(
            f"{where} has the keys {got}, but must have exactly {sorted(keys)}.{near_misses(unknown[0], keys) if unknown else ''} "
            "Get the file anew, or mend the entry."
        )
    for key in sorted(keys & {"video_name", "main_positive"}):
        if not isinstance(entry[key], str):
            raise DataError(f"{where}: {key} is {entry[key]!r}, but must be a string. Mend the entry.")
    choices = entry["choices"]
    if not isinstance(choices, list) or len(choices) < 2 or not all(isinstance(c, str) and c for c in choices):
        raise DataError(
            f"{where}: choices must be a list of at least 2 non-empty strings, but is {choices!r}. Mend the entry."
        )
    for key in sorted(keys & {"none_index", "main_positive_index"}):
        value = entry[key]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(choices):
            raise DataError(
                f"{where}: {key} is {value!r}, but must be a whole number from 0 to {len(choices) - 1}: a 0-based index into its "
                f"{len(choices)} choices. Mend the entry."
            )
    if entry.get("main_positive_index") == entry["none_index"]:
        raise DataError(f"{where}: none_index and main_positive_index are both {entry['none_index']}. Mend the entry.")


def read_types(path: Path) -> dict[str, ClipKind]:
    """Return the kind of each denial clip that a CSV file ``video_name,type`` names."""
    if not path.is_file():
        raise DataError(
            f"The types file {str(path)!r} does not exist. Correct `types`, or leave it out: then T1 and T2 stay undefined."
        )
    try:
        rows = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines(), strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"{path} is not a CSV file in UTF-8 ({error}). Save it anew with the header 'video_name,type'."
        ) from None
    header = rows[0] if rows else None
    if header != ["video_name", "type"]:
        raise DataError(f"{path}: the first line is {header}, but must be 'video_name,type'. Add this header.")
    kinds: dict[str, ClipKind] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        where = f"{path}:{number}"
        if len(row) != 2:
            raise DataError(f"{where}: the row {row} must have two values, video_name and type. Correct the row.")
        name, type_ = row
        if type_ not in TYPES:
            raise DataError(f"{where}: type is {type_!r}, but must be one of {', '.join(TYPES)}. Correct the row.")
        if not name.startswith("Not") or name in kinds:
            problem = "is listed twice" if name in kinds else "is no denial clip; only those have a type"
            raise DataError(f"{where}: {name!r} {problem}. Remove the row.")
        kinds[name] = TYPES[type_]
    return kinds


def read_train_names(path: Path) -> list[str]:
    """Return the released names of the clips that finetuning records mention under ``video`` or ``video_name``, sorted.

    Their layout was not published with certainty: folders before the class folder are ignored, and a clip may have
    several records.
    """
    names = set()
    for i, record in enumerate(_json_list(path)):
        video = (record.get("video") or record.get("video_name")) if isinstance(record, dict) else None
        if not isinstance(video, str):
            raise DataError(
                f"{path}, entry {i}: no video name. Each record must be an object with a string under 'video' or 'video_name'. Mend the "
                "file, or move it away: then train clips are the denial clips on disk that no question file names."
            )
        names.add("/".join(PurePosixPath(video).parts[-2:]))
    return sorted(names)


def _json_list(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON in UTF-8 ({error}). Get the file anew. {WHERE_TO_GET}") from None
    if not isinstance(content, list):
        raise DataError(
            f"{path} holds a JSON {type(content).__name__}, but must be a list of entries. Get the file anew. {WHERE_TO_GET}"
        )
    return content


def _missing_files(folder: Path, names: list[str]) -> DataError:
    return DataError(
        f"UCF101-AD: {len(names)} question files are missing in {str(folder)!r}: {', '.join(names)}. Set `questions` to the folder that "
        f"holds them. {WHERE_TO_GET}"
    )
