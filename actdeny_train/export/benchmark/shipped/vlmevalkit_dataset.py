"""ActDeny for VLMEvalKit: ``python actdeny_vlmevalkit.py --data ActDeny_standard_plain_12frame --model MODEL``; see README.md.

Videos are looked for under the folder that the environment variable ACTDENY_VIDEO_ROOT names. Scores come from this file's own
parser, never from a judge or a guess.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actdeny_train.evaluation.parsing import parse_response
from actdeny_train.export.benchmark.shipped.scores import marks, summarise

try:
    from vlmeval.dataset.video_base import VideoBaseDataset  # type: ignore[import-not-found]
except ImportError:  # saved predictions are scored without VLMEvalKit
    VideoBaseDataset = object

HERE = Path(__file__).resolve().parent
VIDEO_ROOT = "ACTDENY_VIDEO_ROOT"
NUM_FRAMES = (4, 6, 8, 12, 16, 32, 64)
"""Frames that a dataset name may ask for, as in ..._12frame; 12 as in the released evaluation. Without it, models get the video."""
FAILED = "Failed to obtain answer"
"""How VLMEvalKit begins a response that it could not get."""


class ActDeny(VideoBaseDataset):  # type: ignore[misc]
    """One setup under one prompt, asked about whole clips."""

    TYPE = "Video-MCQ"
    MODALITY = "VIDEO"

    def __init__(self, dataset: str, nframe: int = 0, fps: float = -1) -> None:
        base, _, frames = dataset.rpartition("_")
        if match := re.fullmatch(r"(\d+)frame", frames):
            dataset, nframe = base, int(match[1])
        super().__init__(dataset=dataset, nframe=nframe, fps=fps)
        if nframe:
            self.dataset_name = f"{dataset}_{nframe}frame"

    @classmethod
    def supported_datasets(cls) -> list[str]:
        """Return the names of the TSV files beside this one, alone and with a number of frames."""
        names = sorted(path.stem for path in HERE.glob("*.tsv"))
        return [name + end for name in names for end in ("", *(f"_{n}frame" for n in NUM_FRAMES))]

    def prepare_dataset(self, dataset: str) -> dict[str, str]:
        """Return where videos and questions lie. Raises FileNotFoundError where they do not."""
        root = os.environ.get(VIDEO_ROOT, "")
        if not root or not Path(root).is_dir():
            raise FileNotFoundError(
                f"Set the environment variable {VIDEO_ROOT} (now {root!r}) to the folder that the videos of {dataset} are relative to."
            )
        return {"root": root, "data_file": str(HERE / f"{dataset}.tsv")}

    def build_prompt(self, line: Any, video_llm: bool) -> list[dict[str, str]]:
        """Return the message: the video or its frames, then the question with its choices."""
        row = line if hasattr(line, "keys") else self.data.iloc[int(line)]
        if video_llm:
            visuals = [{"type": "video", "value": str(Path(self.data_root) / row["video"])}]
        else:
            visuals = [{"type": "image", "value": path} for path in self.save_video_frames(row["video"])]
        return [*visuals, {"type": "text", "value": text_of(row)}]

    def save_video_frames(self, video: str) -> list[str]:
        """Return the paths of the frames at the middle of ``nframe`` equal strides (all of a shorter video), or of every 1/fps s."""
        import decord  # type: ignore[import-not-found]
        from PIL import Image

        path = Path(self.data_root) / video
        frames = decord.VideoReader(str(path))
        total, num = len(frames), self.nframe
        if self.fps > 0:
            step = frames.get_avg_fps() / self.fps
            indices = [int(i * step) for i in range(max(1, int(total / step)))]
        elif num < 1:
            raise ValueError("This model sees images, not videos: name a number of frames, as in --data ..._12frame.")
        else:
            indices = list(range(total)) if total <= num else [(2 * i + 1) * total // (2 * num) for i in range(num)]
        folder = Path(self.frame_root) / f"{video}.{path.stat().st_mtime_ns}"  # a replaced video has frames of its own
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"frame-{index}.png" for index in indices]
        for file, index in zip(files, indices, strict=True):
            if not file.is_file():
                work = file.with_name(f"{file.name}.{os.getpid()}")
                Image.fromarray(frames[index].asnumpy()).save(work, format="png")
                work.replace(file)
        return [str(file) for file in files]

    @classmethod
    def evaluate(cls, eval_file: str, **judge_kwargs: Any) -> dict[str, float | None]:
        """Return the metrics of saved predictions and write them beside the file. There is no judge."""
        scores = score_file(eval_file)
        Path(eval_file).with_suffix("").with_name(Path(eval_file).stem + "_score.json").write_text(
            json.dumps(scores, indent=2) + "\n", encoding="utf-8"
        )
        return scores


def text_of(row: Mapping[str, Any]) -> str:
    """Return the user turn after the video: the question, and the choices where they are labelled."""
    record = json.loads(row["record"])
    labelled = record["answers"] != record["choices"]
    lines = zip(record["answers"], record["choices"], strict=True) if labelled else ()
    return str(row["question"]) + "\n".join(f"{label}. {choice}" for label, choice in lines)


def score_file(path: str | Path) -> dict[str, float | None]:
    """Return the metrics of a file of predictions that VLMEvalKit wrote (json, tsv or xlsx)."""
    marked = []
    for row in read_rows(Path(path)):
        record, response = json.loads(row["record"]), str(row["prediction"])
        parsed = parse_response(response, record["choices"], record["answers"], none_choice=record["none_choice"])
        failed = FAILED in response
        marked.append(marks(record, None if failed else parsed.choice, "error" if failed else str(parsed.status.value)))
    return summarise(marked)


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a table. Unlike pandas' defaults, a cell that says None, NA or nothing stays what it says."""
    if path.suffix == ".json":
        rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return rows
    import pandas  # type: ignore[import-untyped]

    plain = {"dtype": str, "keep_default_na": False}
    table = pandas.read_excel(path, **plain) if path.suffix == ".xlsx" else pandas.read_csv(path, sep="\t", **plain)
    found: list[dict[str, Any]] = table.to_dict("records")
    return found


def register() -> None:
    """Make the datasets known to VLMEvalKit in this process."""
    import vlmeval.dataset as known  # type: ignore[import-not-found]

    if ActDeny not in known.DATASET_CLASSES:
        known.DATASET_CLASSES.append(ActDeny)
        known.SUPPORTED_DATASETS.extend(ActDeny.supported_datasets())
        known.ActDeny = ActDeny


def main() -> None:
    """Run VLMEvalKit with these datasets; all options are its own."""
    register()
    try:
        from vlmeval.run import main as run  # type: ignore[import-not-found]
    except ImportError:  # the repository has run.py beside the package
        from run import main as run  # type: ignore[import-not-found]
    run()


if __name__ == "__main__":
    main()
