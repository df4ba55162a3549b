"""What a run says while it trains."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from actdeny_train.training import progress

LINE = re.compile(r"step (\d+)/6  loss (\d+\.\d{4})  (\d+) questions/s  (\d+:\d\d) left")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by one second whenever it is read."""
    ticks = itertools.count()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))


def test_a_line_every_so_often_with_loss_speed_and_time_left(
    fit: Callable[..., Path], clock: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: False)
    monkeypatch.setattr(progress.ProgressLines.__init__, "__defaults__", (4.0,))
    fit()
    lines = [LINE.fullmatch(line) for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert all(lines)
    steps = [int(line[1]) for line in lines if line]
    assert steps[-1] == 6 and 1 < len(steps) < 6, "every four seconds, and at the end"
    assert lines[-1] is not None and lines[-1][4] == "0:00"


def test_speed_counts_the_questions_of_all_forests(fit: Callable[..., Path], clock: None) -> None:
    model = fit("batch.clips_per_step=5", "batch.questions_per_clip=2")
    header, *rows = (model.parent / "logs" / "version_0" / "metrics.csv").read_text(encoding="utf-8").splitlines()
    column = header.split(",").index("questions_per_s")
    speeds = [float(row.split(",")[column]) for row in rows]
    # Each step the clock is read twice, once by each callback.
    assert speeds[1:] == pytest.approx([5 * 2 / 2] * 5)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [(0.2, "0:00"), (59.4, "0:59"), (59.7, "1:00"), (119.7, "2:00"), (3599.6, "1:00:00"), (7685.0, "2:08:05")],
)
def test_time_left_is_a_time(time_s: float, text: str) -> None:
    assert progress.format_time(time_s) == text


@pytest.mark.parametrize(("per_s", "text"), [(168.4, "168"), (1.4, "1"), (0.64, "0.64"), (0.043, "0.043")])
def test_slow_models_have_a_speed_too(per_s: float, text: str) -> None:
    assert progress.format_speed(per_s) == text
