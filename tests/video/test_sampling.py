from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actdeny_train.errors import ConfigError
from actdeny_train.video.sampling import Fps, Middle

counts = st.integers(1, 2000)


def regular_times(num_frames: int, rate: int = 25) -> np.ndarray:
    return np.arange(num_frames) / rate


@settings(deadline=None)
@given(n=counts, total=counts)
def test_middle_takes_the_frame_under_the_middle_of_each_stride(n: int, total: int) -> None:
    expected = range(total) if total <= n else [int((i + Fraction(1, 2)) * total / n) for i in range(n)]
    assert Middle(n).choose(total, regular_times(total)).tolist() == list(expected)


@settings(deadline=None)
@given(n=counts, total=counts)
def test_middle_is_symmetric_up_to_rounding(n: int, total: int) -> None:
    # Mirrored frames add up to N - 1; to N where a middle falls between two frames and the later is taken.
    chosen = Middle(n).choose(total, regular_times(total))
    assert set((chosen + chosen[::-1]).tolist()) <= {total - 1, total}


def test_middle_of_released_evaluation() -> None:
    chosen = Middle().choose(164, regular_times(164))
    assert chosen.tolist() == [6, 20, 34, 47, 61, 75, 88, 102, 116, 129, 143, 157]
    assert chosen.dtype == np.int64
    assert Middle().choose(5, regular_times(5)).tolist() == [0, 1, 2, 3, 4]


@settings(deadline=None)
@given(
    steps_ms=st.lists(st.integers(1, 500), min_size=0, max_size=200),
    fps=st.floats(0.01, 120),
    least=st.integers(1, 30),
    extra=st.none() | st.integers(0, 30),
)
def test_fps_is_total_and_within_its_limits(steps_ms: list[int], fps: float, least: int, extra: int | None) -> None:
    time_s = np.cumsum([0, *steps_ms]) / 1000
    total = len(time_s)
    most = None if extra is None else least + extra
    chosen = Fps(fps, min_frames=least, max_frames=most).choose(total, time_s)
    assert chosen.dtype == np.int64
    assert chosen[0] >= 0 and chosen[-1] < total and np.all(np.diff(chosen) > 0)
    assert min(least, total) <= len(chosen) <= min(most or total, total)


@settings(deadline=None)
@given(total=st.integers(1, 40), rate=st.integers(1, 12), fps=st.integers(1, 12))
def test_fps_takes_the_nearest_frames(total: int, rate: int, fps: int) -> None:
    # In units of 1 / (rate * fps) seconds frame k stands at k * fps and point p of the grid at p * rate.
    points = range(0, (total - 1) * fps + 1, rate)
    nearest = {min(range(total), key=lambda k: abs(k * fps - point)) for point in points}
    assert Fps(fps).choose(total, regular_times(total, rate)).tolist() == sorted(nearest)


def test_fps_follows_times_and_not_indices() -> None:
    time_s = np.array([0, 0.01, 0.02, 0.03, 1.0, 1.9, 3.1, 3.2])
    assert Fps(1.0).choose(8, time_s).tolist() == [0, 4, 5, 6]


def test_fps_outside_its_limits_takes_middles() -> None:
    assert Fps(25.0, max_frames=4).choose(100, regular_times(100)).tolist() == [12, 37, 62, 87]
    assert Fps(0.1, min_frames=4).choose(100, regular_times(100)).tolist() == [12, 37, 62, 87]
    assert Fps(0.1, min_frames=4).choose(3, regular_times(3)).tolist() == [0, 1, 2]


def test_rules_as_text() -> None:
    assert str(Middle(num_frames=12)) == "middle(num_frames=12)"
    assert str(Fps(2.0, max_frames=64)) == "fps(fps=2.0, min_frames=1, max_frames=64)"


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="num_frames is 0, but must be at least 1"):
        Middle(0)
    for fps in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="finite number above 0"):
            Fps(fps)
    with pytest.raises(ConfigError, match="min_frames is 0, but must be at least 1"):
        Fps(1.0, min_frames=0)
    with pytest.raises(ConfigError, match=r"max_frames is 3, but must be at least min_frames \(4\)"):
        Fps(1.0, min_frames=4, max_frames=3)


def test_middle_differs_from_the_released_arithmetic_by_one_frame_at_a_few_lengths() -> None:
    def released(total: int) -> list[int]:
        stride = total / 12
        return [int((stride * i + stride * (i + 1)) / 2) for i in range(12)]

    different = {}
    for total in range(13, 1001):
        change = Middle().choose(total, regular_times(total)) - released(total)
        if change.any():
            different[total] = change.tolist()
    assert different == dict.fromkeys((280, 560, 584), [0] * 10 + [1, 0])
