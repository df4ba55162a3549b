"""The published figures against the specification's copy, and what they let one recompute."""

from pathlib import Path

import pytest
import yaml

from actdeny_train.metrics.published import (
    PublishedRow,
    check_overall,
    overall_note,
    published_rows,
    read_published,
    recompute_hm,
)


@pytest.mark.shared
def test_all_figures_are_those_of_the_specification(shared: Path) -> None:
    theirs = yaml.safe_load((shared / "spec" / "paper_results.yaml").read_text())
    ours = read_published()
    assert ours["zero_shot"] == theirs["zero_shot"]
    assert list(ours["zero_shot"]) == list(theirs["zero_shot"])
    assert ours["finetuned"] == theirs["causalact_finetuned"]
    assert ours["human_overall_ad"] == theirs["human_overall_ad"]
    assert ours["gpu_minutes"] == theirs["gpu_minutes"]


def test_hm_of_all_rows_to_the_printed_digit() -> None:
    rows = published_rows()
    hm = recompute_hm(rows)
    assert len(rows) == len(hm) == 21
    for row in rows:
        by_hand = 2 / (1 / row.overall_ad + 1 / row.ap)
        assert hm[row.model] == pytest.approx(by_hand, abs=1e-12)
        assert f"{100 * hm[row.model]:.1f}" == f"{100 * row.hm:.1f}", row.model


def test_overall_is_not_pooled_by_the_sizes_of_the_benchmark() -> None:
    rows = published_rows()
    check = check_overall(rows)
    # (3549 x 51.5 + 675 x 96.0) / 4224 = 58.61, printed is 58.3.
    assert 100 * check.pooled["VideoLLaMA3-7B"] == pytest.approx(58.611, abs=5e-4)
    assert all(check.pooled[row.model] > row.overall + 0.003 for row in rows)
    assert check.differing == tuple(row.model for row in rows)
    assert check.benchmark_share == pytest.approx(0.1598, abs=5e-5)


def test_one_presence_share_explains_every_printed_overall() -> None:
    rows = published_rows()
    check = check_overall(rows)
    assert check.low is not None and check.high is not None
    assert check.low < 0.152 < check.high < check.benchmark_share
    for row in rows:
        made = row.overall_ad + 0.152 * (row.ap - row.overall_ad)
        assert made == pytest.approx(row.overall, abs=0.001), row.model


def test_rows_made_by_the_sizes_pass() -> None:
    def pooled(model: str, overall_ad: float, ap: float) -> PublishedRow:
        overall = round((300 * overall_ad + 100 * ap) / 400, 3)
        return PublishedRow(model=model, t1=0.0, t2=0.0, overall_ad=overall_ad, ap=ap, overall=overall, hm=0.0)

    check = check_overall([pooled("a", 0.213, 0.917), pooled("b", 0.501, 0.733)], num_denial=300, num_presence=100)
    assert check.differing == ()
    assert check.low is not None and check.high is not None and check.low <= 0.25 <= check.high


def test_rows_that_no_share_explains() -> None:
    common = {"t1": 0.0, "t2": 0.0, "hm": 0.0, "overall_ad": 0.2}
    rows = [
        PublishedRow(model="a", ap=0.8, overall=0.3, **common),
        PublishedRow(model="b", ap=0.8, overall=0.5, **common),
    ]
    assert (check_overall(rows).low, check_overall(rows).high) == (None, None)


def test_the_note_tells_what_was_found() -> None:
    assert overall_note() == (
        "The published Overall is not the accuracy over the benchmark's 3,549 denial and 675 presence clips: pooled by these sizes, 21 of "
        "21 rows miss the printed figure by more than its rounding. A presence share between 0.1511 and 0.1524 (the benchmark has 0.1598) "
        "explains all rows. HM, computed from Overall-AD and AP, gives the printed digit in 21 of 21 rows; compare by HM, Overall-AD and "
        "AP."
    )
