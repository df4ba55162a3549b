"""The state that a killed run resumes from."""

import sys
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Checkpoint

from actdeny_train.training.steps import Step


class LastState(Checkpoint):
    """Writes the training state to ``path`` every ``every_steps`` steps and at the end, each time whole or not at all.

    Lightning's own ModelCheckpoint leaves out the end of a run that is no multiple of ``every_steps`` long.
    """

    def __init__(self, path: Path, every_steps: int) -> None:
        self.path = path
        self.every_steps = every_steps
        self._saved: int | None = None

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        self._saved = trainer.global_step if trainer.ckpt_path else None

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Step,
        batch_idx: int,
    ) -> None:
        if trainer.global_step % self.every_steps == 0:
            self._save(trainer)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if trainer.global_step % self.every_steps:
            self._save(trainer)

    def on_exception(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, exception: BaseException
    ) -> None:
        """Say what is left after Ctrl-C or an error. Nothing is saved here: a step may have been half done."""
        if trainer.is_global_zero:
            left = (
                "no state has been saved yet"
                if self._saved is None
                else f"the state after step {self._saved} is in {self.path}: go on with --resume"
            )
            print(
                f"stopped after step {trainer.global_step} of {trainer.max_steps}; {left}", file=sys.stderr, flush=True
            )

    def _save(self, trainer: lightning.Trainer) -> None:
        trainer.save_checkpoint(self.path, weights_only=False)
        self._saved = trainer.global_step
