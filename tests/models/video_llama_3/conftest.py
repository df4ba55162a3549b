"""A tiny VideoLLaMA3 in both layouts, clips that partly stand still, and what the official VideoLLaMA3 code computed."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from actdeny_train.types import Frames

OFFICIAL_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'video' %}{% for time in part['timestamps'] %}"
    "Time {{ time | round(1) | string }}s:{{ image_token }}{{ '\\n' if loop.last else ',' }}{% endfor %}"
    "{% elif part['type'] == 'image' %}{{ image_token }}{{ '\\n' }}"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>{{ '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}{% endif %}"
)
"""The layout that the official template writes, which takes the image token and the frames' times from outside; in our words."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """Checkpoint of a random VideoLLaMA3 with 0.3 million parameters (made once; never write into it)."""
    from actdeny_train.models import tiny_video_llama_3

    folder = tmp_path_factory.mktemp("tiny") / "video_llama_3"
    size = tiny_video_llama_3.TinySize(
        hidden_size=64, intermediate_size=96, num_layers=2, num_vision_layers=2, vocab_size=400
    )
    tiny_video_llama_3.build(folder, seed=0, size=size)
    return folder


@pytest.fixture
def tiny_family(tiny_folder):
    """Make a fresh model from ``tiny_folder``: ``tiny_family(tokens_per_frame=(4, 4))``; each call loads anew."""
    from actdeny_train.models import video_llama_3

    def load(**changed):
        return video_llama_3.load(str(tiny_folder), **{"tokens_per_frame": (4, 4), **changed})

    return load


@pytest.fixture(scope="session")
def make_clip():
    """Make frames that partly stand still: ``make_clip(count, height, width, fps, seed)``. Right of a moving border all stays as
    it was; the third frame is the second once more.
    """

    def make(count, height=56, width=84, fps=4.0, seed=0):
        random = np.random.default_rng(seed)
        pixels = np.empty((count, height, width, 3), dtype=np.uint8)
        pixels[0] = random.integers(0, 256, (height, width, 3))
        for t in range(1, count):
            pixels[t] = pixels[t - 1]
            border = 0 if t == 2 else 28 * (1 + t % 2)
            pixels[t, :, :border] = random.integers(0, 256, (height, min(border, width), 3))
        return Frames(
            pixels=pixels,
            time_s=np.arange(count) / fps,
            indices=np.arange(count),
            num_decoded=count,
            sampling="noise",
        )

    return make


@pytest.fixture(scope="session")
def alone():
    """Run one sequence through transformers' own model: ``alone(model, sequence, visuals)`` gives the (K,) log-probabilities of
    its answer tokens.
    """

    def run(model, sequence, visuals):
        ids = torch.from_numpy(sequence.ids)[None]
        inputs = {name: torch.cat([v.inputs[name] for v in visuals]) for name in visuals[0].inputs}
        inputs["pixel_values_videos"] = inputs["pixel_values_videos"].to(next(model.parameters()).dtype)
        logits = model(input_ids=ids, position_ids=torch.from_numpy(sequence.positions), **inputs).logits[0]
        rows = torch.arange(sequence.answer_start, len(sequence.ids))
        return torch.log_softmax(logits[rows - 1], dim=-1)[torch.arange(len(rows)), ids[0, rows]]

    return run


