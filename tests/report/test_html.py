"""The page: sound HTML, every number that of metrics.json, nothing from outside, the same bytes twice."""

import itertools
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actdeny_train.cli import report
from actdeny_train.errors import ConfigError
from actdeny_train.metrics.published import overall_note
from actdeny_train.questions.frozen import read_questions, write_questions
from actdeny_train.report.cells import format_p
from actdeny_train.report.html import write_report
from tests.report.pages import Node, parse


@pytest.fixture(scope="module")
def file(two_runs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    return write_report(two_runs, folder / "report.html", markdown=folder / "report.md", latex=folder / "report.tex")


@pytest.fixture(scope="module")
def page(file: Path) -> Node:
    return parse(file)


@pytest.fixture(scope="module")
def metrics(two_runs: tuple[Path, Path]) -> dict[str, dict[str, Any]]:
    return {folder.name: json.loads((folder / "metrics.json").read_text()) for folder in two_runs}


# Numbers


def assert_estimate(cell: Node, wanted: dict[str, Any], unit: str = "percent") -> None:
    written = {"percent": lambda x: f"{100 * x:.1f}", "number": lambda x: f"{x:.2f}"}[unit]
    assert cell.attributes["data-exact"] == ("" if wanted["value"] is None else repr(wanted["value"]))
    assert cell.one("span", class_="n").text == f"n {wanted['n']:,}"
    intervals = [span.text for span in cell.all("span", class_="interval")]
    if wanted["value"] is None:
        abbreviation = cell.one("abbr")
        assert (abbreviation.text, abbreviation.attributes["title"]) == ("–", wanted["reason"])
        assert intervals == []
        return
    assert cell.text.startswith(written(wanted["value"]))
    assert intervals == ([] if wanted["low"] is None else [f"[{written(wanted['low'])}, {written(wanted['high'])}]"])


def columns_of(row: Node) -> dict[str, Node]:
    return {cell.attributes["data-column"]: cell for cell in row.all("td")}


CELL_TABLES: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "results": (("t1", "t2", "overall_ad", "ap", "overall", "hm"), lambda c: c, "percent"),
    "errors": (("false_denial", "hallucinated_action", "primary_distractor"), lambda c: c, "percent"),
    "pairs": (("pair", "agreement", "score_accuracy"), lambda c: c, "percent"),
    "answers-denial": (("none", "primary_distractor", "refusal"), lambda c: c["answers_on_denial"], "percent"),
    "answers-presence": (("target_action", "none", "unparsed"), lambda c: c["answers_on_presence"], "percent"),
    "abstention": (("auroc_none", "aurc", "ece_denial", "ece_presence"), lambda c: c["abstention"], "number"),
}


@pytest.mark.parametrize("key", CELL_TABLES)
def test_numbers_of_setups_are_those_of_metrics_json(page: Node, metrics: dict[str, dict[str, Any]], key: str) -> None:
    names, part, unit = CELL_TABLES[key]
    rows = page.one("table", id=key).one("tbody").all("tr")
    told = [tuple(row.attributes[f"data-{name}"] for name in ("setup", "prompt", "run")) for row in rows]
    setups = metrics["before"]["setups"]
    denial = {(s, p, run) for s in setups if s != "graph_vqa" for p in setups[s] for run in metrics}
    assert set(told) == denial and len(told) == len(denial)
    for (setup, prompt, run), row in zip(told, rows, strict=True):
        cell = metrics[run]["setups"][setup][prompt]
        for name in names:
            assert_estimate(columns_of(row)[name], part(cell)[name], unit)
        if key == "errors":
            counts = {name: columns_of(row)[name].text for name in ("unparsed", "refusal", "truncated", "error")}
            assert counts == {name: f"{cell[name]:,}" for name in counts}


def test_detection_and_sycophancy_are_those_of_metrics_json(page: Node, metrics: dict[str, dict[str, Any]]) -> None:
    for row in page.one("table", id="detection").one("tbody").all("tr"):
        wanted = metrics[row.attributes["data-run"]]["detection"][row.attributes["data-prompt"]]
        for name, cell in columns_of(row).items():
            if name != "run":
                assert_estimate(cell, wanted[name], "percent" if "rate" in name else "number")
    for row in page.one("table", id="sycophancy").one("tbody").all("tr"):
        wanted = metrics[row.attributes["data-run"]]["sycophancy"][row.attributes["data-prompt"]]
        cells = columns_of(row)
        for side in ("all", "t1", "t2"):
            assert_estimate(cells[f"r_{side}"], wanted[side]["r"], "number")
            assert cells[f"p_{side}"].text == format_p(wanted[side]["p"])
        for name in ("yes_given_wrong", "yes_given_right", "yes_primary", "yes_random"):
            assert_estimate(cells[name], wanted[name])


