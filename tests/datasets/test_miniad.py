"""MiniAD as a dataset: bytes, splits, folders, manifest, components."""

from collections import Counter
from pathlib import Path

import av
import numpy as np
import pytest

from actdeny_train.actions.leak import leaks
from actdeny_train.datasets.manifest import read_manifest
from actdeny_train.datasets.miniad import MiniAD
from actdeny_train.errors import ConfigError
from actdeny_train.types import NODES, Clip, ClipKind

SMALL = {"sources_per_class": 3, "clips_per_source": 1, "size_px": 48, "num_frames": 4, "fps": 4}
SPLITS = ("train", "val", "test")
KINDS = {ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION}


def all_clips(data: MiniAD) -> list[Clip]:
    return [clip for split in SPLITS for clip in data.clips(split)]


def files(data: MiniAD) -> dict[str, bytes]:
    return {clip.path: data.video_path(clip).read_bytes() for clip in all_clips(data)}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> MiniAD:
    data = MiniAD(tmp_path_factory.mktemp("miniad"), **SMALL)
    data.prepare_data()
    return data


def test_same_seed_gives_the_same_bytes_and_another_seed_others(rendered: MiniAD, tmp_path: Path) -> None:
    again = MiniAD(tmp_path, **SMALL)
    again.prepare_data()
    other = MiniAD(tmp_path, seed=1, **SMALL)
    other.prepare_data()
    first = files(rendered)
    assert files(again) == first
    assert again.root.name == rendered.root.name != other.root.name
    assert all(data != first[path] for path, data in files(other).items())


def test_videos_decode_to_the_asked_length_and_size(rendered: MiniAD) -> None:
    for clip in all_clips(rendered):
        with av.open(str(rendered.video_path(clip))) as container:
            frames = list(container.decode(video=0))
        assert len(frames) == 4
        assert {(frame.height, frame.width) for frame in frames} == {(48, 48)}
        assert [float(frame.time) for frame in frames] == [0.0, 0.25, 0.5, 0.75]


def test_every_action_has_every_kind_in_every_split_and_no_source_in_two() -> None:
    data = MiniAD("unused")
    assert len(data.labels.actions) == 14
    assert data.labels.without_object == {"JumpingJack", "PushUps", "BodyWeightSquats", "HandstandWalking"}
    sources = {split: {clip.source for clip in data.clips(split)} for split in SPLITS}
    assert sum(map(len, sources.values())) == len(set.union(*sources.values())) == 14 * 8
    for split, num_sources in zip(SPLITS, (5, 1, 2), strict=True):
        counts = Counter((clip.action, clip.kind) for clip in data.clips(split))
        assert counts == {(action, kind): 2 * num_sources for action in data.labels.actions for kind in KINDS}


def test_every_take_of_a_kind_occurs_in_training() -> None:
    motions = {(c.action, c.components.motion) for c in MiniAD("unused").clips("train") if c.kind == "different_motion"}
    assert Counter(action for action, _ in motions) == dict.fromkeys(MiniAD("unused").labels.actions, 3)


def test_kinds_filter_the_training_split_alone() -> None:
    full, data = MiniAD("unused"), MiniAD("unused", kinds=("presence",))
    assert data.root == full.root
    assert data.clips("train") == [clip for clip in full.clips("train") if clip.kind == "presence"]
    assert data.clips("val") == full.clips("val") and data.clips("test") == full.clips("test")


def test_components_are_complete_and_never_tell_the_action() -> None:
    data = MiniAD("unused")
    for clip in all_clips(data):
        assert clip.components is not None
        for node in NODES[:-1]:
            phrase = clip.components.of(node)
            assert 2 <= len(phrase.split()) <= 14 and phrase[0].islower() and not phrase.endswith(".")
            assert leaks(phrase, clip.action, data.labels) == (), f"{clip.id}, {node}: {phrase}"


def test_components_of_the_kinds_share_the_context_and_differ_in_the_action() -> None:
    data = MiniAD("unused")
    by_source: dict[str, list[Clip]] = {}
    for clip in all_clips(data):
        by_source.setdefault(clip.source, []).append(clip)
    for clips in by_source.values():
        assert len({(c.components.persons, c.components.objects, c.components.location) for c in clips}) == 1
        presence = {c.components.of(node) for c in clips if c.kind == "presence" for node in "SIM"}
        denial = {c.components.of(node) for c in clips if c.kind != "presence" for node in "SIM"}
        assert not presence & denial


def test_presence_moves_more_than_context_only(rendered: MiniAD) -> None:
    energy: dict[tuple[str, ClipKind], list[float]] = {}
    for clip in all_clips(rendered):
        with av.open(str(rendered.video_path(clip))) as container:
            pixels = np.stack([frame.to_ndarray(format="gray") for frame in container.decode(video=0)]).astype(float)
        energy.setdefault((clip.action, clip.kind), []).append(float(np.abs(np.diff(pixels, axis=0)).mean()))
    for action in rendered.labels.actions:
        assert min(energy[action, ClipKind.PRESENCE]) > 1.5 * max(energy[action, ClipKind.CONTEXT_ONLY]), action
        assert min(energy[action, ClipKind.DIFFERENT_MOTION]) > max(energy[action, ClipKind.CONTEXT_ONLY]), action


def test_manifest_lists_what_was_rendered(rendered: MiniAD) -> None:
    written = list(read_manifest(rendered.root / "manifest.jsonl"))
    assert sorted(written, key=lambda c: c.id) == sorted(all_clips(rendered), key=lambda c: c.id)


def test_rendering_resumes_where_it_was_interrupted(rendered: MiniAD) -> None:
    clips = all_clips(rendered)
    lost, kept = rendered.video_path(clips[5]), rendered.video_path(clips[6])
    content, time = lost.read_bytes(), kept.stat().st_mtime_ns
    lost.unlink()
    rendered.prepare_data()
    assert lost.read_bytes() == content
    assert kept.stat().st_mtime_ns == time
    assert not list(rendered.root.rglob(".*"))


@pytest.mark.parametrize(
    "change",
    [{"seed": 3}, {"size_px": 64}, {"num_frames": 8}, {"fps": 5}, {"sources_per_class": 9}, {"clips_per_source": 1}],
)
def test_other_settings_have_another_folder(change: dict[str, int]) -> None:
    assert MiniAD("data", **change).root != MiniAD("data").root
    assert MiniAD("data", **change).root.parent == Path("data")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sources_per_class": 2}, "sources_per_class is 2, but must be at least 3"),
        ({"size_px": 57}, "size_px is 57, but H.264 needs an even size. Set it to 58."),
        ({"kinds": ("presense",)}, "kinds has 'presense', .* Did you mean 'presence'"),
        ({"kinds": ("denial",)}, "each must be one of presence, context_only, different_motion"),
        ({"kinds": ()}, "nothing is left to train on"),
    ],
)
def test_impossible_settings_are_named(settings: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        MiniAD("unused", **settings)
