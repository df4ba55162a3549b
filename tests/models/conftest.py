"""Questions, a tiny Ovis2.5, and what the official Ovis2.5 code computed."""

import copy
import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from actdeny_train.types import Question


@pytest.fixture
def make_question():
    """Make a question from its text and answers: ``make_question(text, answers, target)``."""

    def make(text, answers, target=0):
        return Question(
            id=text,
            clip_ids=("clip",),
            setup="test",
            prompt="plain",
            text=text,
            choices=tuple(answers),
            answers=tuple(answers),
            target=target,
            kind="presence",
            group="clip",
        )

    return make


@pytest.fixture(scope="session")
def tiny_ovis_folder(tmp_path_factory):
    """Checkpoint of a random Ovis2.5 with 0.3 million parameters (made once; never write into it)."""
    from actdeny_train.models import tiny_ovis2_5

    folder = tmp_path_factory.mktemp("tiny") / "ovis2_5"
    size = tiny_ovis2_5.TinySize(
        hidden_size=64, intermediate_size=96, num_layers=2, num_vision_layers=2, vocab_size=400, visual_vocab_size=68
    )
    tiny_ovis2_5.build(folder, seed=0, size=size)
    return folder


@pytest.fixture
def tiny_ovis(tiny_ovis_folder):
    """Make a fresh model from ``tiny_ovis_folder``: ``tiny_ovis(tokens_per_frame=(4, 4))``; each call loads anew."""
    from actdeny_train.models import ovis2_5

    def load(**changed):
        return ovis2_5.load(str(tiny_ovis_folder), **{"tokens_per_frame": (4, 4), **changed})

    return load


