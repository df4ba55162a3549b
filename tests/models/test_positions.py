"""M-RoPE positions: the official numbers, and the laws behind them."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actdeny_train.models.positions import Grid, mrope_positions

GOLDENS = json.loads((Path(__file__).parents[1] / "goldens/qwen2_5_vl/positions.json").read_text(encoding="utf-8"))[
    "cases"
]
IMAGE, VIDEO, TEXT = 151655, 151656, 7
MERGE = 2


@pytest.mark.parametrize("name", GOLDENS)
def test_positions_are_the_official_ones(name):
    case = GOLDENS[name]
    seconds = case["second_per_grid_ts"] or [0.0] * len(case["grid_thw"])
    grids = [Grid(*thw, seconds=float(s)) for thw, s in zip(case["grid_thw"], seconds, strict=True)]
    rows = mrope_positions(
        np.array(case["input_ids"]), np.array([IMAGE, VIDEO]), grids, case["tokens_per_second"], MERGE
    )
    np.testing.assert_array_equal(rows, case["position_ids"])
    assert rows.max() + 1 - len(case["input_ids"]) == case["rope_delta"]


def test_all_eight_goldens_are_there():
    assert len(GOLDENS) == 8 and sum(len(case["grid_thw"]) > 1 for case in GOLDENS.values()) >= 3


@st.composite
def prompts(draw):
    """Text, then clips with text between them. ``starts`` are where the clips begin."""
    ids, grids, starts = [TEXT] * draw(st.integers(0, 4)), [], []
    for _ in range(draw(st.integers(1, 3))):
        grid = Grid(
            draw(st.integers(1, 5)), 2 * draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3)), draw(st.floats(0.5, 8))
        )
        starts.append(len(ids))
        grids.append(grid)
        ids += [VIDEO] * (grid.t * grid.h * grid.w // MERGE**2) + [TEXT] * draw(st.integers(1, 4))
    return np.array(ids), grids, starts


@given(prompts())
def test_time_rises_and_text_goes_on_after_the_maximum(prompt):
    ids, grids, starts = prompt
    rows = mrope_positions(ids, np.array([VIDEO]), grids, tokens_per_second=2, merge_size=MERGE)
    for grid, start in zip(grids, starts, strict=True):
        each = grid.h * grid.w // MERGE**2
        stop = start + grid.t * each
        time = rows[0, start:stop].reshape(grid.t, each)
        assert (time == time[:, :1]).all(), "one step, one time"
        assert (np.diff(time[:, 0]) > 0).all()  # 2 positions a second and at least half a second a step
        before = rows[0, start - 1] if start else -1
        assert (rows[:, start] == before + 1).all()
        assert (rows[:, stop] == rows[:, :stop].max() + 1).all()
    is_text = ids == TEXT
    assert (rows[:, is_text] == rows[0, is_text]).all()


@given(prompts(), st.data())
def test_positions_do_not_depend_on_what_follows(prompt, data):
    ids, grids, starts = prompt
    whole = mrope_positions(ids, np.array([VIDEO]), grids, 2, MERGE)
    texts = np.flatnonzero(ids == TEXT)
    cut = int(data.draw(st.sampled_from(texts))) + 1
    before = [grid for grid, start in zip(grids, starts, strict=True) if start < cut]
    np.testing.assert_array_equal(mrope_positions(ids[:cut], np.array([VIDEO]), before, 2, MERGE), whole[:, :cut])


def test_text_alone_counts_up():
    np.testing.assert_array_equal(mrope_positions(np.full(4, TEXT), np.array([VIDEO]), [], 2, MERGE), [range(4)] * 3)


@pytest.mark.parametrize(
    ("ids", "grids", "text"),
    [
        ([TEXT, VIDEO, TEXT], [Grid(2, 2, 2)], "no 2 visual tokens for Grid"),
        ([TEXT, VIDEO], [Grid(2, 2, 2)], "no 2 visual tokens for Grid"),
        ([TEXT, TEXT], [Grid(1, 2, 2)], "no 1 visual tokens for Grid"),
        ([VIDEO], [Grid(1, 2, 2), Grid(1, 2, 2)], "no 1 visual tokens for Grid"),
        ([VIDEO, TEXT, VIDEO], [Grid(1, 2, 2)], "more visual tokens than the grids have"),
        ([VIDEO, VIDEO], [Grid(1, 2, 2)], "more visual tokens than the grids have"),
    ],
)
def test_ids_and_grids_must_agree(ids, grids, text):
    with pytest.raises(AssertionError, match=text):
        mrope_positions(np.array(ids), np.array([VIDEO]), grids, 2, MERGE)
