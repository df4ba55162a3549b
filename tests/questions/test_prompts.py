"""The assembled texts are compared with the released scripts' layout, written out here by hand."""

from pathlib import Path

import pytest

from actdeny_train.causal import variants
from actdeny_train.errors import ConfigError
from actdeny_train.questions.prompts import CausalAct, Plain, PromptFile, option_block

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_plain_question_is_the_released_one() -> None:
    text = Plain().render() + option_block(["A person is one.", "None of the choices accurately describes this video."])
    assert text == (
        "The video shows a person or a group of people performing an action. From the list of options below, select the caption that "
        "most accurately describes what is happening in the video. There is also a choice if none of the other captions apply. "
        "Review the video and captions carefully. Only one choice is correct. Reply with the choice number only.\n"
        "1. A person is one.\n"
        "2. None of the choices accurately describes this video."
    )


def test_paper_prompt_is_followed_by_choices_on_the_next_line() -> None:
    text = CausalAct().render() + option_block(["One.", "Two."])
    prompt = (FIXTURES / "causalact_prompt.txt").read_text(encoding="utf-8").rstrip("\n")
    assert text == prompt + "\n1. One.\n2. Two."


def test_released_prompt_ends_in_an_indent_before_the_first_choice_only() -> None:
    text = CausalAct(style="released").render() + option_block(["One.", "Two."])
    assert text.startswith("\n        Your primary task is to act as a causal reasoning engine")
    assert text.endswith(
        "\n        Reply with the choice number only.\n"
        "\n"
        "        Output format: reply with the choice number only.\n"
        "        1. One.\n"
        "2. Two."
    )


@pytest.mark.parametrize(
    ("prompt", "name"),
    [
        (Plain(), "plain"),
        (CausalAct(), "causalact"),
        (CausalAct(style="released"), "causalact+released"),
        (CausalAct(graph=variants.pruned()), "causalact_pruned"),
        (CausalAct(graph=variants.person_only(), style="released"), "causalact_person_only+released"),
    ],
)
def test_names(prompt: Plain | CausalAct, name: str) -> None:
    assert prompt.name == name


def test_eleven_choices_are_numbered_from_one_and_left_as_they_are() -> None:
    choices = [f"Caption {{number}} {i}." for i in range(11)]
    lines = option_block(choices).split("\n")
    assert [line.split(". ", 1) for line in lines] == [[str(i + 1), choices[i]] for i in range(11)]


def test_a_prompt_of_the_users_own(tmp_path: Path) -> None:
    file, yes_no = tmp_path / "strict.txt", tmp_path / "strict_yes_no.txt"
    file.write_text("Be strict.\nReply with the number.\n\n", encoding="utf-8")
    yes_no.write_text("Be strict. Reply yes or no.", encoding="utf-8")
    prompt = PromptFile(str(file), str(yes_no))
    assert prompt.name == "strict"
    assert prompt.render() == "Be strict.\nReply with the number.\n"
    assert prompt.render_yes_no("Is it so?") == "Be strict. Reply yes or no.\nIs it so?"


def test_a_prompt_of_the_users_own_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "strict.txt"
    with pytest.raises(ConfigError, match=r"The file '.*strict.txt' of a PromptFile cannot be read \(.*No such file"):
        PromptFile(str(file))
    file.write_text(" \n")
    with pytest.raises(ConfigError, match=r"The file '.*strict.txt' of a PromptFile is empty. Write the text"):
        PromptFile(str(file))
    other = tmp_path / "other.txt"
    other.write_text("Be strict.")
    with pytest.raises(
        ConfigError, match=r"stands before choices, and a yes/no question has none. Set its yes_no_file"
    ):
        PromptFile(str(other)).render_yes_no("Is it so?")
    with pytest.raises(ConfigError, match=r"The yes_no_file 'nowhere.txt' of a PromptFile cannot be read"):
        PromptFile(str(other), "nowhere.txt")
