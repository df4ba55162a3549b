"""The one training loop: forests in, the head's loss over answer tokens, one optimiser."""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import lightning
import torch
from torch import Tensor

from actdeny_train.datasets.worker_errors import unwrap
from actdeny_train.errors import ActdenyError, CheckpointError, ConfigError
from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.models.heads import LanguageHead
from actdeny_train.models.tuning import TuningSettings, prepare, set_modes
from actdeny_train.training.blame import questions_at_fault
from actdeny_train.training.optimizer import (
    adapters_without_gradient,
    find_coarse_parts,
    groups_without_gradient,
    make_optimizer,
    rate_factor,
    set_rates,
)
from actdeny_train.training.run import HardwareSettings, OptimizerSettings
from actdeny_train.training.steps import Step
from actdeny_train.types import Question


class TrainingError(ActdenyError):
    """Training cannot go on: the loss is not finite, or a trained part gets no gradient."""


class AnswerTraining(lightning.LightningModule):
    """Trains a family on right answers.

    The loss of a step is the mean negative log-probability of all its answer tokens, over all forests and devices, so it does not
    depend on how the step is cut into forests. Lightning's ``global_step`` counts optimiser steps, as ours do.
    """

    def __init__(
        self,
        family: Family,
        optimizer: OptimizerSettings,
        num_steps: int,
        hardware: HardwareSettings,
        tuning: TuningSettings | None = None,
        seed: int = 0,
    ) -> None:
        tuning = tuning or TuningSettings()
        prepare(family, optimizer.lr, tuning, seed)
        if reason := find_coarse_parts(family, optimizer.lr):
            raise ConfigError(reason)
        super().__init__()
        self.automatic_optimization = False
        self.family = family
        self.head = LanguageHead()
        self.settings = optimizer
        self.num_steps = num_steps
        self.saves_trained_alone = tuning.changes_layers
        self.strict_loading = not self.saves_trained_alone  # on_load_checkpoint is as strict
        if hardware.checkpoint_gradients:
            family.checkpoint_gradients()
        set_modes(family)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Leave out frozen weights where adapters train: they are those of the checkpoint that the run began with."""
        if self.saves_trained_alone:
            checkpoint["state_dict"] = {name: checkpoint["state_dict"][name] for name in self._trained_names()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Refuse a state that does not hold exactly what trains."""
        if self.saves_trained_alone and (wrong := set(checkpoint["state_dict"]) ^ set(self._trained_names())):
            raise CheckpointError(
                f"The saved state does not fit what trains: {', '.join(sorted(wrong)[:3])} differ. Resume with the config and the packages "
                "that the run began with, or start it again."
            )

    def _trained_names(self) -> list[str]:
        return [name for name, parameter in self.named_parameters() if parameter.requires_grad]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimizer(self.family, self.settings)

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        """Raise the error that a data worker met in place of a step, before callbacks see it."""
        return unwrap(batch)

    def training_step(self, step: Step, batch_idx: int) -> None:
        optimizer: Any = self.optimizers()
        rates = set_rates(optimizer.optimizer, rate_factor(step.number, self.num_steps, self.settings.warmup_ratio))
        weights = [
            torch.tensor(weight, device=self.device)[batch.forest.leaf_question[batch.forest.answer_leaf]]
            for batch, weight in zip(step.batches, step.weights, strict=True)
        ]
        num_tokens = self._over_devices(torch.stack([w.sum() for w in weights]).sum())
        optimizer.zero_grad()
        loss = torch.zeros((), device=self.device)
        for i, (batch, weight) in enumerate(zip(step.batches, weights, strict=True)):
            is_last = i == len(step.batches) - 1
            with nullcontext() if is_last else self._without_sync():
                part = self._loss(batch, weight) / num_tokens
                if not bool(torch.isfinite(part)):
                    raise _not_finite(
                        f"loss of step {step.number}", part, questions_at_fault(self.family, batch) or batch.questions
                    )
                self.manual_backward(part * self.trainer.world_size)  # DDP averages gradients over devices
            loss += part.detach()
        if step.number == 0:
            self._check_reached()
        norm = self._clip()
        if not bool(torch.isfinite(norm)):
            raise _not_finite(
                f"gradient of step {step.number}", norm, [q for batch in step.batches for q in batch.questions]
            )
        optimizer.step()
        self.log("loss", self._over_devices(loss), prog_bar=True)
        self.log_dict({"gradient_norm": norm, **{f"lr/{part}": rate for part, rate in rates.items()}})

    def _check_reached(self) -> None:
        """Raise TrainingError if no gradient reaches a trained part, or an adapter."""
        if without := groups_without_gradient(self.family, self.settings.lr):
            raise TrainingError(
                f"No gradient reaches {', '.join(without)} in the first step, so training would leave it as it is. Freeze it "
                f"(leave out optimizer.lr.{without[0]}) or mend the model."
            )
        if missed := adapters_without_gradient(self.family):
            raise TrainingError(
                f"No gradient reaches {len(missed)} adapted layers in the first step, so training would leave them as they are: "
                f"{', '.join(missed[:3])}{', ...' if len(missed) > 3 else ''}. Leave them out with tuning.adapter.targets."
            )

    def _loss(self, batch: Batch, weight: Tensor) -> Tensor:
        hidden = self.family(batch.forest, self.family.see(batch.visual))
        return -(self.head.token_logprobs(self.family, batch.forest, hidden) * weight).sum()

    def _clip(self) -> Tensor:
        parameters = [p for p in self.family.parameters() if p.grad is not None]
        limit = self.settings.clip_norm if self.settings.clip_norm is not None else math.inf
        return torch.nn.utils.clip_grad_norm_(parameters, limit)

    def _without_sync(self) -> Any:
        strategy = self.trainer.strategy
        return strategy.block_backward_sync() if hasattr(strategy, "block_backward_sync") else nullcontext()

    def _over_devices(self, value: Tensor) -> Tensor:
        """Return the sum over devices."""
        return value if self.trainer.world_size == 1 else self.trainer.strategy.reduce(value, reduce_op="sum")


def _not_finite(what: str, value: Tensor, questions: Sequence[Question]) -> TrainingError:
    clips = sorted({clip for question in questions for clip in question.clip_ids})
    return TrainingError(
        f"The {what} is {float(value.detach())}: it comes from {len(clips)} clip{'s' if len(clips) != 1 else ''} "
        f"({', '.join(clips[:5])}{', ...' if len(clips) > 5 else ''}), first question {questions[0].id!r}. "
        "The last saved state is untouched. Look at these clips; if they are sound, lower the learning rates or use "
        "hardware.precision=float32."
    )
