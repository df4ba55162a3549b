"""The two jobs on MiniAD that need no download: ``make demo`` (the whole path once) and ``make study`` (does it learn?)."""

import shutil
from pathlib import Path
from typing import Any

from rich.console import Console

from actdeny_train import config
from actdeny_train.evaluation.evaluate import evaluate
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.export.export import export
from actdeny_train.report.terminal import markdown_table, print_comparison, print_summary, rows_table
from actdeny_train.training.run import TrainRun
from actdeny_train.training.train import train

CONFIGS = Path("configs")
CONTINUATIONS = ("graph_full", "graph_llm_projector", "denial_full", "denial_llm_projector")


def demo(console: Console) -> None:
    """Render MiniAD, evaluate a tiny random model, train it on graph questions, evaluate again, export, and say where all lies."""
    clear(Path("checkpoints/demo"), Path("runs/demo_before"), Path("runs/demo_after"), Path("exports/demo"))
    console.print("[bold]1. Before training: a random tiny Qwen2.5-VL on MiniAD[/bold]")
    before = _evaluate("demo/evaluate.yaml", "name=demo_before")
    console.print("[bold]2. Training on graph questions[/bold]")
    model = _train("demo/train.yaml")
    console.print("[bold]3. After training[/bold]")
    after = _evaluate(
        "demo/evaluate.yaml",
        "name=demo_after",
        f"model={{_target_: actdeny_train.models.qwen2_5_vl.load, checkpoint: {model}, tokens_per_frame: [4, 4]}}",
    )
    folder = export(Path("checkpoints/demo"), Path("exports/demo"))
    print_comparison(before, after, console)
    print_summary({**after, "graph_vqa": {}, "graph_vqa_groups": {}}, console)
    console.print(
        "The denial figures of a model that has learned 200 steps of graph questions from nothing mean little; `make study` shows the "
        "shortcut appear and go.\n"
    )
    for what, path in (
        ("clips and their manifest", "data/miniad"),
        ("training: config, logs, last state, model", "checkpoints/demo"),
        ("predictions and metrics before and after", "runs/demo_before, runs/demo_after"),
        ("model for plain transformers, with card", str(folder)),
    ):
        console.print(f"  {what:<44} {path}", soft_wrap=True)
    console.print(
        "\nWith a real checkpoint and UCF101-AD (see README), next:\n"
        "  .venv/bin/python tools/train.py configs/qwen3b_full.yaml data.root=/path/to/UCF101-AD --dry-run",
        soft_wrap=True,
    )


def study(console: Console) -> None:
    """Pretrain on presence clips, continue in four ways, and print one table of denial metrics, whatever the rows turn out to be.

    Finished steps of an earlier, interrupted study are kept; remove ``checkpoints/miniature_*`` and ``runs/miniature_*`` to start
    afresh.
    """
    rows = []
    for name in ("pretrain", *CONTINUATIONS):
        console.print(f"[bold]{name}[/bold]")
        model = Path(f"checkpoints/miniature_{name}/model")
        if not model.is_dir():
            _train(f"miniature/{name}.yaml", resume=(model.parent / "last.ckpt").is_file())
        summary = _evaluate("miniature/evaluate.yaml", f"name=miniature_{name}", f"model.checkpoint={model}")
        rows.append((name, summary))
    console.print(rows_table("Study on MiniAD: standard setup, plain prompt, unseen sources", rows))
    table = Path("runs/miniature_study.md")
    table.write_text(markdown_table(rows) + "\n", encoding="utf-8")
    console.print(f"the same table in Markdown: {table}")


def clear(*folders: Path) -> None:
    """Remove what an earlier demo wrote."""
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _train(file: str, *, resume: bool = False) -> Path:
    values = config.read(CONFIGS / file)
    return train(config.parse(values, TrainRun, str(CONFIGS / file)), values, resume=resume)


def _evaluate(file: str, *overrides: str) -> dict[str, Any]:
    values = config.read(CONFIGS / file, overrides)
    return evaluate(config.parse(values, EvaluateRun, str(CONFIGS / file)), values=values)
