"""The command line: one ``main`` per tool. Errors that a user can mend are printed as one paragraph, without a traceback."""

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from actdeny_train import config
from actdeny_train.errors import ActdenyError


def _run(
    tool: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser, argv: Sequence[str] | None
) -> int:
    arguments = parser.parse_intermixed_args(argv)  # overrides may stand behind options
    try:
        tool(arguments)
    except ActdenyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def _config_parser(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("config", type=Path, help="YAML file, see configs/")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="values that replace those of the file")
    return parser


def train(argv: Sequence[str] | None = None) -> int:
    """``tools/train.py CONFIG [key=value ...] [--dry-run] [--resume]``"""
    parser = _config_parser("Finetune a model; writes checkpoints/<name>/.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--dry-run", action="store_true", help="print the plan and one sample, train nothing")
    mode.add_argument("--resume", action="store_true", help="continue from the last saved state")

    def tool(arguments: argparse.Namespace) -> None:
        from lightning.pytorch.utilities.rank_zero import rank_zero_only

        from actdeny_train.training import dry_run
        from actdeny_train.training.run import TrainRun
        from actdeny_train.training.train import train as fit

        values = config.read(arguments.config, arguments.overrides)
        run = config.parse(values, TrainRun, str(arguments.config))
        if arguments.dry_run:
            for line in dry_run.dry_run(run):
                print(line)
            return
        model = fit(run, values, resume=arguments.resume)
        if rank_zero_only.rank == 0:
            print(f"trained model: {model}")

    return _run(tool, parser, argv)


def evaluate(argv: Sequence[str] | None = None) -> int:
    """``tools/evaluate.py CONFIG [key=value ...] [--freeze FILE]``"""
    parser = _config_parser(
        "Evaluate a model; writes runs/<name>/ and goes on where a killed evaluation stopped. Several processes share the clips: "
        "torchrun --nproc-per-node N tools/evaluate.py CONFIG."
    )
    parser.add_argument("--freeze", type=Path, metavar="FILE", help="write the questions to FILE and stop")

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.evaluation.evaluate import evaluate as answer
        from actdeny_train.evaluation.freeze import freeze
        from actdeny_train.evaluation.run import EvaluateRun
        from actdeny_train.report.terminal import open_console, print_summary

        values = config.read(arguments.config, arguments.overrides)
        run = config.parse(values, EvaluateRun, str(arguments.config))
        if arguments.freeze:
            print(
                f"{freeze(run, arguments.freeze)} questions: {arguments.freeze} (ask them with questions_file={arguments.freeze})"
            )
            return
        summary = answer(run, values=values)
        if summary:  # the first of several processes
            print_summary(summary, open_console())
            print(f"predictions, metrics and config: {Path(run.folder) / run.name}")

    return _run(tool, parser, argv)


def prepare(argv: Sequence[str] | None = None) -> int:
    """``tools/prepare.py DATASET ROOT [key=value ...] [--out FILE] [--workers N] [--timeout-s S] [--max-bits B]``"""
    parser = argparse.ArgumentParser(
        description="Decode every clip of a dataset once and write a verified manifest, a quarantine list, what was measured, and clips "
        "that two splits share. Goes on where a killed call stopped."
    )
    parser.add_argument("dataset", help="hmdb51, ucf101, kinetics400, ... or the dotted path of a class")
    parser.add_argument("root", help="folder that the videos lie below")
    parser.add_argument(
        "overrides", nargs="*", metavar="key=value", help="settings of the dataset, such as annotations=... or fold=2"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="manifest to write; default: ROOT/DATASET.jsonl")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="videos decoded at a time; default: 2")
    parser.add_argument(
        "--timeout-s", type=float, default=60.0, metavar="S", help="seconds that a video may take; default: 60"
    )
    parser.add_argument(
        "--max-bits",
        type=float,
        default=3.0,
        metavar="B",
        help="0 to 3: how far clips that look alike may differ; default: 3",
    )

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.datasets.base import ClipDataModule
        from actdeny_train.datasets.named import find_dataset, says_rather_than_refuses
        from actdeny_train.datasets.prepare import Outputs
        from actdeny_train.datasets.prepare import prepare as make
        from actdeny_train.evaluation.progress import progress
        from actdeny_train.report.prepared import print_prepared
        from actdeny_train.report.terminal import open_console

        target = find_dataset(arguments.dataset)
        values = {
            "_target_": target,
            "root": arguments.root,
            **says_rather_than_refuses(target),
            "screening": {"num_workers": arguments.workers, "timeout_s": arguments.timeout_s},
        }
        values = config.replace(values, arguments.overrides, "the command line")
        data = config.parse(values, ClipDataModule, "the command line")  # type: ignore[type-abstract]
        out = arguments.out or Path(arguments.root) / f"{arguments.dataset.rpartition('.')[2]}.jsonl"
        with contextlib.ExitStack() as stack:
            summary = make(
                data,
                out,
                max_bits=arguments.max_bits,
                watch=lambda total: stack.enter_context(progress(total, "verifying", "verified")),
            )
        print_prepared(summary, open_console())
        beside = Outputs(manifest=out).beside
        print(f"manifest: {out}")
        for what in ("videos", "quarantine", "duplicates", "summary"):
            print(f"{what}: {beside(what)}")

    return _run(tool, parser, argv)


