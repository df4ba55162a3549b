"""Stand-alone copies: the same behaviour, nothing imported from the package."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.evaluation.parsing import parse_response
from actdeny_train.export.benchmark.standalone import standalone

SHIPPED = "actdeny_train.export.benchmark.shipped"


@pytest.mark.parametrize("name", ["lmms_eval_utils", "vlmevalkit_dataset", "hf_videos", "scores"])
def test_nothing_of_the_package_is_imported(name: str) -> None:
    source = standalone(f"{SHIPPED}.{name}")
    imported = [
        alias.name if isinstance(node, ast.Import) else str(node.module)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    ]
    assert not [module for module in imported if module.startswith("actdeny")]
    assert source == standalone(f"{SHIPPED}.{name}")


def test_the_copied_parser_says_what_the_parser_says(tmp_path: Path, run_alone: Callable[..., Any]) -> None:
    (tmp_path / "copied.py").write_text(standalone("actdeny_train.evaluation.parsing"), encoding="utf-8")
    choices = ("A person is running.", "A person is rowing.", "None of the choices accurately describes this video.")
    texts = [
        "2",
        "Answer: 3",
        "None",
        "none of these",
        "A person is rowing. 2",
        "",
        "I cannot tell.",
        "1 or 2",
        "<think>1",
        "7",
    ]
    code = (
        "import copied\nchoices, texts = VALUE\n"
        "parsed = [copied.parse_response(t, choices, ['1', '2', '3'], none_choice=2) for t in texts]\n"
        "print(json.dumps([[p.choice, p.status.value] for p in parsed]))"
    )
    own = [parse_response(text, choices, ("1", "2", "3"), none_choice=2) for text in texts]
    assert run_alone(tmp_path, code, (choices, texts)) == json.loads(json.dumps([[p.choice, p.status] for p in own]))
    assert {p.status.value for p in own} > {"ok", "unparsed", "truncated"}


def test_what_stands_alone_in_no_way_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"only ParseStatus has a copy: \['Clip'\]"):
        standalone("actdeny_train.export.benchmark.checksums")
