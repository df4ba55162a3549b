"""How far an evaluation, or another walk through clips, is: a bar on a terminal, a line every ten seconds elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

INTERVAL_S = 10


@contextmanager
def progress(num_clips: int, doing: str = "evaluating", did: str = "evaluated") -> Iterator[Callable[[int], None]]:
    """Give ``advance(num_clips)``, to be called when so many clips more are done."""
    columns = (
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("clips"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, disable=not sys.stderr.isatty())
    task = bar.add_task("", total=num_clips)
    started = said = time.monotonic()
    done = 0

    def advance(num: int) -> None:
        nonlocal said, done
        done += num
        bar.advance(task, num)
        now = time.monotonic()
        if bar.disable and now - said > INTERVAL_S:
            said = now
            left_s = (now - started) / done * (num_clips - done)
            print(f"{did} {done} of {num_clips} clips, {left_s:.0f} s left", flush=True)

    with bar:
        yield advance
