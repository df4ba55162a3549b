import hashlib
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

from actdeny_train.errors import ConfigError, DataError
from actdeny_train.video import verification
from actdeny_train.video.verification import VideoFacts, verify, verify_all

UNIT = 65536


@pytest.fixture
def endless(clip: Path) -> Path:
    """A video whose digest takes minutes: a terabyte of zeros follows, of which the disk stores nothing."""
    path = clip.with_name("endless.mp4")
    path.write_bytes(clip.read_bytes())
    with path.open("r+b") as file:
        file.truncate(2**40)
    return path


def test_facts(clip: Path, write_grey: Callable[..., Path]) -> None:
    assert verify(clip) == VideoFacts(
        num_frames=20,
        duration_s=pytest.approx(0.8),
        longest_interval_s=pytest.approx(0.04),
        width_px=64,
        height_px=48,
        rotation_deg=0,
        sha256=hashlib.sha256(clip.read_bytes()).hexdigest(),
        frame_hashes=ANY,
        notes=(),
    )
    assert verify(write_grey("variable.mkv", pts_ms=[0, 10, 500, 600])).longest_interval_s == pytest.approx(0.49)
    turned = verify(write_grey("turned.mov", display_matrix=[0, UNIT, 0, -UNIT, 0, 0, 0, 0, 1 << 30]))
    assert (turned.width_px, turned.height_px, turned.rotation_deg) == (48, 64, -90)
    assert turned.notes == ("turned by -90 degrees counter-clockwise",)


def test_faults_are_reasons_in_the_order_given(damaged: Path, write_grey: Callable[..., Path], tmp_path: Path) -> None:
    good = write_grey("good.mp4")
    absent = tmp_path / "absent, with\nodd name.mp4"
    paths = [good, damaged, absent, *[good] * 5, damaged]
    results = list(verify_all(iter(paths)))
    assert [path for path, _ in results] == paths
    outcomes = [outcome for _, outcome in results]
    assert [isinstance(outcome, VideoFacts) for outcome in outcomes] == [True, False, False, *[True] * 5, False]
    assert "is damaged" in str(outcomes[1]) and "the header counts 20" in str(outcomes[1])
    assert outcomes[2] == f"video '{absent}' does not exist. Check the path and the dataset's root."
    with pytest.raises(DataError, match="is damaged"):
        verify(damaged)


def test_relative_paths_follow_the_callers_folder(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clip.parent)
    assert verify(Path("clip.mp4")).num_frames == 20


def test_slow_file_is_stopped_and_the_others_go_on(clip: Path, endless: Path) -> None:
    start = time.monotonic()
    results = list(verify_all([clip, endless, clip, clip], num_workers=1, timeout_s=1.0))
    assert time.monotonic() - start < 30
    assert [isinstance(outcome, VideoFacts) for _, outcome in results] == [True, False, True, True]
    assert results[1][1] == (
        f"video '{endless}': decoding took over 1 s and was stopped. Raise timeout_s for a long video, else leave the clip out."
    )


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> "list[subprocess.Popen[str]]":
    """Return the list that every decoding process joins as it starts."""
    processes: list[subprocess.Popen[str]] = []
    start_process = verification._start

    def start() -> "subprocess.Popen[str]":
        processes.append(start_process())
        return processes[-1]

    monkeypatch.setattr(verification, "_start", start)
    return processes


def test_dying_process_costs_its_own_file_only(
    clip: Path, endless: Path, started: "list[subprocess.Popen[str]]"
) -> None:
    def paths() -> Iterator[Path]:
        yield clip
        yield endless
        # The pool asks for this path while the only process is at work on the one before.
        while not started:
            time.sleep(0.01)
        time.sleep(0.5)
        started[0].kill()
        yield clip

    outcomes = [outcome for _, outcome in verify_all(paths(), num_workers=1)]
    assert [isinstance(outcome, VideoFacts) for outcome in outcomes] == [True, False, True]
    assert outcomes[1] == f"video '{endless}': the process that decoded it ended with status -9. Leave the clip out."
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)


def test_process_that_dies_as_it_is_asked_is_replaced(
    clip: Path, started: "list[subprocess.Popen[str]]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def paths() -> Iterator[Path]:
        yield clip
        yield clip
        time.sleep(1)  # Until both are done and the process waits for more.
        started[0].kill()
        started[0].wait()
        monkeypatch.setattr(started[0], "poll", lambda: None)  # As if it had died a moment later.
        yield clip
        yield clip

    outcomes = [outcome for _, outcome in verify_all(paths(), num_workers=1)]
    assert all(isinstance(outcome, VideoFacts) for outcome in outcomes), outcomes
    assert len(started) == 2


def test_interrupt_waits_for_no_file(endless: Path) -> None:
    def paths() -> Iterator[Path]:
        yield endless
        time.sleep(1)
        raise KeyboardInterrupt

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        list(verify_all(paths(), num_workers=2, timeout_s=60.0))
    assert time.monotonic() - start < 30


def test_process_ends_itself_where_nobody_is_left_to_kill_it(endless: Path) -> None:
    with verification._start() as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps([str(endless), 0.1]) + "\n")
        process.stdin.flush()
        assert process.wait(timeout=30) == -signal.SIGALRM


def test_paths_are_read_a_few_ahead(clip: Path) -> None:
    asked = itertools.count()

    def endless_paths() -> Iterator[Path]:
        while True:
            next(asked)
            yield clip

    results = verify_all(endless_paths(), num_workers=2)
    for _ in range(3):
        next(results)
    results.close()  # type: ignore[attr-defined]
    assert next(asked) <= 3 + 4


def test_wrong_settings_are_refused(clip: Path) -> None:
    timeouts = (0.0, -1.0, float("nan"), float("inf"), 1e300)
    for settings in ({"num_workers": 0}, *({"timeout_s": timeout_s} for timeout_s in timeouts)):
        with pytest.raises(ConfigError, match="verification needs num_workers >= 1 and timeout_s > 0, but got"):
            verify_all([clip], **settings)  # type: ignore[arg-type]


def test_video_package_starts_without_torch() -> None:
    program = (
        "import sys; from actdeny_train.video import cache, decode, encode, sampling, verification; "
        "print(sorted({'torch', 'transformers', 'lightning'} & set(sys.modules)))"
    )
    root = Path(verification.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.shared
def test_real_clips(shared: Path) -> None:
    names = ["dmlc_decord/corrupted.mp4", "open-mmlab_mmaction2/test.avi", "dmlc_decord/video_90.mov"]
    outcomes = dict(verify_all([shared / "videos" / name for name in names]))
    corrupted, packed, turned = (outcomes[shared / "videos" / name] for name in names)
    assert isinstance(corrupted, str) and "28 frames were decoded (the header counts 50)" in corrupted
    assert isinstance(packed, VideoFacts) and packed.num_frames == 164 and packed.duration_s == pytest.approx(6.56)
    assert isinstance(turned, VideoFacts) and (turned.width_px, turned.height_px) == (320, 568)
