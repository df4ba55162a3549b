"""The evaluation loop: clips -> forests -> predictions, written as they come by any number of processes, and the metrics at the end."""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Subset

from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.reader import ClipReader
from actdeny_train.datasets.worker_errors import ErrorsAsItems, unwrap
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.evaluation.controls import Control
from actdeny_train.evaluation.cost import COST, CostRecord, summarise_cost
from actdeny_train.evaluation.folder import METRICS, open_folder, write_json, write_record
from actdeny_train.evaluation.plan import Questions
from actdeny_train.evaluation.predictions import predict, question_fingerprint
from actdeny_train.evaluation.processes import join_processes
from actdeny_train.evaluation.progress import progress
from actdeny_train.evaluation.run import EvaluateRun
from actdeny_train.evaluation.scoring import Answer, answer
from actdeny_train.evaluation.shares import AskedGroup, Shares
from actdeny_train.evaluation.store import PredictionStore, read_predictions
from actdeny_train.metrics.summary import summarise
from actdeny_train.models.batch import Batch
from actdeny_train.models.family import Family
from actdeny_train.types import Clip, ClipGroup, Question


def evaluate(
    run: EvaluateRun,
    model: Family | Control | None = None,
    data: ClipDataModule | None = None,
    *,
    values: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Answer what is missing in ``runs/<name>/`` and return the content of ``metrics.json``.

    ``model`` and ``data`` may be given ready-made; else they are built from the run. ``values`` is the resolved config, saved beside
    the predictions. A killed evaluation goes on where it stopped, with any number of processes; under ``torchrun`` they share the
    clips, and all but the first return an empty dict. Raises ConfigError or DataError where the folder holds answers of another
    model, to other questions, about another video, given other frames or another precision.
    """
    with join_processes() as processes:
        device = find_device(run.device, processes.local_rank)
        data = data or run.data.build()
        folder = Path(run.folder) / run.name
        # One process renders, verifies and checks; the others then find it done.
        for turn in (processes.rank == 0, processes.rank != 0):
            if turn:
                folder = open_folder(run, values)
                data.prepare_data()
                groups = data.groups(run.split)
            processes.wait()
        questions = find_questions(run, data, groups)
        model = model or run.model.build()
        check_shown(run, model, data, groups)
        if isinstance(model, Family):
            model.to(device).eval()
        fingerprints = fingerprints_of(model)
        store = PredictionStore(folder, fingerprints)
        asked = {group.id: questions.about(group) for group in groups}
        ids = [q.id for group in groups for q in asked[group.id]]
        clips = list({clip.id: clip for group in groups for clip in group.clips}.values())
        shares = [groups[i : i + run.clips_per_share] for i in range(0, len(groups), run.clips_per_share)]
        missing = _missing(shares, asked, store)
        reader = ClipReader(data, run.frames)
        _compare_videos(store, clips, reader)
        if processes.rank == 0:
            write_record(folder, run, data, clips, [q for group in groups for q in asked[group.id]], fingerprints)
        # By place in the whole split, so that no process depends on what another has answered when it looks.
        own = [i for i in missing if i % processes.world_size == processes.rank]
        _answer_shares(run, model, device, shares, own, questions, reader, store, CostRecord(folder, processes, device))
        store.close()
        processes.wait()
        if processes.rank != 0:
            return {}
        predictions = store.merge(ids)
        summary = summarise(read_predictions(predictions))
        summary["clips"] = {"split": run.split, "used": len(clips), "quarantined": len(data.quarantine(run.split))}
        if any(len(group.clips) > 1 for group in groups):
            summary["clips"] |= {
                "groups": len(groups),
                "groups_left_out": len(data.all_groups(run.split)) - len(groups),
            }
        summary["cost"] = summarise_cost(folder / COST)
        write_json(folder / METRICS, summary)
        return summary


def find_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device that ``auto``, ``cpu`` or ``cuda`` means here. Raises ConfigError where there is no CUDA device to take."""
    if name == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "device is 'cuda', but PyTorch finds no CUDA device here. Set device to auto or cpu, or mend the driver."
        )
    if name == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise ConfigError(
            f"Process {local_rank} of this machine has no CUDA device: there are {torch.cuda.device_count()}. Start one process a device "
            "(torchrun --nproc-per-node), or set device to cpu."
        )
    return torch.device("cuda", local_rank)


def check_shown(run: EvaluateRun, model: Family | Control, data: ClipDataModule, groups: Sequence[ClipGroup]) -> None:
    """Raise ConfigError where clips are to be shown that are not there, or more at once than the model can be shown."""
    if isinstance(model, Control) or run.view == "text_only":
        return
    if not data.has_videos:
        raise ConfigError(
            f"view is {run.view!r}, but the dataset has no videos to show. Set data.root to the folder of its videos, or set "
            "view to text_only."
        )
    most = model.processor.max_clips
    for group in groups:
        if most is not None and len(group.clips) > most:
            raise ConfigError(
                f"Questions are about {len(group.clips)} clips at once (the first: {group.id!r}), but {type(model).__name__} can be shown "
                f"{most or 'none'}. Choose a model that takes several videos, such as actdeny_train.models.qwen2_5_vl.load, or set view to "
                "text_only."
            )


