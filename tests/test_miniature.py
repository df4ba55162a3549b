"""The demo and the study, their trainings and evaluations replaced: what runs on what, what is kept, and what is said."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from actdeny_train import config, miniature
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.metrics.summary import summarise
from actdeny_train.models.qwen2_5_vl import Qwen25VL
from actdeny_train.training.run import TrainRun
from actdeny_train.types import ClipKind, ParseStatus, Prediction

CONFIGS = Path(__file__).parents[1] / "configs"
STUDY = ("pretrain", *miniature.CONTINUATIONS)


def load_nothing(
    checkpoint: str, revision: str | None = None, tokens_per_frame: tuple[int, int] | None = None
) -> Qwen25VL:
    """Stand in for the loader of a family: return the checkpoint's name."""
    return checkpoint  # type: ignore[return-value]


def prediction(kind: ClipKind, source: int, *, setup: str = "standard", is_right: bool) -> Prediction:
    return Prediction(
        question_id=f"{setup}|{kind}|{source}",
        clip_ids=(f"{kind}{source}",),
        action="Archery",
        source=f"g{source}",
        setup=setup,
        prompt="plain",
        kind=kind if setup == "standard" else "yes_no",
        group=f"g{source}",
        target=10 if kind.is_denial else 0,
        choice=(10 if kind.is_denial else 0) if is_right else 1,
        status=ParseStatus.OK,
        num_choices=11,
        primary_distractor=1 if kind.is_denial else None,
        none_choice=10,
    )


def summary_of(share_right: float) -> dict[str, Any]:
    """Metrics of four sources; presence clips are always right, denial clips in ``share_right`` of the sources."""
    kinds = (ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION)
    made = [prediction(kind, i, is_right=not kind.is_denial or i < 4 * share_right) for kind in kinds for i in range(4)]
    graph = [prediction(ClipKind.PRESENCE, i, setup="graph_vqa", is_right=i < 4 * share_right) for i in range(4)]
    return summarise(made + graph, num_draws=20)


class Lab:
    """Stands in for training, evaluation and export; remembers what was asked of them."""

    def __init__(self) -> None:
        self.trained: list[tuple[str, bool]] = []
        self.evaluated: list[tuple[str, str]] = []
        self.shares: dict[str, float] = {}

    def train(self, run: TrainRun, values: dict[str, Any], *, resume: bool) -> Path:
        self.trained.append((run.name, resume))
        model = Path(run.output.folder) / run.name / "model"
        model.mkdir(parents=True)
        return model

    def evaluate(self, run: EvaluateRun, *, values: dict[str, Any]) -> dict[str, Any]:
        assert values["name"] == run.name
        self.evaluated.append((run.name, str(run.model.build())))
        Path(run.folder).mkdir(exist_ok=True)
        return summary_of(self.shares.get(run.name, 0.0))

    def export(self, checkpoint: Path, out: Path) -> Path:
        assert (checkpoint / "model").is_dir()
        return out


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lab:
    made = Lab()
    for name in ("train", "evaluate", "export"):
        monkeypatch.setattr(miniature, name, getattr(made, name))
    monkeypatch.setattr(miniature, "CONFIGS", CONFIGS)
    monkeypatch.setattr("actdeny_train.models.qwen2_5_vl.load", load_nothing)
    monkeypatch.setattr("actdeny_train.models.tiny.load", lambda: "random")
    monkeypatch.chdir(tmp_path)
    return made


def heard(job: Any) -> str:
    """Run a job; return what it prints on 100 columns."""
    file = io.StringIO()
    job(Console(file=file, width=100, highlight=False))
    return file.getvalue()


def test_every_config_of_demo_and_study_is_sound() -> None:
    for file in ("demo/train.yaml", *(f"miniature/{name}.yaml" for name in STUDY)):
        run = config.parse(config.read(CONFIGS / file), TrainRun, file)
        assert run.name == (file.split("/")[0] if "demo" in file else f"miniature_{Path(file).stem}")
    for file in ("demo/evaluate.yaml", "miniature/evaluate.yaml"):
        config.parse(config.read(CONFIGS / file), EvaluateRun, file)