@pytest.fixture
def official_folder(tiny_folder, tmp_path):
    """A copy of the tiny checkpoint in the authors' layout, to be damaged."""
    folder = tmp_path / "official"
    folder.mkdir()
    weights = {official_name(name): w for name, w in load_file(tiny_folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((tiny_folder / "config.json").read_text())
    text, vision = config["text_config"], config["vision_config"]
    rope = text.pop("rope_parameters")
    write_official(
        folder,
        vision={name: value for name, value in vision.items() if name not in ("model_type", "rope_parameters")},
        text={**text, "rope_theta": rope["rope_theta"], "tie_word_embeddings": True},
        tokens=(4, 64),
    )
    shutil.copy(tiny_folder / "tokenizer.json", folder)
    tokenizer = json.loads((tiny_folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**tokenizer, "chat_template": OFFICIAL_TEMPLATE}))
    return folder


def official_name(name):
    """Return the name that a weight has in the authors' checkpoints."""
    for native, theirs in (("vision_model", "vision_encoder"), ("projector", "mm_projector")):
        name = re.sub(rf"^model\.{native}\.", f"model.{theirs}.", name)
    return name.replace("model.language_model.", "model.")


def write_official(folder, vision, text, tokens):
    """Write the configs of a checkpoint in the authors' layout, with the fields that the released ones have."""
    config = {
        **text,
        "model_type": "videollama3_qwen2",
        "architectures": ["Videollama3Qwen2ForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_videollama3.Videollama3Qwen2ForCausalLM"},
        "vision_encoder": None,
        "vision_encoder_config": {**vision, "model_type": "videollama3_vision_encoder"},
        "mm_projector_type": "mlp2x_gelu",
        "use_token_compression": True,
        "image_token_index": 410,
        "torch_dtype": "float32",
    }
    pixels = {
        "image_processor_type": "Videollama3ImageProcessor",
        "processor_class": "Videollama3Qwen2Processor",
        "auto_map": {"AutoProcessor": "processing_videollama3.Videollama3Qwen2Processor"},
        **{f"do_{what}": True for what in ("convert_rgb", "normalize", "rescale", "resize")},
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "min_tokens": tokens[0],
        "max_tokens": tokens[1],
        "patch_size": 14,
        "resample": 3,
        "rescale_factor": 1 / 255,
    }
    merges = {"image_merge_size": 1, "video_merge_size": 2, "fps": 1, "max_frames": 180}
    for name, content in (("config", config), ("preprocessor_config", pixels), ("processor_config", merges)):
        (folder / f"{name}.json").write_text(json.dumps(content))


class Goldens:
    """Numbers of the official VideoLLaMA3 code: ``tests/goldens/video_llama_3``, or the full set that they were taken from."""

    def __init__(self, folder):
        self.folder = folder
        self.meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))

    def tensors(self, name):
        return load_file(self.folder / f"{name}.safetensors")

    def weights(self):
        """Return the weights under their official names; drawn as they were drawn where they are not at hand."""
        if (self.folder / "model.safetensors").is_file():
            return self.tensors("model")
        generator = torch.Generator().manual_seed(424)
        weights = {}
        for name, shape in sorted(self.meta["state_dict_shapes"].items()):
            drawn = torch.randn(shape, generator=generator)
            if name.endswith("embed_tokens.weight"):
                weights[name] = drawn * 0.5
            elif name.endswith(".bias"):
                weights[name] = drawn * 0.1
            else:
                weights[name] = 1 + 0.1 * drawn if "norm" in name else drawn / math.sqrt(drawn[0].numel())
        return weights

    def case(self, name):
        """Return ``in.*`` and ``out.*`` of a case; ``rows`` of the logits are all of them in the full set."""
        case = self.tensors(f"case_{name}")
        if "in.pixels" in case:
            case["in.pixel_values"] = (case["in.pixels"].float() / 255 - 0.5) / 0.5
        for key in ("out", "out.compressed"):
            case.setdefault(f"{key}.rows", torch.arange(case[f"{key}.logits"].shape[1]))
        return case

    def write(self, folder):
        """Write the model as a checkpoint in the authors' layout."""
        save_file(self.weights(), folder / "model.safetensors", {"format": "pt"})
        config = self.meta["config"]
        write_official(folder, config["vision_encoder_config"], config["llm"], (4, 64))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.folder / "tokenizer" / name, folder)
        return folder


@pytest.fixture(scope="session", params=["reduced", pytest.param("full", marks=pytest.mark.shared)])
def goldens(request):
    """The official numbers, once from this repository and once in full."""
    if request.param == "full":
        return Goldens(request.getfixturevalue("shared") / "goldens/videollama3")
    return Goldens(Path(__file__).parents[2] / "goldens/video_llama_3")


@pytest.fixture(scope="session")
def golden_folder(goldens, tmp_path_factory):
    """Checkpoint of the goldens' model in the authors' layout (never write into it)."""
    return goldens.write(tmp_path_factory.mktemp("goldens"))
