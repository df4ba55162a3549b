"""From a TrainRun to a finetuned model: verify clips, plan steps, run Lightning, save a folder that transformers loads."""

import json
import logging
import os
import pickle
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import lightning
import torch
import yaml
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch.utils.data import DataLoader

from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.datasets.worker_errors import ErrorsAsItems
from actdeny_train.errors import CheckpointError, ConfigError
from actdeny_train.models.family import Family
from actdeny_train.models.tuning import make_plain
from actdeny_train.questions.mixture import Mixture
from actdeny_train.training.last_state import LastState
from actdeny_train.training.module import AnswerTraining
from actdeny_train.training.plan import Plan, StepSampler
from actdeny_train.training.progress import ProgressLines, Throughput
from actdeny_train.training.record import RECORD, describe, write_record
from actdeny_train.training.run import HardwareSettings, TrainRun
from actdeny_train.training.steps import StepDataset

CONFIG = "config.yaml"
LAST = "last.ckpt"
MODEL = "model"
ADAPTER = "adapter"
UNTRUE_WARNINGS = (
    r".*in eval mode at the start of training",  # frozen parts are, on purpose
    r".*your dataloader is not resumable",  # StepSampler goes on at the next step
    r".*overridden `on_before_batch_transfer`",  # in the module, where it belongs
    r".*LeafSpec.*is deprecated",  # Lightning's own
)
"""Lightning's warnings that would mislead the reader of a run's log."""


def train(
    run: TrainRun,
    values: Mapping[str, Any],
    *,
    resume: bool = False,
    family: Family | None = None,
    data: ClipDataModule | None = None,
) -> Path:
    """Train and return the folder of the finished model (``<folder>/<name>/model``), adapters merged; ``adapter`` beside it has them alone.

    ``values`` is the resolved config, saved beside the results. ``family`` and ``data`` may be given ready-made. Raises ConfigError if the
    folder already holds a run and ``resume`` is not set, or if a resumed run's config, model or clips differ from those it began with.
    """
    folder = open_folder(run, values, resume)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").setLevel(
        logging.WARNING
    )  # no advertisements in a run's log
    lightning.seed_everything(run.seed, verbose=False)
    data = data or run.data.build()
    data.prepare_data()
    clips = data.usable("train")
    data.write_quarantine(folder)
    family = family or run.model.build()
    plan = Plan(clips, run.batch, run.seed)
    trainer = make_trainer(run, folder, plan.num_steps)
    record = describe(family, clips, len(data.quarantine("train"))) if trainer.is_global_zero else None
    module = AnswerTraining(family, run.optimizer, plan.num_steps, run.hardware, run.tuning, run.seed)
    data.feed(lambda _: make_loader(run, plan, data, module))
    if record is not None:
        write_record(folder / RECORD, record, resume)
    with warnings.catch_warnings():
        for untrue in UNTRUE_WARNINGS:
            warnings.filterwarnings("ignore", message=untrue)
        trainer.fit(module, datamodule=data, ckpt_path=str(folder / LAST) if resume else None, weights_only=True)
    if trainer.is_global_zero:
        if run.tuning.adapter:
            save_adapter(family, values, folder / ADAPTER)
        make_plain(family)
        _save_whole(folder / MODEL, family.save)
    return folder / MODEL


def make_loader(run: TrainRun, plan: Plan, data: ClipDataModule, module: AnswerTraining) -> DataLoader:
    """Return the loader of the steps that are left; Lightning asks for it after it has restored ``global_step``."""
    trainer = module.trainer
    dataset = StepDataset(
        plan=plan,
        read_frames=ClipReader(data, run.frames, run.batch.cache_gib),
        processor=module.family.processor,
        source=Mixture(run.questions),
        labels=data.labels,
        rank=trainer.global_rank,
        world_size=trainer.world_size,
    )
    workers = run.batch.num_workers
    return DataLoader(
        ErrorsAsItems(dataset),
        batch_size=None,
        sampler=StepSampler(plan.num_steps, trainer.global_step),
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="spawn" if workers else None,  # a fork would copy decoders and thread pools in mid-work
    )


