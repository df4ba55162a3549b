"""Preparing a dataset: what is written reads back, nothing is decoded twice, and what is wrong is named."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actdeny_train import cli, config
from actdeny_train.datasets import prepare as module
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.manifest import Manifest, read_manifest
from actdeny_train.datasets.named import find_dataset
from actdeny_train.datasets.prepare import Outputs, prepare
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.errors import ConfigError, DataError
from actdeny_train.types import Clip, ClipKind
from actdeny_train.video.verification import VideoFacts
from tests.miniatures import MINIATURES, Miniature, write_clip

ROOT = Path(__file__).resolve().parents[2]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def data_of(miniature: Miniature, **changed: Any) -> ClipDataModule:
    return config.parse({**miniature.data, **changed}, ClipDataModule, "test")  # type: ignore[type-abstract]


@pytest.mark.parametrize("name", MINIATURES)
def test_official_layouts(miniature: Callable[[str], Miniature], name: str, tmp_path: Path) -> None:
    mini = miniature(name)
    data = data_of(mini, screening={"num_workers": 1, "cache": str(tmp_path)})
    out = tmp_path / "manifest.jsonl"
    summary = prepare(data, out)
    split = summary["splits"][mini.split]
    assert split["listed"] == split["usable"] + split["missing"] == len(mini.clips) + len(mini.missing)
    assert split["usable"] == len(mini.clips) and split["broken"] == 0
    assert all(count in summary["splits"][name]["published"] for name, count in mini.official.items())

    kept = [clip for clip in read_manifest(out) if clip.split == mini.split]
    assert {clip.id: clip.action for clip in kept} == mini.clips
    assert [row["id"] for row in rows(Outputs(manifest=out).beside("quarantine"))] == list(mini.missing)
    videos = rows(Outputs(manifest=out).beside("videos"))
    assert {(row["num_frames"], row["width_px"], row["height_px"]) for row in videos} == {(8, 64, 48)}

    # The manifest is a dataset of its own, and nothing is decoded again for it.
    again = Manifest(str(mini.root), str(out), data.labels.name, screening=Screening(cache=str(tmp_path)))
    module_verified = (tmp_path / "verified.jsonl").read_bytes()
    assert again.usable(mini.split) == kept
    assert (tmp_path / "verified.jsonl").read_bytes() == module_verified


def clip_of(name: str, split: str = "train", **values: Any) -> Clip:
    fields = {
        "id": name,
        "path": f"{name}.mp4",
        "action": "Archery",
        "kind": ClipKind.PRESENCE,
        "split": split,
        "source": name,
    }
    return Clip(**{**fields, **values})


class Listed(Manifest):
    """Clips given in the test."""

    def __init__(self, root: Path, clips: list[Clip]) -> None:
        super().__init__(str(root), "none", screening=Screening(num_workers=1))
        self.given = clips

    def read_clips(self) -> Iterator[Clip]:
        yield from self.given


ODD = "-odd ( # [a] & ; ! ~ ') %s"


def test_what_is_broken_missing_or_twice_there_is_told(tmp_path: Path) -> None:
    for name in ("a", "b", ODD):
        write_clip(tmp_path / f"{name}.mp4")
    shutil.copy(tmp_path / "a.mp4", tmp_path / "copy.mp4")
    (tmp_path / "broken.mp4").write_bytes((tmp_path / "a.mp4").read_bytes()[:300])
    clips = [
        *map(clip_of, ("a", "b", ODD, "broken", "gone")),
        clip_of("late", path="a.mp4", start_s=3.0, end_s=4.0),
        clip_of("copy", "test"),
    ]
    summary = prepare(Listed(tmp_path, clips), tmp_path / "m.jsonl")
    assert summary["splits"]["train"] == {
        "published": [],
        "listed": 6,
        "usable": 3,
        "missing": 1,
        "broken": 2,
        "note": "",
    }
    assert [clip.id for clip in read_manifest(tmp_path / "m.jsonl")] == ["a", "b", ODD, "copy"]
    reasons = {row["id"]: row["reason"] for row in rows(tmp_path / "m.quarantine.jsonl")}
    assert "cannot be opened" in reasons["broken"] and "does not exist" in reasons["gone"]
    assert "start_s is 3 s, but the last frame" in reasons["late"]
    assert rows(tmp_path / "m.duplicates.jsonl")[0] == {"a": "a", "b": "copy", "how": "same file", "bits": 0.0}
    assert summary["duplicates"]["same_file"] == 1
    assert not list(tmp_path.glob("*.part")) and not list(tmp_path.glob("*.listed.jsonl"))


def test_refusals(tmp_path: Path) -> None:
    write_clip(tmp_path / "a.mp4")
    with pytest.raises(DataError, match=r"Two clips have the id 'a'\. Ids must be unique"):
        prepare(Listed(tmp_path, [clip_of("a"), clip_of("a")]), tmp_path / "m.jsonl")
    leak = [clip_of("a", source="film"), clip_of("b", "test", source="film")]
    with pytest.raises(
        DataError, match=r"Source 'film' has clips in splits 'train' and 'test', the latter 'b'\. All clips of a source"
    ):
        prepare(Listed(tmp_path, leak), tmp_path / "m.jsonl")
    with pytest.raises(
        DataError,
        match=r"None of the 1 clips of Listed can be used; the first, under .*'gone.mp4': video .* does not exist",
    ):
        prepare(Listed(tmp_path, [clip_of("gone")]), tmp_path / "m.jsonl")
    with pytest.raises(DataError, match=r"leaves the dataset's root"):
        prepare(Listed(tmp_path, [clip_of("a", path="../a.mp4")]), tmp_path / "m.jsonl")
    with pytest.raises(DataError, match="The video root of Listed is missing"):
        prepare(Listed(tmp_path / "nowhere", [clip_of("a")]), tmp_path / "m.jsonl")
    with pytest.raises(ConfigError, match=r"m.csv', but its name must end with .jsonl"):
        prepare(Listed(tmp_path, [clip_of("a")]), tmp_path / "m.csv")
    assert not (tmp_path / "m.jsonl.part").exists()


def test_a_killed_call_goes_on_and_decodes_nothing_twice(tmp_path: Path) -> None:
    names = [f"c{i:02d}" for i in range(24)]
    for name in names:
        write_clip(tmp_path / f"{name}.mp4")
    listed = tmp_path / "list.jsonl"
    listed.write_text("".join(json.dumps(dataclasses.asdict(clip_of(name))) + "\n" for name in names))
    command = [sys.executable, "tools/prepare.py", "manifest", str(tmp_path), f"file={listed}", "--workers", "1"]
    verified = tmp_path / "verified.jsonl"
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    while not verified.is_file() or verified.read_bytes().count(b"\n") < 3:
        assert process.poll() is None, "ended before it was killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = verified.read_bytes()
    assert not (tmp_path / "manifest.jsonl").exists()
    (tmp_path / "c00.mp4").write_bytes((tmp_path / "c01.mp4").read_bytes())  # changed: measured again
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    keys = [json.loads(line)["key"] for line in verified.read_text().splitlines()]
    assert verified.read_bytes().startswith(before)
    assert len(set(keys)) == len(keys) == 25
    assert [clip.id for clip in read_manifest(tmp_path / "manifest.jsonl")] == names


def test_memory_does_not_grow_with_what_is_known_of_each_clip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clips take under 600 bytes each: their ids, digests and hashes, not their rows and facts (2.5 kB)."""
    facts = VideoFacts(
        num_frames=8,
        duration_s=1.0,
        longest_interval_s=0.1,
        width_px=64,
        height_px=48,
        rotation_deg=0,
        sha256="",
        frame_hashes=(),
        notes=(),
    )

    def decode(paths: list[Path], **_: Any) -> Iterator[tuple[Path, VideoFacts]]:
        for path in paths:
            name = path.stem.encode().hex()
            hashes = tuple(f"{hash((name, i)) % 2**64:016x}" for i in range(8))
            yield path, dataclasses.replace(facts, sha256=f"{name:0<64}", frame_hashes=hashes)

    monkeypatch.setattr(module, "verify_all", decode)
    num = 6_000

    class Many(Listed):
        def read_clips(self) -> Iterator[Clip]:
            return (clip_of(f"clip{i}", ("train", "test")[i % 2]) for i in range(num))

    tracemalloc.start()
    summary = prepare(Many(tmp_path, []), tmp_path / "m.jsonl")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary["splits"]["train"]["usable"] == summary["splits"]["test"]["usable"] == num // 2
    assert peak < 600 * num + 6e6  # and one chunk


