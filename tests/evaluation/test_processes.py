"""Any number of processes, and any number of kills, leave the same lines."""

import dataclasses
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from actdeny_train import config
from actdeny_train.datasets.manifest import read_manifest, write_manifest
from actdeny_train.datasets.miniad import MiniAD
from actdeny_train.errors import DataError
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.processes import Processes, join_processes
from actdeny_train.evaluation.run import EvaluateRun

ROOT = Path(__file__).parents[2]
NUM_CLIPS = 101
NUM_KILLS = 20
FORK = multiprocessing.get_context(
    "fork"
)  # with one thread, and far quicker than to import torch anew for each process


@pytest.fixture(scope="module")
def many_clips(small_clips: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Manifest of 101 of MiniAD's clips, all in split "test"."""
    made = MiniAD(small_clips.parent, sources_per_class=3, clips_per_source=1, size_px=56, num_frames=8)
    assert made.root == small_clips
    clips = [dataclasses.replace(clip, split="test") for clip in read_manifest(small_clips / "manifest.jsonl")]
    clips += [
        dataclasses.replace(c, split="test") for c in made.read_clips() if c.id not in {clip.id for clip in clips}
    ]
    file = tmp_path_factory.mktemp("many") / "manifest.jsonl"
    write_manifest(file, clips[:NUM_CLIPS])
    return file


@pytest.fixture
def start(evaluate_config: Path, many_clips: Path) -> Iterator[Callable[..., list[Any]]]:
    """Start an evaluation in several processes: ``start("name", 3)`` gives them."""
    source = "{{source: {{_target_: actdeny_train.questions.{}}}}}"
    ask = f"ask=[{source.format('mcq.Standard')}, {source.format('yes_no.YesNoPrimary')}]"
    started: list[Any] = []

    def run(name: str, world_size: int) -> list[Any]:
        overrides = [ask, f"name={name}", f"data.file={many_clips}", "clips_per_share=4"]
        values = config.read(evaluate_config, overrides)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        made = [FORK.Process(target=_work, args=(values, rank, world_size, port)) for rank in range(world_size)]
        for process in made:
            process.start()
        started.extend(made)
        return made

    yield run
    for process in started:
        process.kill()
        process.join()


def _work(values: dict[str, Any], rank: int, world_size: int, port: int) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    evaluate(config.parse(values, EvaluateRun, "evaluate.yaml"), values=values)


def finish(processes: list[Any]) -> None:
    for process in processes:
        process.join()
        assert process.exitcode == 0


def lines(tmp_path: Path, name: str) -> list[bytes]:
    return (tmp_path / "runs" / name / "predictions.jsonl").read_bytes().splitlines()


@pytest.mark.slow
def test_any_number_of_processes_gives_the_same_lines(start: Callable[..., list[Any]], tmp_path: Path) -> None:
    for world_size in (1, 2, 3):
        finish(start(f"of{world_size}", world_size))
    one, two, three = (lines(tmp_path, f"of{n}") for n in (1, 2, 3))
    assert len(set(one)) == 2 * NUM_CLIPS
    assert one == two == three, "merged in the order of the questions"
    costs = [yaml.safe_load((tmp_path / "runs" / f"of{n}" / "metrics.json").read_text())["cost"] for n in (1, 2, 3)]
    assert [c["num_processes"] for c in costs] == [1, 2, 3]
    assert [c["num_clips"] for c in costs] == [NUM_CLIPS] * 3, "no clip twice, none left out"


@pytest.mark.slow
def test_twenty_kills_at_random_moments_lose_and_change_nothing(
    start: Callable[..., list[Any]], tmp_path: Path
) -> None:
    began = time.perf_counter()
    finish(start("whole", 1))
    whole_s = time.perf_counter() - began
    draw = random.Random(0)
    for kill in range(NUM_KILLS):
        processes = start("killed", 1 + kill % 3)
        time.sleep(draw.uniform(0, whole_s / 4))
        for process in draw.sample(processes, len(processes)):
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
        for process in processes:
            process.join()
    finish(start("killed", 2))
    assert lines(tmp_path, "killed") == lines(tmp_path, "whole")
    assert not list((tmp_path / "runs" / "killed").glob("predictions.part-*"))


@pytest.mark.slow
def test_torchrun_shares_the_clips(evaluate_config: Path, many_clips: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        "0",
        "--rdzv-backend",
        "c10d",
    ]
    command += ["--rdzv-endpoint", "127.0.0.1:0", str(ROOT / "tools" / "evaluate.py"), str(evaluate_config)]
    overrides = ["ask=[{source: {_target_: actdeny_train.questions.yes_no.YesNoPrimary}}]", f"data.file={many_clips}"]
    done = subprocess.run([*command, *overrides], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Denial metrics") == 1, "the first process tells the result, the others nothing"
    assert done.stdout.count("verifying 101 videos") <= 1 and "(101)" not in done.stderr
    assert len(lines(tmp_path, "run")) == NUM_CLIPS


def test_alone_there_is_nobody_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes() as processes:
        assert processes == Processes(rank=0, world_size=1, local_rank=0)
        processes.wait()


def _leave(rank: int, port: int, told: Any) -> None:
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    try:
        with join_processes() as processes:
            if rank == 1:
                os._exit(3)
            processes.wait()
    except DataError as error:
        told.put(str(error))


def test_a_process_says_so_when_another_one_has_ended() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = FORK.Queue()
    both = [FORK.Process(target=_leave, args=(rank, port, told)) for rank in (0, 1)]
    for process in both:
        process.start()
    assert told.get(timeout=60) == (
        "Process 0 of 2 stops because another one has ended; its own error says why. What is answered is kept: start the evaluation again "
        "to go on."
    )
    for process in both:
        process.join()
