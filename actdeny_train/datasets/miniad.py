"""MiniAD, the benchmark that the project renders itself: figures that act, stand among the props, or move otherwise."""

import dataclasses
import functools
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import track

from actdeny_train.actions.labels import LabelSet, load_ucf101
from actdeny_train.datasets import miniad_scenes
from actdeny_train.datasets.base import ClipDataModule
from actdeny_train.datasets.manifest import write_manifest
from actdeny_train.datasets.miniad_scenes import SCENES
from actdeny_train.datasets.miniad_scenes.look import Look, Shot, draw_look, draw_shot
from actdeny_train.datasets.miniad_scenes.scene import Scene, Take, render
from actdeny_train.datasets.quarantine import Screening
from actdeny_train.draw import Draw
from actdeny_train.errors import ConfigError, near_misses
from actdeny_train.types import Clip, ClipKind
from actdeny_train.video import encode

KINDS = (ClipKind.PRESENCE, ClipKind.CONTEXT_ONLY, ClipKind.DIFFERENT_MOTION)


@dataclass(frozen=True)
class _Shooting:
    """A clip and everything that decides its pixels."""

    clip: Clip
    scene: Scene
    take: Take
    look: Look
    shot: Shot


class MiniAD(ClipDataModule):
    """Rendered clips of 14 of UCF101's actions, ten with objects and four of the body alone, with exact components.

    Every source (a person's look, a place, a camera) shows its action in all three kinds of clips, so that appearance tells
    neither presence nor denial. Sources are split about 5 : 1 : 2 into train, val and test.

    ``root`` is the folder that renderings lie under, one subfolder for each combination of settings and drawing code; ``self.root``
    is that subfolder. ``seed`` draws looks and shots. ``sources_per_class`` >= 3; ``clips_per_source`` >= 1 of each kind.
    ``size_px`` is height and width (even, >= 32), ``num_frames`` the length at ``fps`` frames per second. ``kinds`` are the kinds of
    clips in the split "train", None for all; "val" and "test" always have all.
    """

    def __init__(
        self,
        root: str | Path,
        seed: int = 0,
        sources_per_class: int = 8,
        clips_per_source: int = 2,
        size_px: int = 112,
        num_frames: int = 16,
        fps: int = 8,
        kinds: Sequence[str] | None = None,
        screening: Screening | None = None,
    ) -> None:
        for name, value, least in (
            ("sources_per_class", sources_per_class, 3),
            ("clips_per_source", clips_per_source, 1),
            ("size_px", size_px, 32),
            ("num_frames", num_frames, 1),
            ("fps", fps, 1),
        ):
            if value < least:
                raise ConfigError(
                    f"MiniAD: {name} is {value}, but must be at least {least}. Raise it in the configuration."
                )
        if size_px % 2:
            raise ConfigError(f"MiniAD: size_px is {size_px}, but H.264 needs an even size. Set it to {size_px + 1}.")
        settings = {
            "seed": seed,
            "sources_per_class": sources_per_class,
            "clips_per_source": clips_per_source,
            "size_px": size_px,
            "num_frames": num_frames,
            "fps": fps,
        }
        super().__init__(Path(root) / _folder_name(settings), screening)
        self.seed = seed
        self.sources_per_class = sources_per_class
        self.clips_per_source = clips_per_source
        self.size_px = size_px
        self.num_frames = num_frames
        self.fps = fps
        self.train_kinds = _check_kinds(kinds)

    @functools.cached_property
    def labels(self) -> LabelSet:
        """The rendered actions as UCF101 names and describes them, with the components of their scenes.

        A wrong choice that quotes another action's component is then worded like the right one.
        """
        look = draw_look(Draw(self.seed, "miniad"))
        components = {
            action: {kind: scene.components(scene.takes(kind)[0], look) for kind in KINDS}
            for action, scene in SCENES.items()
        }
        return dataclasses.replace(load_ucf101().subset(SCENES, "miniad"), components=components)

    def read_clips(self) -> Iterator[Clip]:
        """Yield all clips but those that ``kinds`` keeps out of the split "train"."""
        for shooting in self._shootings():
            if shooting.clip.split != "train" or shooting.clip.kind in self.train_kinds:
                yield shooting.clip

    def prepare_data(self) -> None:
        """Render the clips whose files are missing and write ``manifest.jsonl`` beside them (all kinds in all splits)."""
        shootings = list(self._shootings())
        missing = [shooting for shooting in shootings if not (self.root / shooting.clip.path).is_file()]
        screen = Console(file=sys.stderr)
        for shooting in track(missing, f"MiniAD: {len(missing)} clips", console=screen, disable=not missing):
            path = self.root / shooting.clip.path
            path.parent.mkdir(parents=True, exist_ok=True)
            encode.write_video(path, self._render(shooting), self.fps)
        manifest = self.root / "manifest.jsonl"
        if not manifest.is_file():
            unfinished = self.root / f".manifest.{os.getpid()}"
            write_manifest(unfinished, (shooting.clip for shooting in shootings))
            unfinished.replace(manifest)

    def _shootings(self) -> Iterator[_Shooting]:
        for action in self.labels.actions:
            scene = SCENES[action]
            for source in range(self.sources_per_class):
                look = draw_look(Draw(self.seed, "miniad", action, source))
                for kind in KINDS:
                    for number in range(self.clips_per_source):
                        yield self._shooting(scene, look, kind, source, number)

    def _shooting(self, scene: Scene, look: Look, kind: ClipKind, source: int, number: int) -> _Shooting:
        name = f"{scene.action}/{kind}/s{source:02d}_c{number}"
        takes = scene.takes(kind)
        take = takes[(source * self.clips_per_source + number) % len(takes)]
        clip = Clip(
            id=f"miniad/{name}",
            path=f"{name}.mp4",
            action=scene.action,
            kind=kind,
            split=self._split(source),
            source=f"{scene.action}/s{source:02d}",
            components=scene.components(take, look),
        )
        return _Shooting(clip, scene, take, look, draw_shot(Draw(self.seed, clip.id)))

    def _split(self, source: int) -> str:
        num_test = max(1, self.sources_per_class // 4)
        num_val = max(1, self.sources_per_class // 8)
        if source < self.sources_per_class - num_val - num_test:
            return "train"
        return "val" if source < self.sources_per_class - num_test else "test"

    def _render(self, s: _Shooting) -> npt.NDArray[np.uint8]:
        return render(s.scene, s.take, s.look, s.shot, size_px=self.size_px, num_frames=self.num_frames, fps=self.fps)


def _check_kinds(kinds: Sequence[str] | None) -> tuple[ClipKind, ...]:
    if kinds is None:
        return KINDS
    allowed = [kind.value for kind in KINDS]
    for kind in kinds:
        if kind not in allowed:
            raise ConfigError(
                f"MiniAD: kinds has {kind!r}, but each must be one of {', '.join(allowed)}.{near_misses(kind, allowed)} Correct the name."
            )
    if not kinds:
        raise ConfigError(
            f"MiniAD: kinds is empty, so nothing is left to train on. Name some of {', '.join(allowed)}, or leave it out."
        )
    return tuple(ClipKind(kind) for kind in kinds)


def _folder_name(settings: dict[str, int]) -> str:
    """Return a name that differs wherever the pixels may differ: it hashes the settings and the code that draws and encodes."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for file in (*sorted(Path(miniad_scenes.__path__[0]).glob("*.py")), Path(encode.__file__)):
        digest.update(file.read_bytes())
    return f"seed{settings['seed']}-{settings['size_px']}px-{digest.hexdigest()[:12]}"