def find_questions(run: EvaluateRun, data: ClipDataModule, groups: Sequence[ClipGroup]) -> Questions:
    """Return the run's questions. Frozen ones about other clips are counted on the screen; DataError if none is left."""
    if run.questions_file is None:
        return Questions(run.ask, data.labels, run.seed)
    questions = Questions.read(Path(run.questions_file), data.labels)
    unused = questions.unused(groups)
    total = sum(map(len, (questions.frozen or {}).values()))
    if unused:
        print(
            f"{run.questions_file}: {len(unused)} of {total} questions are about clips that are quarantined or not in split "
            f"{run.split!r}, such as {unused[0]!r}",
            flush=True,
        )
    if len(unused) == total:
        raise DataError(
            f"No question of {run.questions_file} is about a usable clip of split {run.split!r}. Correct questions_file or split."
        )
    return questions


def fingerprints_of(model: Family | Control) -> dict[str, str]:
    """Return what identifies a model."""
    if isinstance(model, Control):
        return {"weights": model.fingerprint(), "processor": "control"}
    return {"weights": model.fingerprint(), "processor": model.processor.fingerprint}


def _missing(
    shares: Sequence[Sequence[ClipGroup]], asked: Mapping[str, Sequence[Question]], store: PredictionStore
) -> list[int]:
    """Return the places of the shares with an unanswered question."""
    missing = []
    for i, share in enumerate(shares):
        # Each one is looked up: has() refuses changed ones.
        found = [store.has(q.id, question_fingerprint(q)) for group in share for q in asked[group.id]]
        if not all(found):
            missing.append(i)
    store.require_only({q.id for questions in asked.values() for q in questions})
    return missing


def _compare_videos(store: PredictionStore, clips: Iterable[Clip], reader: ClipReader) -> None:
    """Raise DataError if a video has changed since a question about it was answered."""
    known = store.videos()
    answered = [clip for clip in clips if clip.id in known]
    with ThreadPoolExecutor(4) as pool:
        for clip, now in zip(answered, pool.map(reader.fingerprint, answered), strict=True):
            if now != known[clip.id]:
                raise DataError(
                    f"The video of clip {clip.id!r}, {str(reader.root / clip.path)!r}, has changed since questions about it were answered "
                    f"in {store.folder}. Restore the file, evaluate under another name (name=...), or remove the answers about it."
                )


def _answer_shares(
    run: EvaluateRun,
    model: Family | Control,
    device: torch.device,
    shares: Sequence[Sequence[ClipGroup]],
    own: Sequence[int],
    questions: Questions,
    reader: ClipReader,
    store: PredictionStore,
    cost: CostRecord,
) -> None:
    """Answer this process's shares and write each forest's predictions as soon as they are there."""
    processor = model.processor if isinstance(model, Family) else None
    dataset = Shares(shares, reader, processor, questions, run.answers, run.view, run.tokens_per_forest)
    loader = DataLoader(
        ErrorsAsItems(Subset(dataset, own)),
        batch_size=None,
        num_workers=run.num_workers,
        multiprocessing_context="spawn" if run.num_workers else None,  # a fork would copy decoders in mid-work
    )
    fingerprints = store.fingerprints
    with progress(sum(len(group.clips) for i in own for group in shares[i])) as advance:
        for item in loader:
            share = unwrap(item)
            decode_s, prepare_s = share.decode_s, share.prepare_s
            for groups, batch in zip(share.groups, share.batches, strict=True):
                store.refresh()
                pairs = [(one, q) for one in groups for q in one.questions]
                num_clips = sum(len(one.group.clips) for one in groups)
                if not all(
                    store.has(q.id, question_fingerprint(q)) for _, q in pairs
                ):  # not by another process, meanwhile
                    answers, encode_s, llm_s = answer_batch(model, batch, pairs, run, device)
                    store.append(
                        predict(q, a, one.group, one.frames_of(q), {**fingerprints, **one.video_fingerprint(q)})
                        for (one, q), a in zip(pairs, answers, strict=True)
                    )
                    cost.add(
                        num_clips=num_clips,
                        num_questions=len(pairs),
                        num_tokens=len(batch.forest.ids) if batch else 0,
                        num_tokens_alone=batch.num_tokens_alone if batch else 0,
                        decode_s=decode_s,
                        prepare_s=prepare_s,
                        encode_s=encode_s,
                        llm_s=llm_s,
                    )
                    decode_s = prepare_s = 0.0
                advance(num_clips)


def answer_batch(
    model: Family | Control,
    batch: Batch | None,
    pairs: Sequence[tuple[AskedGroup, Question]],
    run: EvaluateRun,
    device: torch.device,
) -> tuple[list[Answer], float, float]:
    """Return the answers to the questions of one forest, and the seconds that encoding and the language model took."""
    started = time.perf_counter()
    if isinstance(model, Control):
        replies = [Answer(text=model.reply(question, one.group.clips[0])) for one, question in pairs]
        return replies, 0.0, time.perf_counter() - started
    assert batch is not None
    dtype = torch.bfloat16 if run.precision == "bfloat16" else None
    with torch.no_grad(), torch.autocast(device.type, dtype=dtype) if dtype else nullcontext():
        batch = batch.to(device)
        visual_tokens = model.see(batch.visual)
        _synchronise(device)
        encoded = time.perf_counter()
        answers = answer(model, batch, run.answers, max_new_tokens=run.max_new_tokens, visual_tokens=visual_tokens)
        _synchronise(device)
    return answers, encoded - started, time.perf_counter() - encoded


def _synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