def test_the_tool(miniature: Callable[[str], Miniature], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "kinetics"
    shutil.copytree(miniature("kinetics400").root, root)
    assert cli.prepare(["kinetics400", str(root), "--workers", "1"]) == 0
    told = capsys.readouterr().out
    assert "val: the lists have 4 clips, published are 19,906 (CVDF's copy has 19,881 of these)" in told
    assert f"manifest: {root / 'kinetics400.jsonl'}" in told and (root / "kinetics400.summary.json").is_file()
    shutil.copytree(miniature("diving48").root, tmp_path / "diving")
    assert cli.prepare(["diving48", str(tmp_path / "diving"), "--workers", "1"]) == 0
    assert (
        "test: the lists have 3 clips, published are 1,970 (V2; files of another size are V1" in capsys.readouterr().out
    )
    assert cli.prepare(["kinetic400", str(root)]) == 2
    assert "There is no dataset 'kinetic400'. Did you mean 'kinetics400'? Name one of" in capsys.readouterr().err
    assert cli.prepare(["kinetics400", str(root), "annotation=x"]) == 2
    assert "annotation" in capsys.readouterr().err


def test_names_of_datasets() -> None:
    assert find_dataset("ucf101_ad") == "actdeny_train.datasets.ucf101_ad.UCF101AD"
    assert find_dataset("my.own.Dataset") == "my.own.Dataset"
    with pytest.raises(ConfigError, match="There is no dataset 'reader'"):
        find_dataset("reader")


PROBED = "stream=width,height,nb_read_frames:stream_side_data=rotation"


@pytest.mark.shared
@pytest.mark.slow
def test_every_real_clip_as_ffprobe_sees_it(shared: Path, tmp_path: Path) -> None:
    ffprobe = shutil.which("ffprobe")
    if ffprobe is None:
        pytest.skip("no ffprobe here (Debian: ffmpeg)")
    suffixes = {".avi", ".mkv", ".mov", ".mp4", ".webm"}
    names = sorted(
        p.relative_to(shared / "videos").as_posix() for p in (shared / "videos").rglob("*") if p.suffix in suffixes
    )
    data = Listed(
        shared / "videos", [clip_of(name, "train" if i % 2 else "test", path=name) for i, name in enumerate(names)]
    )
    data.screening = Screening(cache=str(tmp_path))
    prepare(data, tmp_path / "m.jsonl")
    videos = {row["path"]: row for row in rows(tmp_path / "m.videos.jsonl")}
    assert set(names) - set(videos) == {"dmlc_decord/corrupted.mp4"}
    for name, row in videos.items():
        command = [
            ffprobe,
            "-v",
            "error",
            "-count_frames",
            "-select_streams",
            "v",
            "-show_entries",
            PROBED,
            "-of",
            "json",
        ]
        out = subprocess.run([*command, str(shared / "videos" / name)], capture_output=True, check=True).stdout
        streams = json.loads(out)["streams"]
        stream = max(streams, key=lambda s: s["width"])  # one file has two
        turned = [side["rotation"] for side in stream.get("side_data_list", ()) if "rotation" in side] or [0]
        size = (row["width_px"], row["height_px"])
        assert (row["num_frames"], row["rotation_deg"]) == (int(stream["nb_read_frames"]), turned[0]), name
        assert (size[::-1] if turned[0] % 180 else size) == (stream["width"], stream["height"]), name
    alike = {(row["a"], row["b"]) for row in rows(tmp_path / "m.duplicates.jsonl")}
    assert all("testsrc2" in a and "testsrc2" in b for a, b in alike)  # one test picture in three containers
