"""Poses over time that belong to no action of the benchmark: standing, waving, walking, bending and the like.

A motion maps the place x of a figure and the beat (cycles since the motion's beginning) to a pose. One beat is one period.
"""

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from actdeny_train.datasets.miniad_scenes.canvas import GROUND
from actdeny_train.datasets.miniad_scenes.figure import SIDE, STANDING, Pose

FOOT = GROUND - 0.02
"""Height (y) of a foot's middle on the ground."""


@dataclass(frozen=True)
class Motion:
    """A motion and what a camera sees of it."""

    phrase: str
    pose: Callable[[float, float], Pose]


def turn(beat: float, shift: float = 0.0) -> float:
    """Return sin of the beat as an angle: -1 to 1, one period a beat. ``shift`` is in beats."""
    return math.sin(2 * math.pi * (beat + shift))


def lift(beat: float, shift: float = 0.0) -> float:
    """Return 0 at the beginning of a beat and 1 at its middle, smoothly."""
    return (1 - math.cos(2 * math.pi * (beat + shift))) / 2


def keyed(beat: float, *keys: tuple[float, complex]) -> complex:
    """Return the value at a beat, eased between keys (time in the beat, value); the last key leads back to the first."""
    time = beat % 1
    later = [*keys[1:], (1 + keys[0][0], keys[0][1])]
    for (start, value), (end, goal) in zip(keys, later, strict=True):
        if time <= end:
            share = (1 - math.cos(math.pi * max(0.0, time - start) / (end - start))) / 2
            return value + (goal - value) * share
    raise AssertionError(f"keys must begin at 0: {keys}")


def from_shoulder(pose: Pose, i: int, angle: float, reach: float = 0.235) -> complex:
    """Return the hand of arm ``i`` held at an angle: 0 hangs down, positive to the right, pi straight up."""
    return pose.shoulders[i] + reach * complex(math.sin(angle), math.cos(angle))


def upright(x: float) -> Pose:
    """Stand facing the camera with both arms hanging."""
    pelvis = complex(x, STANDING)
    hands = (complex(x - 0.12, STANDING + 0.05), complex(x + 0.12, STANDING + 0.05))
    return Pose(pelvis=pelvis, hands=hands, feet=(complex(x - 0.06, FOOT), complex(x + 0.06, FOOT)))


def stand(x: float, beat: float) -> Pose:
    """Stand with a sway of a hundredth of the frame."""
    sway = 0.006 * turn(beat / 2)
    pose = upright(x)
    return replace(pose, pelvis=pose.pelvis + sway, lean=sway)


def wave(x: float, beat: float) -> Pose:
    """Swing one raised arm far to both sides."""
    pose = upright(x)
    hand = from_shoulder(pose, 1, math.pi - 0.25 - 0.75 * turn(beat))
    return replace(pose, hands=(pose.hands[0], hand), elbows=(1, 1))


def side_bend(x: float, beat: float) -> Pose:
    """Bend the torso far to both sides, one hand on the hip and the other over the head."""
    lean = 0.6 * turn(beat)
    pose = replace(upright(x), lean=lean)
    raised = pose.head + 0.13 * pose.up
    over = (raised - 0.03, raised + 0.03)
    return replace(pose, hands=over, elbows=(1, -1))


def march(x: float, beat: float) -> Pose:
    """Raise one knee after the other to the height of the hips, the arms hanging."""
    pose = upright(x)
    rises = (max(0.0, turn(beat)), max(0.0, -turn(beat)))
    feet = (pose.feet[0] - 0.2j * rises[0] - 0.03 * rises[0], pose.feet[1] - 0.2j * rises[1] + 0.03 * rises[1])
    return replace(pose, feet=feet)


def bow(x: float, beat: float) -> Pose:
    """Bend at the hips with straight legs until the hands are at the feet, and rise again (seen from the side)."""
    lean = 0.1 + 1.9 * lift(beat)
    pelvis = complex(x - 0.06 * lift(beat), STANDING)
    pose = Pose(
        pelvis=pelvis,
        hands=(0, 0),
        feet=(complex(x - 0.02, FOOT), complex(x + 0.02, FOOT)),
        lean=lean,
        width=SIDE,
        knees=(-1, -1),
    )
    hang = 0.15 + 0.1 * lift(beat)
    return replace(pose, hands=(from_shoulder(pose, 0, hang), from_shoulder(pose, 1, hang)), elbows=(1, 1))


def walk(x: float, beat: float) -> Pose:
    """Walk on the spot as seen from the side, facing right; the caller moves x."""

    def foot(shift: float) -> complex:
        return complex(x + 0.13 * turn(beat, shift), FOOT - 0.06 * max(0.0, turn(beat, shift + 0.25)))

    swing = 0.13 * turn(beat)
    return Pose(
        pelvis=complex(x, STANDING + 0.008 * turn(2 * beat)),
        hands=(complex(x + swing, STANDING), complex(x - swing, STANDING)),
        feet=(foot(0.5), foot(0.0)),
        lean=0.06,
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )


def stroll(x: float, beat: float) -> Pose:
    """Walk to and fro around x, turning at both ends."""
    place = 0.13 * turn(beat / 2)
    pose = walk(x, beat)
    if turn(beat / 2, 0.25) < 0:
        pose = mirrored(pose, x)
    return pose.moved(place)


def windmill(x: float, beat: float) -> Pose:
    """Turn both straight arms in full circles at the sides of the body."""
    pose = upright(x)
    angle = 2 * math.pi * beat
    return replace(pose, hands=(from_shoulder(pose, 0, -angle), from_shoulder(pose, 1, angle)))


def kick(x: float, beat: float) -> Pose:
    """Swing one straight leg up to the side and back, the arms hanging."""
    pose = replace(upright(x), lean=-0.25 * lift(beat))
    leg = cmath.rect(0.31, math.pi / 2 - 1.5 * lift(beat))
    foot = pose.hips[1] + leg
    return replace(pose, feet=(pose.feet[0] + 0.03, foot))


def mirrored(pose: Pose, x: float) -> Pose:
    """Return a pose seen from the side turned about the vertical line at x."""

    def flip(p: complex) -> complex:
        return complex(2 * x - p.real, p.imag)

    (far_hand, near_hand), (far_foot, near_foot) = pose.hands, pose.feet
    return replace(
        pose,
        pelvis=flip(pose.pelvis),
        hands=(flip(far_hand), flip(near_hand)),
        feet=(flip(far_foot), flip(near_foot)),
        lean=-pose.lean,
        elbows=(-pose.elbows[0], -pose.elbows[1]),
        knees=(-pose.knees[0], -pose.knees[1]),
    )


STAND = Motion("the person stands almost still with both arms hanging", stand)
WAVE = Motion("one raised arm moves widely from side to side over the head", wave)
SIDE_BEND = Motion("the upper body tilts far to one side and then to the other", side_bend)
MARCH = Motion("one knee after the other rises to the height of the hips", march)
BOW = Motion("the upper body folds down until the hands reach the feet and rises again", bow)
STROLL = Motion("the person walks a few steps to and fro", stroll)
WINDMILL = Motion("both straight arms turn in full circles beside the body", windmill)
KICK = Motion("one straight leg lifts far out to the side and comes back", kick)