def test_the_continuations_start_from_the_pretrained_model_and_differ_as_they_say() -> None:
    runs = {name: config.read(CONFIGS / f"miniature/{name}.yaml") for name in STUDY}
    assert runs["pretrain"]["data"]["kinds"] == ["presence"], "the shortcut: no denial clip is seen"
    for name in miniature.CONTINUATIONS:
        assert runs[name]["model"]["checkpoint"] == "checkpoints/miniature_pretrain/model"
        parts = set(runs[name]["optimizer"]["lr"])
        assert parts == ({"vision", "projector", "llm"} if name.endswith("full") else {"projector", "llm"})
        source = runs[name]["questions"][0]["source"]["_target_"].rsplit(".", 1)[1]
        assert source == ("GraphQuestions" if name.startswith("graph") else "Standard")
    evaluated = config.read(CONFIGS / "miniature/evaluate.yaml")
    assert evaluated["split"] == "test" and evaluated["frames"] == runs["pretrain"]["frames"]


def test_the_demo_compares_before_and_after_and_says_where_all_lies(lab: Lab) -> None:
    lab.shares = {"demo_before": 0.25, "demo_after": 1.0}
    for folder in ("checkpoints/demo", "runs/demo_before", "exports/demo"):
        (Path(folder) / "of_an_earlier_demo").mkdir(parents=True)
    said = heard(miniature.demo)
    assert lab.trained == [("demo", False)]
    assert lab.evaluated == [("demo_before", "random"), ("demo_after", "checkpoints/demo/model")]
    assert not list(Path().rglob("of_an_earlier_demo"))
    (row,) = [line.split() for line in said.splitlines() if "yes_no" in line]
    assert row[:2] == ["yes_no", "25.0"] and "100.0" in row and row[-1] == "+75.0"
    for place in ("data/miniad", "checkpoints/demo", "runs/demo_before, runs/demo_after", "exports/demo"):
        assert place in said
    assert "tools/train.py configs/qwen3b_full.yaml" in said and "--dry-run" in said


def test_the_study_prints_one_table_whatever_its_rows_are(lab: Lab) -> None:
    lab.shares = {"miniature_pretrain": 0.0, "miniature_denial_full": 1.0, "miniature_graph_full": 0.5}
    said = heard(miniature.study)
    assert lab.trained == [(f"miniature_{name}", False) for name in STUDY]
    assert lab.evaluated == [(f"miniature_{name}", f"checkpoints/miniature_{name}/model") for name in STUDY]
    table = Path("runs/miniature_study.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip(): line for line in table.splitlines() if line.startswith("| ")}
    for name in STUDY:
        assert name in rows and name in said
    values = {name: [cell.split()[0] for cell in row.split("|")[2:-1]] for name, row in rows.items() if name in STUDY}
    assert values["pretrain"] == ["0.0", "0.0", "0.0", "100.0", "0.0", "0.0"], "T1, T2, Overall-AD, AP, HM, graph"
    assert values["graph_full"] == ["50.0", "50.0", "50.0", "100.0", "66.7", "50.0"]
    assert values["denial_full"] == ["100.0"] * 6
    assert "runs/miniature_study.md" in said


def test_an_interrupted_study_goes_on(lab: Lab) -> None:
    Path("checkpoints/miniature_pretrain/model").mkdir(parents=True)
    Path("checkpoints/miniature_graph_full").mkdir(parents=True)
    Path("checkpoints/miniature_graph_full/last.ckpt").touch()
    heard(miniature.study)
    assert lab.trained == [("miniature_graph_full", True), *((f"miniature_{name}", False) for name in STUDY[2:])]
    assert [name for name, _ in lab.evaluated] == [f"miniature_{name}" for name in STUDY]
