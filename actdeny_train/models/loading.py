"""Loading checkpoints through transformers, with errors that say which file or which access is missing and what to do."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HTTPError, StrictDataclassError
from safetensors import SafetensorError
from transformers import AutoConfig, PreTrainedConfig
from transformers.utils import logging as transformers_logging

from actdeny_train.errors import CheckpointError

FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja")
"""What is fetched of a Hub repository: no code, no pickled weights."""

UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    SafetensorError,
    StrictDataclassError,
)
"""What transformers raises over files that are damaged or need a package that is not there."""


def fetch(checkpoint: str, revision: str | None, *, is_text: bool = False) -> Path:
    """Return the folder of a checkpoint: a local one, or the Hub's through the local cache. Nothing in it is missing.

    ``is_text`` is for language models, which have no preprocessing. Raises CheckpointError at once where neither has it; the many
    files of a repository are not asked for one by one.
    """
    folder = Path(checkpoint)
    if folder.is_dir():
        return _check_folder(folder, checkpoint, is_text)
    if folder.is_absolute() or checkpoint.startswith(".") or checkpoint.count("/") > 1:
        raise CheckpointError(
            f"There is no checkpoint folder {checkpoint}. Give a folder in the official layout (config.json, *.safetensors, "
            "tokenizer and preprocessor files) or a Hub name such as Qwen/Qwen2.5-VL-3B-Instruct."
        )
    try:
        cached = Path(snapshot_download(checkpoint, revision=revision, local_files_only=True))
        if not _missing(cached, is_text):
            return cached
    except (OSError, ValueError):
        pass  # not in the cache, or not in full
    try:
        HfApi().model_info(checkpoint, revision=revision, timeout=30)
        downloaded = Path(snapshot_download(checkpoint, revision=revision, allow_patterns=list(FILES)))
        return _check_folder(downloaded, checkpoint, is_text)
    except (HTTPError, OSError, ValueError) as error:
        at = f" at revision {revision}" if revision else ""
        command = f"hf download {checkpoint}{f' --revision {revision}' if revision else ''}"
        raise CheckpointError(
            f"Cannot load {checkpoint}{at}: it is not in the local Hugging Face cache in full, and the Hub could not be reached or does "
            f"not have it ({_reason(error)}). On a machine with internet run `{command}` and copy the cache (HF_HOME), or pass a local "
            "folder: model.checkpoint=FOLDER."
        ) from error


def load_processor(cls: Any, folder: Path) -> Any:
    """Return ``cls.from_pretrained`` of a local folder, without remote code."""
    try:
        return cls.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except UNREADABLE as error:
        what = "the processor (tokenizer, chat template, preprocessing)"
        raise CheckpointError(f"Cannot read {what} in the folder {folder}: {_reason(error)}") from error


def load_model(cls: Any, model_type: str | None, folder: Path, dtype: torch.dtype, **settings: Any) -> Any:
    """Return ``cls.from_pretrained`` in ``dtype`` from safetensors, refusing other families and missing or left-over weights.

    ``model_type`` None takes any that ``cls`` takes. ``settings`` are further arguments of it, such as the ``config`` and
    ``key_mapping`` of a layout that transformers does not know.
    """
    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()
    try:
        settings_file = PreTrainedConfig.get_config_dict(folder, local_files_only=True)[0]
        found = str(settings_file.get("model_type"))
        if model_type is not None and found != model_type:
            if "auto_map" not in settings_file:
                AutoConfig.from_pretrained(
                    folder, trust_remote_code=False
                )  # says so where it is a type that nobody knows
            raise CheckpointError(
                f"{folder} is a checkpoint of model type {found!r}, but this family loads {model_type!r}. "
                "Choose the family that belongs to the checkpoint (key model._target_), or another model.checkpoint."
            )
        model, info = cls.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with the names
            **settings,
        )
    except UNREADABLE as error:
        raise CheckpointError(f"Cannot read the weights in the folder {folder}: {_reason(error)}") from error
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[what]:
            names = sorted(k if isinstance(k, str) else str(k[0]) for k in info[what])
            raise CheckpointError(
                f"The weights of {folder} do not fit {cls.__name__}: {len(names)} {what.replace('_', ' ')}, "
                f"the first are {', '.join(names[:3])}. Use a complete checkpoint in the official layout."
            )
    return model


def _check_folder(folder: Path, checkpoint: str, is_text: bool) -> Path:
    """Return the folder if it is complete; else name what it lacks."""
    if missing := _missing(folder, is_text):
        found = ", ".join(sorted(p.name for p in folder.iterdir())[:8]) or "nothing"
        raise CheckpointError(
            f"The checkpoint folder {checkpoint} lacks {'; '.join(missing)} (found: {found}). Download the whole repository, or "
            "export a trained run with tools/export.py."
        )
    return folder


def _missing(folder: Path, is_text: bool) -> list[str]:
    needed = {
        "config.json": ("config.json",),
        "weights (*.safetensors)": ("*.safetensors",),
        "tokenizer (tokenizer.json or vocab.json)": ("tokenizer.json", "vocab.json", *(["*.model"] if is_text else [])),
        "preprocessing (preprocessor_config.json or processor_config.json)": (
            "preprocessor_config.json",
            "processor_config.json",
        ),
    }
    if is_text:
        needed.popitem()
    missing = [what for what, patterns in needed.items() if not any(any(folder.glob(p)) for p in patterns)]
    return missing + [name for name in _shards(folder) if not (folder / name).is_file()]


def _shards(folder: Path) -> list[str]:
    """Return the names of the weight files that the index, if there is one, counts on: a download may have broken off."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file() or (folder / "model.safetensors").is_file():
        return []
    try:
        return sorted({str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    except (ValueError, LookupError, TypeError, AttributeError):
        return []  # loading says what is wrong with the index


def _reason(error: Exception) -> str:
    kind = "" if isinstance(error, (OSError, ValueError)) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())[:300]
