"""Scenes of actions that need no object: the body and its place say it all."""

import cmath
import math
from dataclasses import replace

from actdeny_train.datasets.miniad_scenes import places
from actdeny_train.datasets.miniad_scenes.canvas import GROUND, Canvas
from actdeny_train.datasets.miniad_scenes.figure import SIDE, STANDING, TORSO, Pose, draw_figure
from actdeny_train.datasets.miniad_scenes.motions import (
    BOW,
    FOOT,
    KICK,
    MARCH,
    SIDE_BEND,
    STROLL,
    WAVE,
    WINDMILL,
    from_shoulder,
    lift,
    turn,
    upright,
)
from actdeny_train.datasets.miniad_scenes.scene import Scene, Take, beside, still

MIDDLE = 0.5


def nothing(canvas: Canvas) -> None:
    """Draw no props: the place is all that is there."""


def jumping_jack(canvas: Canvas, beat: float) -> None:
    """Hop with arms and legs flung apart and together."""
    spread = lift(beat)
    pose = upright(MIDDLE)
    pelvis = pose.pelvis - 0.07j * abs(turn(beat)) + 0.04j * spread
    pose = replace(pose, pelvis=pelvis)
    hands = (from_shoulder(pose, 0, -0.25 - 2.6 * spread), from_shoulder(pose, 1, 0.25 + 2.6 * spread))
    ground = FOOT - 0.07 * abs(turn(beat))
    feet = (complex(MIDDLE - 0.04 - 0.17 * spread, ground), complex(MIDDLE + 0.04 + 0.17 * spread, ground))
    draw_figure(canvas, replace(pose, hands=hands, feet=feet))


def push_ups(canvas: Canvas, beat: float) -> None:
    """Lower and raise the straight body over the hands, seen from the side."""
    toes, hands = complex(0.12, FOOT - 0.01), complex(0.68, FOOT)
    rise = 0.04 + 0.17 * (1 - lift(beat))
    lean = math.pi / 2 - math.asin(min(1.0, (rise - 0.01) / 0.5))
    pelvis = toes + 0.305 * cmath.rect(1, lean - math.pi / 2) - 0.02j
    draw_figure(
        canvas,
        Pose(
            pelvis=pelvis,
            hands=(hands, hands),
            feet=(toes, toes),
            lean=lean,
            nod=-0.3,
            width=SIDE,
            elbows=(1, 1),
            knees=(1, 1),
        ),
    )


def squats(canvas: Canvas, beat: float) -> None:
    """Sink with bent knees until the hips are at knee height and rise, the arms stretched forward (from the side)."""
    depth = lift(beat)
    pelvis = complex(MIDDLE - 0.17 * depth, STANDING + 0.16 * depth)
    feet = (complex(MIDDLE - 0.03, FOOT), complex(MIDDLE + 0.01, FOOT))
    pose = Pose(pelvis=pelvis, hands=(0, 0), feet=feet, lean=0.55 * depth, width=SIDE, knees=(-1, -1), elbows=(1, 1))
    reach = 0.2 + 1.5 * depth
    draw_figure(canvas, replace(pose, hands=(from_shoulder(pose, 0, reach), from_shoulder(pose, 1, reach))))


def handstand_walk(canvas: Canvas, beat: float) -> None:
    """Step from hand to hand upside down, to and fro, the legs high in the air (from the side)."""
    x = MIDDLE + 0.2 * turn(beat / 4)
    pelvis = complex(x, GROUND - 0.22 - TORSO + 0.01 * turn(2 * beat))

    def palm(shift: float) -> complex:
        return complex(x + 0.1 * turn(beat, shift), FOOT - 0.06 * max(0.0, turn(beat, shift + 0.25)))

    feet = (pelvis + complex(-0.12 - 0.05 * turn(beat), -0.26), pelvis + complex(0.1 + 0.05 * turn(beat), -0.24))
    draw_figure(
        canvas,
        Pose(
            pelvis=pelvis,
            hands=(palm(0.5), palm(0.0)),
            feet=feet,
            lean=math.pi + 0.05 * turn(beat),
            width=SIDE,
            knees=(1, -1),
        ),
    )


JUMPING_JACK = Scene(
    action="JumpingJack",
    place=places.wall_bar_gym,
    location="a gym with wooden wall bars on a red wall",
    objects="wooden wall bars behind an empty floor",
    presence=(
        Take(
            jumping_jack,
            "the arms and legs form a wide X before the wall bars",
            "only the feet meet the floor, both leaving it together",
            "arms and legs fly apart and together again with every hop",
        ),
    ),
    context_only=still(
        nothing,
        MIDDLE,
        "the person is upright before the wall bars",
        "both feet stay on the floor and the hands touch nothing",
    ),
    different_motion=beside(
        nothing,
        MIDDLE,
        "the person is in the middle of the floor before the wall bars",
        "at least one foot stays on the floor at all times",
        (BOW, MARCH, SIDE_BEND),
    ),
)

PUSH_UPS = Scene(
    action="PushUps",
    place=places.mat_room,
    location="a bright room with round windows",
    objects="a large blue mat on the floor",
    presence=(
        Take(
            push_ups,
            "the body is stretched out low over the mat",
            "both hands and the toes rest on the mat",
            "the straight body sinks and rises as the elbows bend and straighten",
        ),
    ),
    context_only=still(
        nothing, MIDDLE, "the person is upright on the mat", "only the feet are on the mat, the hands touch nothing"
    ),
    different_motion=beside(
        nothing,
        MIDDLE,
        "the person is upright in the middle of the mat",
        "the hands never touch the mat",
        (WAVE, MARCH, KICK),
    ),
)

SQUATS = Scene(
    action="BodyWeightSquats",
    place=places.roof,
    location="a flat roof before the towers of a city",
    objects="tall towers behind an empty roof",
    presence=(
        Take(
            squats,
            "the hips go down to the height of the knees, the arms point forward",
            "both feet stay flat on the roof",
            "the knees fold and straighten while the hips sink and rise",
        ),
    ),
    context_only=still(
        nothing,
        MIDDLE,
        "the person is upright on the roof, the legs straight",
        "both feet are on the roof and the hands are empty",
    ),
    different_motion=beside(
        nothing,
        MIDDLE,
        "the hips stay high above the knees on the roof",
        "the hands are empty and the feet are on the roof",
        (WAVE, SIDE_BEND, STROLL),
    ),
)

HANDSTAND_WALKING = Scene(
    action="HandstandWalking",
    place=places.beach,
    location="a sandy beach by a blue sea",
    objects="sand, a blue sea and a palm",
    presence=(
        Take(
            handstand_walk,
            "the head is near the sand and the legs are in the air",
            "only the palms touch the sand",
            "one palm after the other is lifted and set down farther along",
        ),
    ),
    context_only=still(
        nothing, MIDDLE, "the person is upright on the sand, the head up", "only the soles touch the sand"
    ),
    different_motion=beside(
        nothing,
        MIDDLE,
        "the legs are below the hips, on the sand",
        "only the feet touch the sand, the palms stay free",
        (WAVE, KICK, WINDMILL),
    ),
)

BODY_SCENES = (JUMPING_JACK, PUSH_UPS, SQUATS, HANDSTAND_WALKING)