class OvisGoldens:
    """Numbers of the official Ovis2.5 code: ``tests/goldens/ovis2_5``, or the full set that they were taken from."""

    def __init__(self, folder):
        self.folder = folder
        self.meta = self.json("meta")
        self.config = self.json("config")

    def json(self, name):
        return json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))

    def tensors(self, name):
        return load_file(self.folder / f"{name}.safetensors")

    def weights(self):
        if (self.folder / "model.safetensors").is_file():
            return self.tensors("model")
        return draw_ovis_weights(self.config)

    def model(self, vit=None, llm=None):
        """Make the model of the goldens, with changes of its config."""
        from actdeny_train.models.ovis2_5.config import Ovis25Config
        from actdeny_train.models.ovis2_5.model import Ovis25Model

        config = copy.deepcopy(self.config)
        config["vit_config"] |= vit or {}
        config["llm_config"] |= llm or {}
        model, weights = Ovis25Model(Ovis25Config(**config)), self.weights()
        if config["llm_config"]["tie_word_embeddings"]:
            del weights["llm.lm_head.weight"]
        result = model.load_state_dict(weights, strict=False)
        assert set(result.missing_keys) <= {"llm.lm_head.weight"}
        assert all("position_embedding" in key for key in result.unexpected_keys)
        return model.eval()

    def processor(self, case="video", thinking=False):
        """Make our processor with the goldens' tokenizer, the chat template in our words and a case's bounds."""
        from transformers import Qwen2Tokenizer
        from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

        from actdeny_train.models.ovis2_5.processing import Ovis25Processor
        from actdeny_train.models.tiny_ovis2_5 import CHAT_TEMPLATE

        tokenizer = Qwen2Tokenizer.from_pretrained(self.folder / "tokenizer")
        tokenizer.chat_template = CHAT_TEMPLATE
        images = SiglipImageProcessorPil(resample=2, image_mean=[0.5] * 3, image_std=[0.5] * 3)
        bounds = (self.meta["cases"][case][key] // 1024 for key in ("min_pixels", "max_pixels"))
        return Ovis25Processor(tokenizer, images, tokens_per_frame=tuple(bounds), thinking=thinking)

    def media(self, name):
        """Return (T, H, W, 3) frames of a picture or clip."""
        pixels = self.tensors("preprocess")[f"raw.{name}"].numpy()
        return pixels if pixels.ndim == 4 else pixels[None]

    def case(self, name):
        """Return ``in.*`` and ``out.*`` of a case; the reduced set has the pictures, not their pixel values."""
        case = self.tensors(f"case_{name}")
        parts = self.meta["cases"][name].get("made_from", [name])
        media = [(part, m) for part in parts for m in self.meta["cases"][part]["media"]]
        if "in.pixel_values" not in case and media:
            case["in.pixel_values"] = torch.cat([self.processor(part).patches(self.media(m))[0] for part, m in media])
        return case

    def variants(self):
        variants = self.tensors("variants")
        if "window.in.pixel_values" not in variants:
            drawn = torch.rand(136, 768, generator=torch.Generator().manual_seed(99))
            variants["window.in.pixel_values"] = drawn * 2 - 1
        return variants


def draw_ovis_weights(config):
    """Draw the goldens' weights as they were drawn: one seeded normal, name by name, with a scale and a mean of its kind."""
    from actdeny_train.models.ovis2_5.config import Ovis25Config
    from actdeny_train.models.ovis2_5.model import Ovis25Model

    shapes = {name: p.shape for name, p in Ovis25Model(Ovis25Config(**config)).state_dict().items()}
    generator = torch.Generator().manual_seed(20251)
    weights = {}
    for name in sorted(shapes):
        drawn = torch.randn(shapes[name], generator=generator)
        if name.endswith(("embed_tokens.weight", "position_embedding.weight", "vte.weight")):
            weights[name] = drawn * 0.5
        elif name.endswith("head.1.weight"):
            weights[name] = 2 + 0.3 * drawn
        elif name.endswith(".bias"):
            weights[name] = (0.3 if "head.1" in name else 0.1) * drawn
        elif "norm" in name:
            weights[name] = 1 + 0.1 * drawn
        else:
            weights[name] = drawn / math.sqrt(drawn[0].numel())
    return weights


@pytest.fixture(scope="session", params=["reduced", pytest.param("full", marks=pytest.mark.shared)])
def ovis_goldens(request):
    """The official numbers, once from this repository and once in full."""
    if request.param == "full":
        return OvisGoldens(request.getfixturevalue("shared") / "goldens/ovis2_5")
    return OvisGoldens(Path(__file__).parents[1] / "goldens/ovis2_5")


@pytest.fixture
def epsilon_probes():
    """Return our and the official output of head, first block and post_layernorm on inputs near zero."""

    def probe(model, variants):
        tower = model.visual_tokenizer.vit.vision_model
        half = variants["eps.block_cos"].shape[1] // 2
        rotation = (variants["eps.block_cos"][:, :half], variants["eps.block_sin"][:, :half])
        with torch.no_grad():
            return [
                (model.visual_tokenizer.head(variants["eps.head_in"]), variants["eps.head_out"]),
                (tower.encoder.layers[0](variants["eps.block_in"], [16], rotation), variants["eps.block_out"]),
                (tower.post_layernorm(variants["eps.block_in"]), variants["eps.post_layernorm_out"]),
            ]

    return probe


@pytest.fixture
def four_clips_law():
    """Check questions that show four clips inside their text, in two orders, on ``family``: every score of the forest is what
    transformers' own model gives for the sequence alone. ``four_clips_law(family, reference, alone, frames, tolerance)`` returns
    the sequences of the first question's first answer and the second question's.
    """
    from actdeny_train.actions.labels import load_ucf101
    from actdeny_train.evaluation.scoring import score
    from actdeny_train.models.batch import Asked, Batch
    from actdeny_train.questions.intruder import Intruder
    from actdeny_train.types import Clip, ClipKind, IntruderTuple

    clips = tuple(
        Clip(id=f"v{i}", path="-", action="pushing", kind=ClipKind.PRESENCE, split="test", source="-") for i in range(4)
    )
    captions = ("La zia preme un tasto", "Il sarto preme il bottone", "Il re spinge la guardia", "Un bimbo preme")
    group = IntruderTuple(id="t", clips=clips, action="pushing", source="t", captions=captions, intruder=2)
    questions = [Intruder().ask_group(group, load_ucf101(), seed=0, index=index) for index in (0, 2)]

    def check(family, reference, alone, frames, tolerance):
        processor = family.processor
        asked = Asked.for_scoring(frames, questions, [clip.id for clip in clips])
        other = Asked.for_scoring(frames[:1], [dataclasses.replace(questions[0], clip_ids=("v0",), clip_places=())])
        with torch.no_grad():
            found = score(family, Batch.of(processor, [other, asked]))
            sequences = []
            for question, scores in zip(questions, found[1:], strict=True):
                visuals = [processor.visual(frames[i]) for i in question.permutation]
                for choice, answer in enumerate(question.answers):
                    sequence = processor.sequence(
                        visuals, question.text, answer, question=0, choice=choice, places=question.clip_places
                    )
                    expected = float(alone(reference, sequence, visuals).sum())
                    assert scores[choice] == pytest.approx(expected, abs=tolerance)
                    sequences.append(sequence)
        assert len({round(value, 4) for scores in found for value in scores}) > 8, (
            "scores that do not differ test nothing"
        )
        return sequences[0], sequences[4]

    return check
