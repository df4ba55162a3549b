"""Loading checkpoints through transformers, with errors that say which file or which access is missing and what to do."""

import sys
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig
from transformers.utils import logging as transformers_logging

from actdeny_train.errors import CheckpointError


def load_processor(cls: Any, checkpoint: str, revision: str | None) -> Any:
    """Return ``cls.from_pretrained`` for a Hub name or folder, without remote code."""
    _check_folder(checkpoint)
    try:
        return cls.from_pretrained(checkpoint, revision=revision, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise _explain(
            "the processor (tokenizer, chat template, preprocessing)", checkpoint, revision, error
        ) from error


def load_model(cls: Any, model_type: str, checkpoint: str, revision: str | None, dtype: torch.dtype) -> Any:
    """Return ``cls.from_pretrained`` in ``dtype`` from safetensors, refusing other families and missing or left-over weights."""
    _check_folder(checkpoint)
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    try:
        config = AutoConfig.from_pretrained(checkpoint, revision=revision, trust_remote_code=False)
        if config.model_type != model_type:
            raise CheckpointError(
                f"{checkpoint} is a checkpoint of model type {config.model_type!r}, but this family loads {model_type!r}. "
                "Choose the family that belongs to the checkpoint (key model._target_), or another model.checkpoint."
            )
        model, info = cls.from_pretrained(
            checkpoint,
            revision=revision,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with the names
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise _explain("the weights", checkpoint, revision, error) from error
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[what]:
            names = sorted(k if isinstance(k, str) else str(k[0]) for k in info[what])
            raise CheckpointError(
                f"The weights of {checkpoint} do not fit {cls.__name__}: {len(names)} {what.replace('_', ' ')}, "
                f"the first are {', '.join(names[:3])}. Use a complete checkpoint in the official layout."
            )
    return model


def _check_folder(checkpoint: str) -> None:
    """Name what a local folder lacks, before transformers looks for it on the Hub."""
    folder = Path(checkpoint)
    if not folder.is_dir():
        if folder.is_absolute() or checkpoint.startswith(".") or checkpoint.count("/") > 1:
            raise CheckpointError(
                f"There is no checkpoint folder {checkpoint}. Give a folder in the official layout (config.json, *.safetensors, "
                "tokenizer and preprocessor files) or a Hub name such as Qwen/Qwen2.5-VL-3B-Instruct."
            )
        return
    missing = [
        what
        for what, patterns in {
            "config.json": ["config.json"],
            "weights (*.safetensors)": ["*.safetensors"],
            "tokenizer (tokenizer.json or vocab.json)": ["tokenizer.json", "vocab.json"],
            "preprocessing (preprocessor_config.json or processor_config.json)": [
                "preprocessor_config.json",
                "processor_config.json",
            ],
        }.items()
        if not any(any(folder.glob(p)) for p in patterns)
    ]
    if missing:
        found = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise CheckpointError(
            f"The checkpoint folder {checkpoint} lacks {'; '.join(missing)} (found: {found}). Download the whole repository, or "
            "export a trained run with tools/export.py."
        )


def _explain(what: str, checkpoint: str, revision: str | None, error: Exception) -> CheckpointError:
    at = f" at revision {revision}" if revision else ""
    reason = " ".join(str(error).split())[:300]
    if Path(checkpoint).is_dir():
        return CheckpointError(f"Cannot read {what} in the folder {checkpoint}: {reason}")
    return CheckpointError(
        f"Cannot load {what} of {checkpoint}{at}: it is not in the local Hugging Face cache, and the Hub could not be reached or does "
        f"not have it ({reason}). On a machine with internet run `hf download {checkpoint}{f' --revision {revision}' if revision else ''}` "
        "and copy the cache (HF_HOME), or pass a local folder: model.checkpoint=FOLDER."
    )
