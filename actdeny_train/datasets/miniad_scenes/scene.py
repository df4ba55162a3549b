"""What a scene is: one action's place, props and takes, with the phrases that say what each take shows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from actdeny_train.datasets.miniad_scenes.canvas import Canvas
from actdeny_train.datasets.miniad_scenes.figure import draw_figure
from actdeny_train.datasets.miniad_scenes.look import Look, Shot
from actdeny_train.datasets.miniad_scenes.motions import STAND, Motion
from actdeny_train.types import ClipKind, Components

Props = Callable[[Canvas], None]
"""Draws props at rest."""

Place = Callable[[Canvas, float], None]
"""Draws a background, its movable parts shifted to the left by so many frame widths."""


@dataclass(frozen=True)
class Take:
    """One way to fill a clip: a drawing over time (in beats) and its phrases.

    ``travel`` is how many frame widths the background passes by in one beat.
    """

    draw: Callable[[Canvas, float], None]
    spatial: str
    interaction: str
    motion: str
    travel: float = 0.0


@dataclass(frozen=True)
class Scene:
    """All that MiniAD shows of one action."""

    action: str
    place: Place
    location: str
    objects: str
    presence: tuple[Take, ...]
    context_only: tuple[Take, ...]
    different_motion: tuple[Take, ...]

    def takes(self, kind: ClipKind) -> tuple[Take, ...]:
        """Return the takes of a kind of clip; KeyError for ``denial``, which MiniAD does not have."""
        return {
            ClipKind.PRESENCE: self.presence,
            ClipKind.CONTEXT_ONLY: self.context_only,
            ClipKind.DIFFERENT_MOTION: self.different_motion,
        }[kind]

    def components(self, take: Take, look: Look) -> Components:
        """Return what a take of this scene shows for a source of the given look."""
        return Components(
            persons=f"a person in a {look.shirt_name} shirt",
            objects=self.objects,
            location=self.location,
            spatial=take.spatial,
            interaction=take.interaction,
            motion=take.motion,
        )


def beside(props: Props, x: float, spatial: str, interaction: str, motions: tuple[Motion, ...]) -> tuple[Take, ...]:
    """Return a take for each motion: the props at rest and the figure at x, moving without touching them."""

    def take(motion: Motion) -> Take:
        def draw(canvas: Canvas, beat: float) -> None:
            props(canvas)
            draw_figure(canvas, motion.pose(x, beat))

        return Take(draw, spatial, interaction, motion.phrase)

    return tuple(take(motion) for motion in motions)


def still(props: Props, x: float, spatial: str, interaction: str) -> tuple[Take, ...]:
    """Return the context-only take: the props at rest and the figure standing at x."""
    return beside(props, x, spatial, interaction, (STAND,))


def render(
    scene: Scene, take: Take, look: Look, shot: Shot, *, size_px: int, num_frames: int, fps: int
) -> npt.NDArray[np.uint8]:
    """Return the frames of a take, (num_frames, size_px, size_px, 3) uint8 RGB."""
    canvas = Canvas(size_px, look, shot)
    frames = np.empty((num_frames, size_px, size_px, 3), np.uint8)
    backdrop = None
    for i in range(num_frames):
        beat = shot.beat + shot.rate * i / fps
        if backdrop is None or take.travel:
            scene.place(canvas, look.layout + take.travel * beat)
            backdrop = canvas.backdrop()
        canvas.start_from(backdrop)
        take.draw(canvas, beat)
        frames[i] = canvas.pixels()
    return frames
