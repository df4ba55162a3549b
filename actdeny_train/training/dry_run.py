"""What a training would do, before it does it: parameters per part, one sample with its labels, token counts, a memory plan."""

from collections.abc import Iterable, Sequence

import torch
from torch.nn import Parameter

from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.models.quantised import stored_layers
from actdeny_train.models.tuning import AdapterSettings, prepare
from actdeny_train.questions.mixture import Mixture
from actdeny_train.training.optimizer import find_coarse_parts, num_moment_bytes, parameter_groups
from actdeny_train.training.plan import Plan
from actdeny_train.training.run import TrainRun
from actdeny_train.training.steps import Step, StepDataset
from actdeny_train.trees import dense_mask

GIB = 2**30


def dry_run(run: TrainRun) -> Iterable[str]:
    """Yield lines that describe the run; nothing is trained or written."""
    family = run.model.build()
    prepare(family, run.optimizer.lr, run.tuning, run.seed)
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
    """Tell of each part how many weights it has (of coarse layers those that they stand for), and what trains how fast."""
    stored = {id(layer.codes): layer.num_weights for layer in stored_layers(family)}
    adapter = run.tuning.adapter
    adapted = adapter.parts if adapter else ()
    for part, named in family.part_parameters().items():
        own = [p for _, p in named if part not in adapted or not p.requires_grad]
        trained = [p for _, p in named if p.requires_grad]
        text = f"  {part:<10} {sum(stored.get(id(p), p.numel()) for p in own):>14,} parameters in {len(own)} tensors"
        rate = f"learning rate {run.optimizer.lr[part]:g}" if part in run.optimizer.lr else ""
        if part in adapted or not rate:
            text += ", frozen"
        elif len(trained) < len(own):
            text += f"; {sum(p.numel() for p in trained):,} in {len(trained)} of them train, {rate}"
        else:
            text += f", {rate}"
        if storage := run.tuning.frozen.get(part):
            text += f", its linear layers {'where frozen ' if part in run.tuning.only else ''}kept in {storage}"
        yield text
        if adapter and part in adapted:
            yield _adapter(adapter, trained, rate)


def _adapter(settings: AdapterSettings, trained: Sequence[Parameter], rate: str) -> str:
    layers = len(trained) // (3 if settings.dora else 2)
    return (
        f"    {'adapter':<8} {sum(p.numel() for p in trained):>14,} parameters in {len(trained)} tensors, {rate}: {settings.kind} of rank "
        f"{settings.rank}, alpha {settings.alpha}, on {layers} linear layers"
    )


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
    weights += sum(layer.num_bytes - layer.codes.numel() for layer in stored_layers(family))
    groups = [group["params"] for group in parameter_groups(family, run.optimizer)]
    sizes = [[p.numel() * p.element_size() for p in group] for group in groups]
    trained = sum(map(sum, sizes))
    num_trained = sum(p.numel() for group in groups for p in group)
    copies = 2 * num_trained if run.hardware.precision == "bfloat16" else 0
    moments = sum(num_moment_bytes(p, run.optimizer.moments) for group in groups for p in group)
    temporary = max(map(sum, sizes)) if run.optimizer.moments == "float32" else 0
    inputs = sum(t.numel() * t.element_size() for b in step.batches for t in b.visual.inputs.values())
    logits = len(batch.forest.predict_rows) * _vocabulary(family) * 4
    tokens = len(batch.forest.ids)
    saved = (trained if run.tuning.changes_layers else weights) + moments
    yield (
        f"last.ckpt: {saved / GIB:.2f} GiB on the disk, and as much of the host's memory while it is written; "
        f"every {run.output.save_every_steps} steps, the last one alone is kept"
    )
    yield (
        f"memory on each device: weights {weights / GIB:.2f} GiB, gradients {trained / GIB:.2f}, AdamW moments {moments / GIB:.2f}, "
        f"bfloat16 copies {copies / GIB:.2f}, AdamW at work {temporary / GIB:.2f}, inputs of a step {inputs / GIB:.2f}, "
        f"together {(weights + trained + moments + copies + temporary + inputs) / GIB:.2f}; "
        f"logits of {len(batch.forest.predict_rows)} predicting rows {logits / GIB:.3f}, beside the activations of {tokens:,} tokens "
        f"({'recomputed layer by layer' if run.hardware.checkpoint_gradients else 'all kept'})"
    )


def _vocabulary(family: Family) -> int:
    matrix = next(p for _, p in family.part_parameters()["llm"] if p.ndim == 2)
    with torch.no_grad():
        return int(family.logits(matrix.new_zeros(1, matrix.shape[1])).shape[-1])
