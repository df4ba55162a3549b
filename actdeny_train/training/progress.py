"""What a run says while it trains: questions per second, and lines instead of a bar where there is no terminal."""

import time
from typing import Any

import lightning
from lightning import Callback

from actdeny_train.training.steps import Step


class Throughput(Callback):
    """Logs ``questions_per_s`` over all devices and shows it, with the loss, in the progress bar."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._last = time.monotonic()

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Step,
        batch_idx: int,
    ) -> None:
        now = time.monotonic()
        num_questions = sum(len(b.questions) for b in batch.batches) * trainer.world_size
        pl_module.log("questions_per_s", num_questions / (now - self._last), prog_bar=True)
        self._last = now


class ProgressLines(Callback):
    """Prints a line about every ``every_s`` seconds: step, loss, questions per second, time left."""

    def __init__(self, every_s: float = 10.0) -> None:
        self.every_s = every_s

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._started = self._said = time.monotonic()
        self._first = trainer.global_step

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Step,
        batch_idx: int,
    ) -> None:
        now = time.monotonic()
        done, last = trainer.global_step - self._first, trainer.global_step == trainer.max_steps
        if not trainer.is_global_zero or (now - self._said < self.every_s and not last):
            return
        self._said = now
        left_s = (now - self._started) / done * (trainer.max_steps - trainer.global_step)
        metrics = trainer.callback_metrics
        print(
            f"step {trainer.global_step}/{trainer.max_steps}  loss {float(metrics['loss']):.4f}  "
            f"{format_speed(float(metrics['questions_per_s']))} questions/s  {format_time(left_s)} left",
            flush=True,
        )


def format_speed(per_s: float) -> str:
    """Return a whole number, or two digits of one below 1: large models answer less than a question a second."""
    return f"{per_s:.0f}" if per_s >= 1 else f"{per_s:.2g}"


def format_time(time_s: float) -> str:
    """Return minutes and seconds as "8:05", from an hour on "2:08:05"."""
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
