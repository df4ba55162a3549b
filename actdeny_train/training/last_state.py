"""The state that a killed run resumes from."""

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

    def on_train_batch_end(
        self,
        trainer: lightning.Trainer,
        pl_module: lightning.LightningModule,
        outputs: Any,
        batch: Step,
        batch_idx: int,
    ) -> None:
        if trainer.global_step % self.every_steps == 0:
            trainer.save_checkpoint(self.path, weights_only=False)

    def on_train_end(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        if trainer.global_step % self.every_steps:
            trainer.save_checkpoint(self.path, weights_only=False)
