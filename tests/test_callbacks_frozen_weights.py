"""FrozenWeights against real Lightning runs of a model with a frozen half."""

from pathlib import Path

import lightning
import pytest
import torch
from torch import Tensor, nn

from actdeny_train import config
from actdeny_train.errors import ConfigError
from actdeny_train.training.module import TrainingError
from callbacks.frozen_weights import FrozenWeights, frozen_tensors


class HalfFrozen(lightning.LightningModule):
    """A frozen linear layer and batch norm under a trained linear layer. ``write_to`` is a tensor that each step spoils."""

    def __init__(self, write_to: str = "", norm_in_train_mode: bool = False) -> None:
        super().__init__()
        self.frozen = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.trained = nn.Linear(3, 1)
        self.write_to = write_to
        self.norm_in_train_mode = norm_in_train_mode
        for layer in (self.frozen, self.norm):
            layer.requires_grad_(False)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        self.norm.train(self.norm_in_train_mode)
        if self.write_to:
            with torch.no_grad():
                self.get_parameter(self.write_to).add_(1e-7)
        return self.trained(self.norm(self.frozen(batch))).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.trained.parameters(), lr=0.1)


def fit(module: lightning.LightningModule, folder: Path) -> None:
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=3,
        callbacks=[FrozenWeights()],
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, torch.utils.data.DataLoader(torch.randn(12, 3), batch_size=4))


def test_a_sound_training_passes_and_trains(tmp_path: Path) -> None:
    module = HalfFrozen()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    fit(module, tmp_path)
    after = module.state_dict()
    assert not torch.equal(before["trained.weight"], after["trained.weight"])
    assert torch.equal(before["frozen.weight"], after["frozen.weight"])


def test_a_changed_frozen_weight_is_named(tmp_path: Path) -> None:
    module = HalfFrozen(write_to="frozen.bias")
    with pytest.raises(
        TrainingError, match=r"1 of 7 frozen tensors changed .*: frozen\.bias\. The finished model is not saved"
    ):
        fit(module, tmp_path)


def test_running_statistics_of_a_frozen_norm_count(tmp_path: Path) -> None:
    module = HalfFrozen(norm_in_train_mode=True)
    names = r"norm\.num_batches_tracked, norm\.running_mean, norm\.running_var"
    with pytest.raises(TrainingError, match=rf"3 of 7 frozen tensors changed .*: {names}\."):
        fit(module, tmp_path)


def test_a_training_of_everything_is_refused(tmp_path: Path) -> None:
    module = HalfFrozen()
    module.requires_grad_(True)
    with pytest.raises(ConfigError, match="nothing to watch: every part trains"):
        fit(module, tmp_path)


def test_frozen_tensors_are_parameters_without_gradients_and_their_modules_buffers() -> None:
    module = HalfFrozen()
    statistics = ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"]
    assert [name for name, _ in frozen_tensors(module)] == [
        "frozen.weight",
        "frozen.bias",
        "norm.weight",
        "norm.bias",
        *statistics,
    ]
    module.norm.weight.requires_grad_(True)  # now its statistics may move
    assert [name for name, _ in frozen_tensors(module)] == ["frozen.weight", "frozen.bias", "norm.bias"]


def test_it_is_named_in_a_config_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("_target_: callbacks.frozen_weights.FrozenWeights\n", encoding="utf-8")
    assert isinstance(config.parse(config.read(file), FrozenWeights, "run.yaml"), FrozenWeights)
