"""Fixtures for all tests."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from torch import Tensor

    from actdeny_train.models.family import Visual
    from actdeny_train.models.qwen2_5_vl import Qwen25VL
    from actdeny_train.trees import TokenSequence
    from actdeny_train.types import Frames
    from tests.miniatures import Miniature

settings.register_profile("no_deadline", deadline=None)  # a busy machine is no defect
settings.load_profile("no_deadline")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder with real clips, annotation files and full goldens, kept outside the repository; skips where it is missing."""
    folder = Path(os.environ.get("ACTDENY_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (folder / "goldens").is_dir():
        pytest.skip(f"no shared test material at {folder} (set ACTDENY_SHARED to its folder)")
    return folder


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoint of a random Qwen2.5-VL with 0.3 million parameters (made once; never write into it)."""
    from actdeny_train.models import tiny

    folder = tmp_path_factory.mktemp("tiny") / "qwen2_5_vl"
    size = tiny.TinySize(hidden_size=64, intermediate_size=96, num_layers=2, num_vision_layers=2, vocab_size=400)
    tiny.build(folder, seed=0, size=size)
    return folder


@pytest.fixture
def tiny_family(tiny_folder: Path) -> "Callable[..., Qwen25VL]":
    """Make a fresh model from ``tiny_folder``: ``tiny_family(tokens_per_frame=(4, 4))``; each call loads anew."""
    from actdeny_train.models import qwen2_5_vl

    def load(**changed: Any) -> "Qwen25VL":
        return qwen2_5_vl.load(str(tiny_folder), **{"tokens_per_frame": (4, 4), **changed})

    return load


@pytest.fixture(scope="session")
def make_frames() -> "Callable[..., Frames]":
    """Make frames of noise: ``make_frames(count, height, width, fps, seed)``."""
    import numpy as np

    from actdeny_train.types import Frames

    def make(count: int, height: int = 56, width: int = 56, fps: float = 4.0, seed: int = 0) -> Frames:
        return Frames(
            pixels=np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8),
            time_s=np.arange(count) / fps,
            indices=np.arange(count),
            num_decoded=2 * count,
            sampling="noise",
        )

    return make


@pytest.fixture(scope="session")
def small_clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with videos of 8 frames of 56 px, and ``manifest.jsonl`` with 6 train, 6 val and 6 test clips of MiniAD: two actions,
    one source each, presence, context only and different motion (rendered once; never write into it).
    """
    from actdeny_train.datasets.manifest import write_manifest
    from actdeny_train.datasets.miniad import MiniAD

    made = MiniAD(tmp_path_factory.mktemp("clips"), sources_per_class=3, clips_per_source=1, size_px=56, num_frames=8)
    made.prepare_data()
    write_manifest(made.root / "manifest.jsonl", [c for c in made.read_clips() if c.action in made.labels.actions[:2]])
    return made.root


@pytest.fixture(scope="session")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> "Callable[[str], Miniature]":
    """Give a transfer dataset in small, in its official layout: ``miniature("hmdb51")`` (rendered once; never write into it)."""
    from tests.miniatures import Miniature, render

    made: dict[str, Miniature] = {}

    def give(name: str) -> Miniature:
        if name not in made:
            made[name] = render(name, tmp_path_factory.mktemp("miniatures") / name)
        return made[name]

    return give


@pytest.fixture
def write_macid(small_clips: Path, tmp_path: Path) -> "Callable[..., Path]":
    """Write a file in MACID's published format about the videos of ``small_clips``, with captions of our own.

    ``write_macid(num_tuples, base=1, delimiter=",", verbs=False)``; tuple i is ``t<i>``, with its intruder at place i modulo 4.
    """
    import csv
    import itertools

    actions = {
        "premere": ["il campanello", "l'interruttore, due volte", "un tasto", 'il pulsante "stop"'],
        "spostare": ["l'armadio", "il tavolo verso la finestra", "una cassa", "la panca"],
        "spingere": ["l'avversario", "la guardia contro il muro", "un passante", "l'amico"],
    }
    people = ("La ragazza", "Il cuoco", "Un bambino", "L'operaia")
    videos = sorted(path.relative_to(small_clips).as_posix() for path in small_clips.rglob("*.mp4"))

    def write(num_tuples: int, base: int = 1, delimiter: str = ",", verbs: bool = False) -> Path:
        pairs = list(itertools.permutations(actions, 2))
        header = ["id", *(f"{name}{i}" for i in range(1, 5) for name in ("s", "v")), "intruder"]
        rows = [[*header, *(f"verb{i}" for i in range(1, 5) if verbs)]]
        for number in range(num_tuples):
            shared, other = pairs[number % len(pairs)]
            used = [other if i == number % 4 else shared for i in range(4)]
            sentences = [f"{people[(i + number) % 4]} deve {verb} {actions[verb][i]}" for i, verb in enumerate(used)]
            shown = [videos[(number + (number // len(videos) + 1) * i) % len(videos)] for i in range(4)]
            told = [x for pair in zip(sentences, shown, strict=True) for x in pair]
            rows.append([f"t{number}", *told, str(number % 4 + base), *(used if verbs else [])])
        path = tmp_path / "macid.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
        return path

    return write


@pytest.fixture
def train_config(tiny_folder: Path, small_clips: Path, tmp_path: Path) -> Path:
    """YAML file of a training of the tiny model: 6 steps of 4 of ``small_clips`` with 3 questions each, into ``tmp_path``."""
    return _write_config(
        tmp_path / "train.yaml",
        {
            "_target_": "actdeny_train.training.run.TrainRun",
            "name": "run",
            **_model_and_data(tiny_folder, small_clips),
            "frames": {"_target_": "actdeny_train.video.sampling.Middle", "num_frames": 4},
            "batch": {"clips_per_step": 4, "clips_per_micro_batch": 2, "questions_per_clip": 3, "num_steps": 6},
            "optimizer": {"lr": {"vision": 1e-3, "projector": 1e-3, "llm": 1e-3}, "warmup_ratio": 0.3},
            "hardware": {"accelerator": "cpu"},
            "output": {"folder": str(tmp_path / "checkpoints"), "save_every_steps": 2},
        },
    )


@pytest.fixture
def evaluate_config(tiny_folder: Path, small_clips: Path, tmp_path: Path) -> Path:
    """YAML file of an evaluation of the tiny model on the 6 test clips of ``small_clips``: graph questions of every kind, and the
    standard setup under both prompts.
    """
    questions = "actdeny_train.questions"
    prompts = [{"_target_": f"{questions}.prompts.{name}"} for name in ("Plain", "CausalAct")]
    return _write_config(
        tmp_path / "evaluate.yaml",
        {
            "_target_": "actdeny_train.evaluation.run.EvaluateRun",
            "name": "run",
            **_model_and_data(tiny_folder, small_clips),
            "frames": {"_target_": "actdeny_train.video.sampling.Middle", "num_frames": 4},
            "ask": [
                {"source": {"_target_": f"{questions}.graph_vqa.GraphQuestions"}, "count": 14},
                *({"source": {"_target_": f"{questions}.mcq.Standard", "prompt": prompt}} for prompt in prompts),
            ],
            "device": "cpu",
            "folder": str(tmp_path / "runs"),
        },
    )


def _model_and_data(tiny_folder: Path, small_clips: Path) -> dict[str, Any]:
    manifest = "actdeny_train.datasets.manifest.Manifest"
    return {
        "model": {
            "_target_": "actdeny_train.models.qwen2_5_vl.load",
            "checkpoint": str(tiny_folder),
            "tokens_per_frame": [4, 4],
        },
        "data": {"_target_": manifest, "root": str(small_clips), "file": str(small_clips / "manifest.jsonl")},
    }


def _write_config(path: Path, values: dict[str, Any]) -> Path:
    import yaml

    path.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def alone() -> "Callable[..., Tensor]":
    """Run one sequence through transformers' own model: ``alone(model, sequence, visuals)`` gives the (K,) log-probabilities of
    its answer tokens.
    """
    import numpy as np
    import torch

    def run(model: Any, sequence: "TokenSequence", visuals: "Sequence[Visual]") -> "Tensor":
        dtype = next(model.parameters()).dtype
        ids = torch.from_numpy(sequence.ids)[None]
        logits = model(
            input_ids=ids,
            position_ids=torch.from_numpy(sequence.positions)[:, None],
            pixel_values_videos=torch.cat([v.inputs["pixel_values_videos"] for v in visuals]).to(dtype),
            video_grid_thw=torch.cat([v.inputs["video_grid_thw"] for v in visuals]),
            mm_token_type_ids=torch.from_numpy(np.where(sequence.visual >= 0, 2, 0))[None],
        ).logits[0]
        rows = torch.arange(sequence.answer_start, len(sequence.ids))
        return torch.log_softmax(logits[rows - 1], dim=-1)[torch.arange(len(rows)), ids[0, rows]]

    return run