def export(argv: Sequence[str] | None = None) -> int:
    """``tools/export.py CHECKPOINT OUT [--push REPO_ID]``"""
    parser = argparse.ArgumentParser(description="Write a trained model as a folder that plain transformers loads.")
    parser.add_argument("checkpoint", type=Path, help="checkpoints/<name>, or its last.ckpt")
    parser.add_argument("out", type=Path, help="folder to make")
    parser.add_argument("--push", metavar="REPO_ID", help="upload the folder to this (private) Hub repository")

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.export.export import export as write
        from actdeny_train.export.export import push

        print(f"exported: {write(arguments.checkpoint, arguments.out)}")
        if arguments.push:
            print(f"uploaded: {push(arguments.out, arguments.push)}")

    return _run(tool, parser, argv)


def export_benchmark(argv: Sequence[str] | None = None) -> int:
    """``tools/export_benchmark.py CONFIG OUT [key=value ...] [--format NAME ...] [--name NAME]``"""
    parser = argparse.ArgumentParser(
        description="Write the questions of an evaluation for other harnesses: lmms-eval, VLMEvalKit, the Hugging Face Hub."
    )
    parser.add_argument("config", type=Path, help="YAML file of an evaluation, see configs/evaluate/")
    parser.add_argument("out", type=Path, help="folder to make; each format has a folder of its own in it")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="values that replace those of the file")
    formats = ("lmms_eval", "vlmevalkit", "hf")
    parser.add_argument("--format", action="append", choices=formats, help="default: all of them")
    parser.add_argument("--name", default="ActDeny", help="beginning of the tasks' names; default: ActDeny")

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.evaluation.evaluate import find_questions
        from actdeny_train.evaluation.run import EvaluateRun
        from actdeny_train.export.benchmark.export import export_benchmark as write

        run = config.parse(config.read(arguments.config, arguments.overrides), EvaluateRun, str(arguments.config))
        data = run.data.build()
        data.prepare_data()
        groups = data.groups(run.split)
        questions = find_questions(run, data, groups)
        clips = list({clip.id: clip for group in groups for clip in group.clips}.values())
        asked = [question for group in groups for question in questions.about(group)]
        named = {"formats": arguments.format} if arguments.format else {}
        for folder in write(clips, asked, arguments.out, video_root=data.root, name=arguments.name, **named):
            print(f"exported: {folder}")

    return _run(tool, parser, argv)


def report(argv: Sequence[str] | None = None) -> int:
    """``tools/report.py RUN [RUN ...] --out FILE [--markdown FILE] [--latex FILE]``"""
    parser = argparse.ArgumentParser(
        description="One HTML page about evaluations: tables, plots, comparison with the first one, clips that fooled the model."
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of an evaluation: runs/<name>")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="HTML file to write")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables in Markdown, too")
    parser.add_argument("--latex", type=Path, metavar="FILE", help="the tables in LaTeX, too")

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.report.html import write_report

        page = write_report(arguments.runs, arguments.out, markdown=arguments.markdown, latex=arguments.latex)
        print(f"report: {page}")

    return _run(tool, parser, argv)


def check_configs(argv: Sequence[str] | None = None) -> int:
    """``python -m actdeny_train.cli [FILE ...]``: check configs (all of ``configs/`` by default) without running them."""
    parser = argparse.ArgumentParser(description="Bind every _target_ of configs against its signature.")
    parser.add_argument("files", type=Path, nargs="*", help="YAML files; default: all below configs/")

    def tool(arguments: argparse.Namespace) -> None:
        files = arguments.files or sorted(Path("configs").rglob("*.yaml"))
        for file in files:
            config.check(file)
        print(f"{len(files)} configs are sound")

    return _run(tool, parser, argv)


def benchmark(argv: Sequence[str] | None = None) -> int:
    """``tools/benchmark.py NAME``"""
    parser = argparse.ArgumentParser(description="Measure, and print one JSON object.")
    parser.add_argument(
        "name",
        choices=["tree", "grid"],
        help="tree: a training step on a forest against one question a sequence; grid: scoring six setups under two prompts",
    )

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.evaluation import grid_benchmark
        from actdeny_train.training import tree_benchmark

        figures = tree_benchmark.measure() if arguments.name == "tree" else grid_benchmark.measure()
        print(json.dumps(figures, indent=2))

    return _run(tool, parser, argv)


def demo(argv: Sequence[str] | None = None) -> int:
    """``tools/demo.py``"""
    parser = argparse.ArgumentParser(
        description="The whole path once on MiniAD, without a download: about four minutes."
    )

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.miniature import demo as show
        from actdeny_train.report.terminal import open_console

        show(open_console())

    return _run(tool, parser, argv)


def study(argv: Sequence[str] | None = None) -> int:
    """``tools/study.py``"""
    parser = argparse.ArgumentParser(
        description="Does it learn? Pretraining and four continuations on MiniAD: about 20 minutes."
    )

    def tool(arguments: argparse.Namespace) -> None:
        from actdeny_train.miniature import study as run
        from actdeny_train.report.terminal import open_console

        run(open_console())

    return _run(tool, parser, argv)


if __name__ == "__main__":
    sys.exit(check_configs())