def test_classes_places_graph_questions_and_cost(page: Node, metrics: dict[str, dict[str, Any]]) -> None:
    cell = metrics["after"]["setups"]["standard"]["causalact"]
    for row in page.one("table", id="classes-standard-causalact").all("tr", data_run="after"):
        wanted = cell["by_class"][row.attributes["data-class"]]
        for name in ("t1", "t2", "overall_ad", "ap", "hm"):
            assert_estimate(columns_of(row)[name], {**wanted[name], "low": None, "high": None})
    places = page.one("table", id="positions-standard-causalact").all("tr", data_run="after")
    for row, wanted in zip(places, cell["positions"], strict=True):
        assert row.attributes["data-place"] == str(wanted["position"] + 1)
        for name in ("chosen", "target", "right"):
            assert_estimate(columns_of(row)[name], wanted[name])
    for row in page.one("table", id="graph").one("tbody").all("tr"):
        level, name = row.attributes["data-question"].split(": ")
        key = {"kind": "graph_vqa", "group": "graph_vqa_groups"}[level]
        assert_estimate(columns_of(row)["run1"], metrics["after"][key][name])
    cost = columns_of(page.one("table", id="cost").one("tbody").all("tr")[0])
    # 18 forests of 2,000 tokens, 9,000 had each question been asked alone, two seconds each.
    assert {
        key: cost[key].text for key in ("num_clips", "num_tokens", "saved", "process_s", "peak_gib", "devices")
    } == {
        "num_clips": "18",
        "num_tokens": "36,000",
        "saved": "4.5",
        "process_s": "0.6",
        "peak_gib": "3.5",
        "devices": "NVIDIA H200",
    }


def test_the_head_tells_what_each_run_is(page: Node) -> None:
    before, _ = page.one("section", id="runs-section").all("dl")
    facts = {fact.attributes["data-fact"]: fact.text for fact in before.all("dd")}
    assert facts == {
        "model": "actdeny_train.models.qwen2_5_vl.load",
        "checkpoint": "Qwen/Qwen2.5-VL-3B-Instruct",
        "frames": "middle(num_frames=6)",
        "view": "video",
        "answers": "score",
        "precision": "bfloat16",
        "weights": "weights-before",
        "split": "test",
        "clips used": "18",
        "quarantined": "1",
        "predictions": "222",
        "versions": "torch 2.8, transformers 5.24",
    }


def test_published_rows_come_with_the_reason_why_overall_differs(page: Node) -> None:
    details = next(d for d in page.all("details") if d.all("table", id="published"))
    assert "open" not in details.attributes
    assert overall_note() in details.text
    best = details.one("tr", data_model="VideoLLaMA3-7B")
    assert [cell.text for cell in best.all("td")] == ["49.4", "53.4", "51.5", "96.0", "58.3", "67.0"]


def test_footnotes_stand_below_their_table(page: Node) -> None:
    marks = page.one("table", id="results").all("a", class_="mark")
    assert {mark.attributes["href"] for mark in marks} == {"#results-1"}
    assert page.one("li", id="results-1").text == "no presence clips"
    targets = {n.attributes["id"] for n in page.walk() if "id" in n.attributes}
    links = {n.attributes["href"] for n in page.all("a")}
    assert all(link.startswith("#") and link[1:] in targets for link in links)


def test_ids_are_unique(page: Node) -> None:
    ids = [n.attributes["id"] for n in page.walk() if "id" in n.attributes]
    assert len(set(ids)) == len(ids)


# Soundness


def test_nothing_comes_from_outside(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"(?i)https?:|//[a-z]|@import|url\(", re.sub(r"data:image/jpeg;base64,[\w+/=]+", "", text))
    page = parse(file)
    assert {img.attributes["src"].partition(",")[0] for img in page.all("img")} == {"data:image/jpeg;base64"}
    assert not page.all("link") and all("src" not in script.attributes for script in page.all("script"))
    assert "default-src 'none'" in page.one("meta", http_equiv="Content-Security-Policy").attributes["content"]


