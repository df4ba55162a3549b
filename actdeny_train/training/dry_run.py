"""What a training would do, before it does it: parameters per part, one sample with its labels, token counts, a memory plan."""

from collections.abc import Iterable

import torch

from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.models.tuning import train_only
from actdeny_train.questions.mixture import Mixture
from actdeny_train.training.optimizer import find_coarse_parts, make_optimizer
from actdeny_train.training.plan import Plan
from actdeny_train.training.run import TrainRun
from actdeny_train.training.steps import Step, StepDataset
from actdeny_train.trees import dense_mask

GIB = 2**30


def dry_run(run: TrainRun) -> Iterable[str]:
    """Yield lines that describe the run; nothing is trained or written."""
    family = run.model.build()
    train_only(family, run.optimizer.lr)
    yield f"run {run.name}: {run.model.target}"
    yield from _parts(run, family)
    data: ClipDataModule = run.data.build()
    data.prepare_data()
    clips = data.usable("train")
    plan = Plan(clips, run.batch, run.seed)
    yield (
        f"data: {len(clips)} train clips of {len({c.source for c in clips})} sources, {len(data.quarantine('train'))} quarantined; "
        f"{plan.num_steps} steps of {run.batch.clips_per_step} clips x {run.batch.questions_per_clip} questions"
    )
    step = StepDataset(
        plan,
        ClipReader(data, run.frames),
        family.processor,
        Mixture(run.questions),
        data.labels,
        0,
        run.hardware.devices,
    )[0]
    yield from _sample(family, step.batches[0])
    if reason := find_coarse_parts(family, run.optimizer.lr):
        yield f"training will refuse this model: {reason}"
    yield from _memory(run, family, step)


def _parts(run: TrainRun, family: Family) -> Iterable[str]:
    for part, named in family.part_parameters().items():
        count = sum(p.numel() for _, p in named)
        rate = f"learning rate {run.optimizer.lr[part]:g}" if part in run.optimizer.lr else "frozen"
        yield f"  {part:<10} {count:>14,} parameters in {len(named)} tensors, {rate}"


def _sample(family: Family, batch: Batch) -> Iterable[str]:
    """Show the first question as the model sees it, the trained tokens marked, and the forest's token counts."""
    forest = batch.forest
    first = (forest.answer_leaf == 0).nonzero().flatten()
    rows = forest.predict_rows[forest.answer_source[first]]
    path = dense_mask(forest.leave)[rows[0]].nonzero().flatten()
    prompt = family.processor.decode(_without_repeats(forest.ids[path].tolist()))
    answer = family.processor.decode(forest.answer_ids[first].tolist())
    yield f"sample: question {batch.questions[0].id!r} (repeated visual tokens shown once)"
    yield from (f"  | {line}" for line in prompt.splitlines())
    yield f"  trained tokens: {answer!r} ({len(first)} of {len(path) + len(first)})"
    alone = sum(_length(batch, leaf) for leaf in range(forest.num_leaves))
    yield (
        f"tokens in the first forest: {len(forest.ids):,} ({len(forest.visual_rows):,} visual, {forest.num_answer_tokens} trained); "
        f"one question a sequence would take {alone:,}"
    )


def _length(batch: Batch, leaf: int) -> int:
    forest = batch.forest
    mine = (forest.answer_leaf == leaf).nonzero().flatten()
    row = forest.predict_rows[forest.answer_source[mine[0]]]
    ancestors = (forest.leave > row) & (forest.ids.new_tensor(range(len(forest.ids))) <= row)
    return int(ancestors.sum()) + len(mine)


def _without_repeats(ids: list[int]) -> list[int]:
    """Drop a token that repeats the two before it, as visual pads do."""
    return [t for i, t in enumerate(ids) if i < 2 or not (t == ids[i - 1] == ids[i - 2])]


def _memory(run: TrainRun, family: Family, step: Step) -> Iterable[str]:
    """Add up what can be known beforehand, each amount where it is largest: at the end of a step.

    Autocast keeps a bfloat16 copy of the trained weights until the step ends; AdamW needs a temporary of the size of its largest
    group while it steps; the inputs of all forests of a step are moved to the device together.
    """
    batch = step.batches[0]
    weights = sum(p.numel() * p.element_size() for p in family.parameters())
    trained = sum(p.numel() * p.element_size() for p in family.parameters() if p.requires_grad)
    num_trained = sum(p.numel() for p in family.parameters() if p.requires_grad)
    copies = 2 * num_trained if run.hardware.precision == "bfloat16" else 0
    groups = [group["params"] for group in make_optimizer(family, run.optimizer).param_groups]
    temporary = max(sum(p.numel() * p.element_size() for p in group) for group in groups)
    inputs = sum(t.numel() * t.element_size() for b in step.batches for t in b.visual.inputs.values())
    logits = len(batch.forest.predict_rows) * _vocabulary(family) * 4
    tokens = len(batch.forest.ids)
    yield (
        f"last.ckpt: {(weights + 2 * trained) / GIB:.2f} GiB on the disk, and as much of the host's memory while it is written; "
        f"every {run.output.save_every_steps} steps, the last one alone is kept"
    )
    yield (
        f"memory on each device: weights {weights / GIB:.2f} GiB, gradients {trained / GIB:.2f}, AdamW moments {2 * trained / GIB:.2f}, "
        f"bfloat16 copies {copies / GIB:.2f}, AdamW at work {temporary / GIB:.2f}, inputs of a step {inputs / GIB:.2f}, "
        f"together {(weights + 3 * trained + copies + temporary + inputs) / GIB:.2f}; "
        f"logits of {len(batch.forest.predict_rows)} predicting rows {logits / GIB:.3f}, beside the activations of {tokens:,} tokens "
        f"({'recomputed layer by layer' if run.hardware.checkpoint_gradients else 'all kept'})"
    )


def _vocabulary(family: Family) -> int:
    matrix = next(p for _, p in family.part_parameters()["llm"] if p.ndim == 2)
    with torch.no_grad():
        return int(family.logits(matrix.new_zeros(1, matrix.shape[1])).shape[-1])
