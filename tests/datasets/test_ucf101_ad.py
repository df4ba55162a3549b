"""Synthetic twins of the released files; the excerpts of the real ones are read where the shared material is at hand."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.actions.labels import load_ucf101
from actdeny_train.datasets.ucf101_ad import (
    DENIAL_FILES,
    PRESENCE_FILE,
    TRAIN_FILE,
    UCF101AD,
    ReleasedQuestions,
    parse_name,
)
from actdeny_train.errors import DataError
from actdeny_train.questions.prompts import CausalAct
from actdeny_train.types import ClipKind

ARCHERY = "NotArchery/v_NotArchery_g01_c02.mp4"
HANDSTAND = "NotHandstandPushups/v_NotHandstandPushups_g11_c05.mp4"
NONE = "None of the choices accurately describes this video."


def make_entry(name: str, action: str, action_index: int, none_index: int) -> dict[str, Any]:
    choices = [f"Caption {i} of {name}" for i in range(11)]
    choices[none_index] = NONE
    return {
        "video_name": name,
        "main_positive": action,
        "choices": choices,
        "main_positive_index": action_index,
        "none_index": none_index,
    }


def make_files(folder: Path) -> Path:
    """Write all four question files; returns the root, whose folder mcq_questions holds them."""
    questions = folder / "mcq_questions"
    questions.mkdir(parents=True)
    denial = [make_entry(ARCHERY, "Archery", 4, 6), make_entry(HANDSTAND, "HandstandPushups", 1, 0)]
    presence = [
        make_entry("Archery/Archery_g02_c01.mp4", "Archery", 7, 1),
        make_entry("Archery/Archery_g_01_c01.mp4", "Archery", 2, 10),
    ]
    removed = [{key: entry[key] for key in ("video_name", "choices", "none_index")} for entry in denial]
    contents = {
        PRESENCE_FILE: presence,
        DENIAL_FILES["standard"]: denial,
        DENIAL_FILES["explicit_denial"]: denial,
        DENIAL_FILES["primary_distractor_removed"]: removed,
    }
    for name, entries in contents.items():
        (questions / name).write_text(json.dumps(entries))
    return folder


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def edit(root: Path, file: str, change: Any) -> None:
    path = root / "mcq_questions" / file
    entries = json.loads(path.read_text())
    change(entries)
    path.write_text(json.dumps(entries))


def test_test_clips_come_from_the_question_files(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    touch(root, f"test/{ARCHERY}")
    clips = UCF101AD(str(root)).clips("test")
    assert [(clip.id, clip.action, clip.kind, clip.source, clip.path) for clip in clips] == [
        ("Archery/Archery_g02_c01", "Archery", "presence", "Archery/g02", "Archery/Archery_g02_c01.mp4"),
        ("Archery/Archery_g_01_c01", "Archery", "presence", "Archery/g01", "Archery/Archery_g_01_c01.mp4"),
        ("NotArchery/v_NotArchery_g01_c02", "Archery", "denial", "NotArchery/g01", f"test/{ARCHERY}"),
        (HANDSTAND.removesuffix(".mp4"), "HandstandPushups", "denial", "NotHandstandPushups/g11", HANDSTAND),
    ]


@pytest.mark.parametrize("folder", ["", "train/"])
def test_train_clips_are_the_other_denial_clips_on_disk(tmp_path: Path, folder: str) -> None:
    root = make_files(tmp_path)
    other = "NotArchery/v_NotArchery_g03_c01.mp4"
    touch(root, ARCHERY, f"{folder}{other}", "Archery/Archery_g09_c01.mp4", "test/NotArchery/v_NotArchery_g04_c01.mp4")
    clips = UCF101AD(str(root)).clips("train")
    assert [(clip.id, clip.path, clip.kind) for clip in clips] == [
        ("NotArchery/v_NotArchery_g03_c01", f"{folder}{other}", ClipKind.DENIAL)
    ]


@pytest.mark.parametrize("key", ["video", "video_name"])
def test_finetuning_records_say_which_clips_are_for_training(tmp_path: Path, key: str) -> None:
    root = make_files(tmp_path)
    touch(root, "NotArchery/v_NotArchery_g03_c01.mp4")
    records = [{key: "anywhere/train/NotYoYo/v_NotYoYo_g05_c01.mp4", "conversations": []}] * 2
    (root / "mcq_questions" / TRAIN_FILE).write_text(json.dumps(records))
    assert [clip.id for clip in UCF101AD(str(root)).clips("train")] == ["NotYoYo/v_NotYoYo_g05_c01"]


def test_finetuning_record_without_a_video(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    (root / "mcq_questions" / TRAIN_FILE).write_text('[{"videos": ["a"]}]')
    with pytest.raises(
        DataError, match=r"entry 0: no video name\. Each record must be an object with a string under 'video'"
    ):
        UCF101AD(str(root)).clips("train")


def test_finetuning_record_about_a_test_clip(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    records = [{"video": "NotYoYo/v_NotYoYo_g05_c01.mp4"}, {"video": ARCHERY}]
    (root / "mcq_questions" / TRAIN_FILE).write_text(json.dumps(records))
    with pytest.raises(
        DataError, match=rf"1 of 2 clips for finetuning are asked about in the question files, such as '{ARCHERY}'"
    ):
        UCF101AD(str(root)).clips("train")


def test_hidden_files_are_no_clips(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    name = "NotArchery/v_NotArchery_g03_c01.mp4"
    touch(root, name, "NotArchery/._v_NotArchery_g03_c01.mp4", "train/NotArchery/.v_NotArchery_g03_c02.mp4")
    assert [clip.path for clip in UCF101AD(str(root)).clips("train")] == [name]


def test_train_and_test_clips_of_one_source(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    touch(root, ARCHERY, "NotArchery/v_NotArchery_g01_c03.mp4")
    with pytest.raises(DataError, match="Source 'NotArchery/g01' lies in two splits"):
        UCF101AD(str(root)).clips("train")


def test_types_of_denial_clips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = make_files(tmp_path)
    types = tmp_path / "types.csv"
    types.write_text(f"video_name,type\n{ARCHERY},2\nNotYoYo/v_NotYoYo_g05_c01.mp4,context_only\n")
    kinds = {clip.id: clip.kind for clip in UCF101AD(str(root), types=str(types)).clips("test")}
    assert kinds["NotArchery/v_NotArchery_g01_c02"] is ClipKind.DIFFERENT_MOTION
    assert kinds[HANDSTAND.removesuffix(".mp4")] is ClipKind.DENIAL
    assert (
        "1 of 2 rows name clips that are not here, such as 'NotYoYo/v_NotYoYo_g05_c01.mp4'" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("video,type\n", r"the first line is \['video', 'type'\], but must be 'video_name,type'"),
        (
            f"video_name,type\n{ARCHERY},3\n",
            r"types\.csv:2: type is '3', but must be one of 1, 2, context_only, different_motion",
        ),
        (f"video_name,type\n{ARCHERY},1\n{ARCHERY},1\n", r"types\.csv:3: 'NotArchery/.*' is listed twice"),
        ("", "the first line is None, but must be 'video_name,type'"),
        (f"video_name,type\n{ARCHERY},1,2\n", r"types\.csv:2: the row \[.*\] must have two values"),
        (f"video_name,type\n\n{ARCHERY}\n", r"types\.csv:3: the row \[.*\] must have two values"),
        (f'video_name,type\n{ARCHERY},1\n"NotYoYo', r"types\.csv is not a CSV file in UTF-8 \(.*\)\. Save it anew"),
        ("video_name,type\ncaf\udce9,1\n", r"types\.csv is not a CSV file in UTF-8 \(.*\)\. Save it anew"),
        ("video_name,type\nArchery/Archery_g01_c01.mp4,1\n", r"'Archery/Archery_g01_c01\.mp4' is no denial clip"),
    ],
)
def test_malformed_types(tmp_path: Path, content: str, message: str) -> None:
    root = make_files(tmp_path)
    (tmp_path / "types.csv").write_text(content, errors="surrogateescape")
    with pytest.raises(DataError, match=message):
        UCF101AD(str(root), types=str(tmp_path / "types.csv")).clips("test")


def test_missing_types(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"The types file '.*' does not exist\..*leave it out: then T1 and T2 stay undefined"
    ):
        UCF101AD(str(make_files(tmp_path)), types="nowhere.csv").clips("test")


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("NotApplyEyeMakeup/v_NotApplyEyeMakeup_g01_c01.mp4", ("ApplyEyeMakeup", True, "g01")),
        ("NotHammerThrow/v_NotHammerThrow_g03_c23.mp4", ("HammerThrow", True, "g03")),
        ("Archery/Archery_g_01_c01.mp4", ("Archery", False, "g01")),
        ("Archery/Archery_g_01_c_01.mp4", ("Archery", False, "g01")),
        ("HandstandPushups/HandStandPushups_g02_c01.mp4", ("HandstandPushups", False, "g02")),
        ("NotHandStandPushups/v_NotHandStandPushups_g02_c01.mp4", ("HandstandPushups", True, "g02")),
        ("Nunchucks/Nunchucks_g01_c01.mp4", ("Nunchucks", False, "g01")),
        ("NotNunchucks/v_NotNunchucks_g1_c1.mp4", ("Nunchucks", True, "g01")),
    ],
)
def test_names(name: str, parsed: tuple[str, bool, str]) -> None:
    assert parse_name(name, load_ucf101(), "here") == parsed


@pytest.mark.parametrize(
    "name", ["v_NotArchery_g01_c01.mp4", "NotArchery/clip.mp4", "a/NotArchery/v_NotArchery_g01_c01.mp4"]
)
def test_names_of_another_form(name: str) -> None:
    with pytest.raises(
        DataError,
        match=r"here: the video name '.*' is not one of UCF101-AD\. Denial clips are named Not<Class>/v_Not<Class>_gNN_cNN\.mp4",
    ):
        parse_name(name, load_ucf101(), "here")


def test_name_of_an_unknown_class() -> None:
    with pytest.raises(
        DataError, match=r"Unknown action 'Archry' in video name 'NotArchry/.*' of here.*Did you mean 'Archery'"
    ):
        parse_name("NotArchry/v_NotArchry_g01_c01.mp4", load_ucf101(), "here")


def test_missing_question_files(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        UCF101AD(str(tmp_path)).clips("test")
    assert str(error.value) == (
        f"UCF101-AD: 2 question files are missing in {str(tmp_path / 'mcq_questions')!r}: {PRESENCE_FILE}, {DENIAL_FILES['standard']}. "
        "Set `questions` to the folder that holds them. Question files: folder mcq_questions/ of "
        "https://github.com/raiyaan-abdullah/Learn-to-Deny; clips: Hugging Face dataset raiyaanabdullah/UCF101-AD (CC-BY-NC-SA-4.0)."
    )


def test_released_standard_questions(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    source = ReleasedQuestions(str(root / "mcq_questions"))
    data = UCF101AD(str(root))
    presence, _, denial, _ = [source.ask(clip, data.labels, seed=0) for clip in data.clips("test")]
    assert (presence.target, presence.primary_distractor, presence.none_choice) == (7, None, 1)
    assert (denial.target, denial.primary_distractor, denial.none_choice) == (6, 4, 6)
    assert denial.choices[6] == NONE and denial.answers[6] == "7"
    assert denial.text.endswith(f"\n7. {NONE}\n8. Caption 7 of {ARCHERY}\n9. Caption 8 of {ARCHERY}\n10. Caption 9 of {ARCHERY}\n11. "
                                f"Caption 10 of {ARCHERY}")  # fmt: skip
    assert (denial.id, denial.kind, denial.group) == (
        "NotArchery/v_NotArchery_g01_c02|standard|plain|0",
        "denial",
        "NotArchery/g01",
    )


@pytest.mark.parametrize(("setup", "primary"), [("explicit_denial", 4), ("primary_distractor_removed", None)])
def test_released_questions_of_other_setups(tmp_path: Path, setup: Any, primary: int | None) -> None:
    root = make_files(tmp_path)
    source = ReleasedQuestions(str(root / "mcq_questions"), setup, CausalAct())
    data = UCF101AD(str(root))
    presence, _, denial, _ = data.clips("test")
    question = source.ask(denial, data.labels, seed=0)
    assert (question.setup, question.prompt, question.target) == (setup, "causalact", 6)
    assert question.primary_distractor == primary
    with pytest.raises(
        DataError, match=rf"Setup '{setup}' was asked about presence clip 'Archery/.*for denial clips only"
    ):
        source.ask(presence, data.labels, seed=0)


def test_clip_that_the_files_do_not_ask_about(tmp_path: Path) -> None:
    root = make_files(tmp_path)
    touch(root, "NotArchery/v_NotArchery_g03_c01.mp4")
    data = UCF101AD(str(root))
    with pytest.raises(
        DataError,
        match="has no question about clip 'NotArchery/v_NotArchery_g03_c01': it covers the released test clips",
    ):
        ReleasedQuestions(str(root / "mcq_questions")).ask(data.clips("train")[0], data.labels, seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.append(e[0]), r"entry 2 repeats the video 'NotArchery/"),
        (
            lambda e: e[1].update(nones_index=1),
            r"entry 1 has the keys \[.*but must have exactly .*Did you mean 'none_index'",
        ),
        (lambda e: e[1].pop("main_positive"), "entry 1 has the keys"),
        (lambda e: e.__setitem__(0, "x"), "entry 0 has the keys str"),
        (
            lambda e: e[0].update(none_index=11),
            "entry 0: none_index is 11, but must be a whole number from 0 to 10: a 0-based index",
        ),
        (lambda e: e[0].update(main_positive_index=-1), "main_positive_index is -1"),
        (lambda e: e[0].update(none_index=True), "none_index is True"),
        (lambda e: e[0].update(video_name=None), "video_name is None, but must be a string"),
        (lambda e: e[0].update(none_index=4), "none_index and main_positive_index are both 4"),
        (
            lambda e: e[0].update(choices=["a"]),
            r"choices must be a list of at least 2 non-empty strings, but is \['a'\]",
        ),
        (
            lambda e: e[0].update(main_positive="YoYo"),
            "main_positive is 'YoYo', but the video 'NotArchery/.*' is about 'Archery'",
        ),
        (
            lambda e: e[0].update(video_name="Archery/Archery_g01_c01.mp4"),
            "'Archery/Archery_g01_c01.mp4' is a presence clip, but .* is about denial clips",
        ),
    ],
)
def test_malformed_entries(tmp_path: Path, change: Any, message: str) -> None:
    root = make_files(tmp_path)
    edit(root, DENIAL_FILES["standard"], change)
    with pytest.raises(DataError, match=message) as error:
        UCF101AD(str(root)).clips("test")
    assert DENIAL_FILES["standard"] in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"), [("[{", "is not valid JSON in UTF-8"), ("{}", "holds a JSON dict, but must be a list")]
)
def test_files_that_are_no_list(tmp_path: Path, content: str, message: str) -> None:
    root = make_files(tmp_path)
    (root / "mcq_questions" / PRESENCE_FILE).write_text(content)
    with pytest.raises(DataError, match=message):
        UCF101AD(str(root)).clips("test")


@pytest.fixture
def excerpts(shared: Path, tmp_path: Path) -> Path:
    for path in (shared / "annotations" / "ucf101_ad").glob("*.excerpt.json"):
        shutil.copy(path, tmp_path / path.name.replace(".excerpt", ""))
    return tmp_path


@pytest.mark.shared
def test_excerpts_of_the_released_files(excerpts: Path) -> None:
    data = UCF101AD(str(excerpts), questions=str(excerpts))
    labels, clips = data.labels, data.clips("test")
    by_id = {clip.id: clip for clip in clips}
    assert by_id["Archery/Archery_g_01_c01"].source == "Archery/g01"
    assert by_id["NotHandstandPushups/v_NotHandstandPushups_g11_c05"].action == "HandstandPushups"
    for clip in clips:
        question = ReleasedQuestions(str(excerpts)).ask(clip, labels, seed=0)
        assert question.none_choice is not None and question.choices[question.none_choice] == NONE
        action = question.primary_distractor if clip.kind.is_denial else question.target
        assert action is not None
        assert question.choices[action].rstrip(".") == labels.description(clip.action).rstrip(".")
        assert (question.target == question.none_choice) == clip.kind.is_denial


@pytest.mark.shared
def test_setups_of_the_released_files_differ_in_one_choice(excerpts: Path) -> None:
    data = UCF101AD(str(excerpts), questions=str(excerpts))
    clip = next(clip for clip in data.clips("test") if clip.id.startswith("NotApplyEyeMakeup"))
    standard, explicit, removed = (
        ReleasedQuestions(str(excerpts), setup).ask(clip, data.labels, seed=0)  # type: ignore[arg-type]
        for setup in ("standard", "explicit_denial", "primary_distractor_removed")
    )
    changed = [i for i in range(11) if standard.choices[i] != explicit.choices[i]]
    assert changed == [standard.target] == [explicit.target]
    changed = [i for i in range(11) if standard.choices[i] != removed.choices[i]]
    assert changed == [standard.primary_distractor] and removed.primary_distractor is None