def test_charts_are_sound_and_told_in_words(file: Path, page: Node) -> None:
    charts = re.findall(r"<svg.*?</svg>", file.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(charts) > 40
    for chart in charts:
        root = ET.fromstring(chart)
        assert root.attrib.get("aria-hidden") == "true" or (root.attrib["role"] == "img" and root.attrib["aria-label"])
    colours = re.findall(r"(?:fill|stroke|style)=\"[^\"]*", "".join(charts))
    assert not colours, "colours are classes, so that light and dark both work"


def test_headings_do_not_skip_a_level(page: Node) -> None:
    levels = [int(n.tag[1]) for n in page.walk() if re.fullmatch("h[1-6]", n.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_pictures_and_tables_have_names(page: Node) -> None:
    assert all(img.attributes["alt"] for img in page.all("img"))
    assert all(table.one("caption").text for table in page.all("table"))
    for table in page.all("table"):
        assert all(cell.attributes["scope"] == "col" for cell in table.one("thead").all("th"))
        assert all(len(row.all("th")) == 1 for row in table.one("tbody").all("tr"))
    regions = page.all("div", class_="scroll")
    assert len(regions) == len(page.all("table"))
    assert all(r.attributes["aria-label"] and r.attributes["tabindex"] == "0" for r in regions)


def test_the_same_folders_give_the_same_bytes(file: Path, two_runs: tuple[Path, Path], tmp_path: Path) -> None:
    again = write_report(two_runs, tmp_path / "again.html", markdown=tmp_path / "a.md", latex=tmp_path / "a.tex")
    assert again.read_bytes() == file.read_bytes()
    assert (tmp_path / "a.md").read_bytes() == file.with_suffix(".md").read_bytes()
    assert (tmp_path / "a.tex").read_bytes() == file.with_suffix(".tex").read_bytes()


def test_everything_is_escaped(make_run: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_run("<b>&amp; run")
    evil = "A <script>alert('x')</script> \"caption\" & more </pre>"
    questions = [
        replace(q, choices=(evil, *q.choices[1:]), text=f"{evil}\n{q.text}") if q.none_choice is not None else q
        for q in read_questions(folder / "questions.jsonl")
    ]
    write_questions(folder / "questions.jsonl", questions)
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    rows = ({**line, "text": evil, "action": "<i>Archery</i>"} for line in lines)
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = parse(write_report([folder], tmp_path / "report.html"))
    assert len(page.all("script")) == 1
    assert not page.all("i", class_="")
    assert any(evil in span.text for span in page.all("span", class_="words"))
    assert any(q.text == evil for q in page.all("q"))
    assert any(pre.text.startswith(evil) for pre in page.all("pre"))
    assert all(a.attributes["data-class"] == "<i>Archery</i>" for a in page.all("article"))
    assert page.one("head").one("title").text == "Can it deny? <b>&amp; run"


# The gallery


def test_filters_offer_what_the_clips_have(page: Node, two_runs: tuple[Path, Path]) -> None:
    clips = page.all("article", class_="clip")
    for folder in two_runs:
        lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
        wrong = [x for x in lines if x["setup"] != "graph_vqa" and x["choice"] != x["target"]]
        assert len([c for c in clips if c.attributes["data-run"] == folder.name]) == min(60, len(wrong))
    selects = {select.attributes["data-filter"]: select for select in page.all("select")}
    assert list(selects) == ["run", "class", "type", "setup", "prompt", "error"]
    for key, select in selects.items():
        offered = [option.attributes["value"] for option in select.all("option")]
        assert offered[0] == "" and len(set(offered)) == len(offered)
        assert set(offered[1:]) == {clip.attributes[f"data-{key}"] for clip in clips}
    script = page.one("script").text
    assert 'querySelectorAll("article.clip")' in script and '"data-" + s.dataset.filter' in script


def test_a_clip_tells_what_was_right_and_what_was_chosen(page: Node, two_runs: tuple[Path, Path]) -> None:
    lines = [json.loads(line) for line in (two_runs[1] / "predictions.jsonl").read_text().splitlines()]
    texts = {line["text"] for line in lines}
    for clip in page.all("article", data_run="after"):
        assert len(clip.all("b", class_="right")) == 1
        statuses = {"refusal", "unparsed", "truncated", "error"}
        has_choice = clip.attributes["data-error"] not in statuses
        assert len(clip.all("b", class_="wrong")) == has_choice
        assert clip.one("q").text in texts
        shares = [float(m.attributes["value"]) for m in clip.all("meter")]
        assert sum(shares) == pytest.approx(1, abs=0.001)
        assert len(clip.all("img")) == 6


def test_a_long_response_is_folded_but_whole(make_run: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_run()
    text = "First, the <video> shows. " * 60
    lines = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    (folder / "predictions.jsonl").write_text("".join(json.dumps({**line, "text": text}) + "\n" for line in lines))
    clip = parse(write_report([folder], tmp_path / "report.html")).all("article")[0]
    folded = next(d for d in clip.all("details") if d.one("summary").text == "Response, 1,560 characters")
    assert folded.one("pre").text == text and not clip.all("q")


# What is missing


def test_metrics_of_an_older_version(make_run: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_run()
    metrics = json.loads((folder / "metrics.json").read_text())
    newer = ("pair", "by_class", "by_source", "positions", "positions_none", "answers_on_denial", "answers_on_presence")
    for prompts in metrics["setups"].values():
        for cell in prompts.values():
            for key in (*newer, "abstention", "agreement", "score_accuracy", "strict", "rotations"):
                cell.pop(key, None)
    for key in ("sycophancy", "detection", "cost", "clips"):
        metrics.pop(key, None)
    (folder / "metrics.json").write_text(json.dumps(metrics))
    for name in ("questions.jsonl", "clips.jsonl", "run.json", "config.yaml"):
        (folder / name).unlink()
    page = parse(write_report([folder], tmp_path / "report.html", markdown=tmp_path / "r.md", latex=tmp_path / "r.tex"))
    notes = [p.text for p in page.one("aside", class_="notes").all("p")]
    assert notes == [
        "run: the folder has no questions.jsonl, no clips.jsonl, no run.json, no config.yaml.",
        "run: metrics.json was written by an older version and has no pair accuracy, no kinds of answers, no metrics by class, no choices "
        "by place, no certainty, no detection, no sycophancy. Evaluate again to have it written anew; answers that are there are kept.",
    ]
    left_out = [p.text for p in page.all("p", class_="nothing")]
    assert left_out == [
        "Left out: no metrics.json tells the kinds of answers.",
        "Left out: no metrics.json has a pair accuracy.",
        "Left out: no metrics.json tells of certainty.",
        "Left out: no metrics.json has metrics by class, by place or by certainty.",
        "Left out: no metrics.json tells of detection. It needs the setup yes_no_primary.",
        "Left out: no metrics.json tells of sycophancy. It needs the setups standard and yes_no_primary.",
        "One run alone: name two or more on the same questions to compare them.",
        "Left out: no metrics.json tells of cost.",
    ]
    assert [t.attributes["id"] for t in page.all("table")] == [
        "results",
        "prompts",
        "published",
        "published-finetuned",
        "errors",
        "graph",
        "others",
    ]
    assert "evaluate again to see clips" in page.one("section", id="gallery-section").text
    assert not page.all("article")


def test_an_old_run_beside_a_new_one_has_dashes(
    two_runs: tuple[Path, Path], make_run: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_run("old")
    metrics = json.loads((folder / "metrics.json").read_text())
    del metrics["setups"]["standard"]["plain"]["pair"]
    (folder / "metrics.json").write_text(json.dumps(metrics))
    page = parse(write_report([two_runs[0], folder], tmp_path / "report.html"))
    row = page.one("table", id="pairs").one("tr", data_setup="standard", data_prompt="plain", data_run="old")
    reason = "not in this run's metrics.json, which an older version wrote: evaluate again to have it"
    assert columns_of(row)["pair"].one("abbr").attributes["title"] == reason
    assert "are not compared. Runs 'before' and 'old' were not asked the same questions" in page.text


def test_one_run_needs_no_column_of_runs(two_runs: tuple[Path, Path], tmp_path: Path) -> None:
    page = parse(write_report(two_runs[:1], tmp_path / "report.html"))
    headers = [th.text for th in page.one("table", id="results").one("thead").all("th")]
    assert headers == ["setup", "prompt", "T1", "T2", "Overall-AD", "AP", "Overall", "HM"]
    assert "run" not in {select.attributes["data-filter"] for select in page.all("select")}


# Files and errors


def test_markdown_and_latex_have_the_tables(file: Path, metrics: dict[str, dict[str, Any]]) -> None:
    hm = metrics["after"]["setups"]["standard"]["plain"]["hm"]
    written = f"{100 * hm['value']:.1f} [{100 * hm['low']:.1f}, {100 * hm['high']:.1f}] ({hm['n']})"
    row = next(
        x for x in file.with_suffix(".md").read_text().splitlines() if x.startswith("| standard | plain | after |")
    )
    assert row.endswith(f"| {written} |")
    titles = [x[3:] for x in file.with_suffix(".md").read_text().splitlines() if x.startswith("## ")]
    assert titles[0] == "Denial metrics" and "after minus before" in titles and titles[-1] == "Published: CausalAct"
    latex = file.with_suffix(".tex").read_text()
    assert latex.count(r"\begin{table*}") == latex.count(r"\bottomrule") == len(titles)


def test_no_run_and_no_place_to_write(two_runs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        write_report([], tmp_path / "report.html")
    assert str(error.value) == ("No run was named. Name at least one folder that tools/evaluate.py wrote: runs/<name>.")
    with pytest.raises(ConfigError) as error:
        write_report(two_runs[:1], tmp_path)
    assert str(error.value) == f"The report cannot be written to {str(tmp_path)!r}: Is a directory. Name another file."


def test_the_command(two_runs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "report.html"
    assert report([*map(str, two_runs), "--out", str(out), "--markdown", str(tmp_path / "r.md")]) == 0
    assert capsys.readouterr().out == f"report: {out}\n"
    assert parse(out).one("h1").text == "Can it deny?" and (tmp_path / "r.md").is_file()
    assert report([str(tmp_path / "gone"), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith("error: There is no run folder at ")