def make_trainer(run: TrainRun, folder: Path, num_steps: int) -> lightning.Trainer:
    """Return the Lightning trainer of a run that writes to ``folder``."""
    save = LastState(folder / LAST, run.output.save_every_steps)
    watch = [component.build() for component in run.output.callbacks]
    on_terminal = sys.stderr.isatty()
    bar = TQDMProgressBar() if on_terminal else ProgressLines()
    try:
        return lightning.Trainer(
            accelerator=run.hardware.accelerator,
            devices=run.hardware.devices,
            strategy=run.hardware.strategy,
            precision="bf16-mixed" if run.hardware.precision == "bfloat16" else "32-true",
            max_epochs=1,
            max_steps=num_steps,
            logger=[
                CSVLogger(folder, name="logs", flush_logs_every_n_steps=1),
                TensorBoardLogger(folder, name="tensorboard"),
            ],
            callbacks=[save, Throughput(), bar, *watch],
            log_every_n_steps=run.output.log_every_steps,
            enable_progress_bar=on_terminal,
            enable_model_summary=False,
            use_distributed_sampler=False,
            deterministic="warn",
        )
    except (MisconfigurationException, ValueError) as error:
        raise ConfigError(
            f"Lightning cannot run with hardware.accelerator={run.hardware.accelerator}, devices={run.hardware.devices}, "
            f"strategy={run.hardware.strategy} here ({' '.join(str(error).split())}). Correct these, or leave them out."
        ) from error


def open_folder(run: TrainRun, values: Mapping[str, Any], resume: bool) -> Path:
    """Return the run's folder with its config in it, refusing to mix two runs."""
    folder = Path(run.output.folder) / run.name
    config = folder / CONFIG
    if resume:
        if not (folder / LAST).is_file():
            raise CheckpointError(
                f"Nothing to resume: {folder / LAST} does not exist. Start the run without --resume, or correct name or output.folder."
            )
        if not config.is_file():
            raise CheckpointError(
                f"Nothing can be resumed without the config the run began with: {config} does not exist. Restore it, or start a new run "
                "under another name."
            )
        _compare(yaml.safe_load(config.read_text(encoding="utf-8")), values, config)
        _check_state(folder / LAST)
        return folder
    if (folder / LAST).exists() or (folder / MODEL).exists():
        raise ConfigError(
            f"{folder} already holds a run. Continue it with --resume, choose another name (name=...), or remove the folder."
        )
    folder.mkdir(parents=True, exist_ok=True)
    # A kill leaves a whole config or none; each device's process has a file of its own to write.
    work = config.with_name(f"{config.name}.{os.getpid()}.partial")
    work.write_text(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True), encoding="utf-8")
    work.replace(config)
    return folder


def _compare(saved: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Refuse to resume under settings that change the result; devices and output may differ."""
    differing = sorted(
        key
        for key in {*saved, *now} - {"hardware", "output"}
        if json.dumps(saved.get(key), sort_keys=True) != json.dumps(now.get(key), sort_keys=True)
    )
    if _precision(saved) != _precision(now):
        differing.append("hardware.precision")
    if differing:
        raise ConfigError(
            f"The run in {path.parent} was started with other settings under {', '.join(differing)} (see {path}), so resuming would mix "
            "two runs. Use the saved config, or start a new run under another name."
        )


def _precision(values: Mapping[str, Any]) -> str:
    return str((values.get("hardware") or {}).get("precision", HardwareSettings.precision))


def _check_state(path: Path) -> None:
    """Raise CheckpointError if the file is damaged, before clips are verified and weights are read."""
    try:
        torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (RuntimeError, EOFError, ValueError, OSError, pickle.UnpicklingError) as error:
        raise CheckpointError(
            f"The training state {path} cannot be read ({' '.join(str(error).split())[:120]}). Restore it from a copy, or remove "
            "the folder and start the run again."
        ) from error


def save_adapter(family: Family, values: Mapping[str, Any], folder: Path) -> None:
    """Write the adapters of a family in training, in peft's format, for the checkpoint that a run's config names."""
    from actdeny_train.models import adapters

    model = values["model"]
    base, revision = str(model.get("checkpoint", "a random initialisation")), model.get("revision")
    _save_whole(folder, lambda work: adapters.save_adapter(family, work, base, revision))


def _save_whole(folder: Path, save: Callable[[Path], None]) -> None:
    """Save into a folder that appears when it is complete."""
    work = folder.with_name(folder.name + ".partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    save(work)
    shutil.rmtree(folder, ignore_errors=True)
    work.replace(folder)
