"""A jointed figure: a pose says where pelvis, hands and feet are, inverse kinematics finds elbows and knees."""

import cmath
import math
from dataclasses import dataclass, replace

from actdeny_train.datasets.miniad_scenes.canvas import Canvas
from actdeny_train.datasets.miniad_scenes.look import Colour

HEAD, TORSO, UPPER_ARM, FOREARM, THIGH, SHIN = 0.064, 0.21, 0.12, 0.125, 0.15, 0.15
"""Radius of the head and lengths of the limbs in frame units; a standing figure is 0.65 high."""

FRONT, SIDE = 0.065, 0.012
"""Half the distance between the shoulders, seen from the front and from the side."""

STANDING = 0.556
"""Height (y) of the pelvis of a figure that stands on the ground."""


@dataclass(frozen=True)
class Pose:
    """Where a figure's ends are. Index 0 of a pair is the limb on the left of the frame or, from the side, the far one.

    ``lean`` turns the torso about the pelvis (radians, positive to the right; pi stands on the head). ``elbows`` and
    ``knees`` say to which side of the line from shoulder to hand (hip to foot) a joint bends: +1 or -1. Hands and feet beyond
    a limb's reach are drawn in their direction, with the limb straight.
    """

    pelvis: complex
    hands: tuple[complex, complex]
    feet: tuple[complex, complex]
    lean: float = 0.0
    nod: float = 0.0
    width: float = FRONT
    elbows: tuple[int, int] = (1, -1)
    knees: tuple[int, int] = (1, -1)

    @property
    def up(self) -> complex:
        """Unit vector from pelvis to neck."""
        return complex(math.sin(self.lean), -math.cos(self.lean))

    @property
    def neck(self) -> complex:
        """Where the head joins the torso."""
        return self.pelvis + TORSO * self.up

    @property
    def head(self) -> complex:
        """Centre of the head."""
        return self.neck + 1.15 * HEAD * self.up * cmath.rect(1, self.nod)

    @property
    def shoulders(self) -> tuple[complex, complex]:
        """Where the arms begin."""
        top, across = self.neck - 0.03 * self.up, self.width * self.up * 1j
        return top - across, top + across

    @property
    def hips(self) -> tuple[complex, complex]:
        """Where the legs begin."""
        across = 0.5 * self.width * self.up * 1j
        return self.pelvis - across, self.pelvis + across

    def moved(self, by: complex) -> "Pose":
        """Return the pose moved as a whole."""
        (h0, h1), (f0, f1) = self.hands, self.feet
        return replace(self, pelvis=self.pelvis + by, hands=(h0 + by, h1 + by), feet=(f0 + by, f1 + by))


def bend(start: complex, end: complex, first: float, second: float, side: int) -> tuple[complex, complex]:
    """Return the joint and the reached end of a limb of two bones of lengths ``first`` and ``second`` from start towards end.

    An end out of reach (too far or, with unequal bones, too near) is replaced by the nearest point in its direction.
    """
    span = abs(end - start)
    along = (end - start) / span if span > 1e-9 else 1j
    reach = min(span, first + second - 1e-6)
    reach = max(reach, abs(first - second) + 1e-6)
    foot = (first**2 - second**2 + reach**2) / (2 * reach)
    height = math.sqrt(max(0.0, first**2 - foot**2))
    return start + along * complex(foot, side * height), start + along * reach


def draw_body(canvas: Canvas, pose: Pose) -> None:
    """Draw legs, torso and head (and from the side the far arm, which the torso covers)."""
    look = canvas.look
    for i in (0, 1):
        knee, foot = bend(pose.hips[i], pose.feet[i], THIGH, SHIN, pose.knees[i])
        colour = look.trousers if i or pose.width == FRONT else darker(look.trousers)
        canvas.line([pose.hips[i], knee, foot], 0.052, colour, outline=True)
        canvas.disc(foot, 0.03, (60, 50, 46), outline=True)
    if pose.width == SIDE:
        _draw_arm(canvas, pose, 0)
    chest = max(pose.width, 0.035)
    across = chest * pose.up * 1j
    top, bottom = pose.neck - 0.035 * pose.up, pose.pelvis + 0.005 * pose.up
    trunk = [top - across, top + across, bottom + 0.7 * across, bottom - 0.7 * across, top - across]
    canvas.line(trunk, 0.05, look.shirt, outline=True)
    canvas.polygon(trunk, look.shirt)
    canvas.line([pose.neck, pose.head], 0.045, look.skin)
    canvas.disc(pose.head, HEAD, look.skin, outline=True)
    crown = pose.head - pose.neck
    canvas.disc(pose.head + 0.35 * crown, 0.72 * HEAD, look.hair)


def draw_arms(canvas: Canvas, pose: Pose) -> None:
    """Draw both arms, from the side only the near one."""
    for i in (0, 1) if pose.width == FRONT else (1,):
        _draw_arm(canvas, pose, i)


def draw_figure(canvas: Canvas, pose: Pose) -> None:
    """Draw a whole figure."""
    draw_body(canvas, pose)
    draw_arms(canvas, pose)


def darker(colour: Colour) -> Colour:
    """Return a colour at seven tenths of its brightness."""
    r, g, b = (7 * v // 10 for v in colour)
    return r, g, b


def _draw_arm(canvas: Canvas, pose: Pose, i: int) -> None:
    look = canvas.look
    elbow, hand = bend(pose.shoulders[i], pose.hands[i], UPPER_ARM, FOREARM, pose.elbows[i])
    sleeve = look.shirt if i or pose.width == FRONT else darker(look.shirt)
    canvas.line([pose.shoulders[i], elbow, hand], 0.044, look.skin, outline=True)
    canvas.line([pose.shoulders[i], elbow], 0.046, sleeve)
    canvas.disc(hand, 0.03, look.skin, outline=True)
