"""Scenes of wheels and tools: a bicycle, a hammer, a mop."""

import cmath
import math
from dataclasses import replace

from actdeny_train.datasets.miniad_scenes import places, props
from actdeny_train.datasets.miniad_scenes.canvas import GROUND, Canvas
from actdeny_train.datasets.miniad_scenes.figure import SIDE, STANDING, Pose, draw_arms, draw_body, draw_figure
from actdeny_train.datasets.miniad_scenes.motions import (
    FOOT,
    MARCH,
    STROLL,
    WAVE,
    keyed,
    lift,
    turn,
    upright,
    walk,
)
from actdeny_train.datasets.miniad_scenes.scene import Scene, Take, beside, still

HUB = complex(0.29, GROUND - 0.13)


def ride(canvas: Canvas, beat: float) -> None:
    """Sit on the bicycle and turn the cranks while the street passes by."""
    crank = props.bicycle(canvas, HUB, beat)
    saddle = HUB + 0.13 - 0.25j
    bar = HUB + 0.4 - 0.28j
    pedal = cmath.rect(0.075, 2 * math.pi * beat)
    pose = Pose(
        pelvis=saddle,
        hands=(bar, bar),
        feet=(crank - pedal, crank + pedal),
        lean=0.5,
        nod=-0.2,
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )
    draw_figure(canvas, pose)


def bicycle_at_rest(canvas: Canvas) -> None:
    """Draw the bicycle parked."""
    props.bicycle(canvas, HUB + 0.16, 0.0)


def push_bicycle(canvas: Canvas, beat: float) -> None:
    """Walk beside the bicycle with the hands on its bar while the street passes by."""
    props.bicycle(canvas, HUB + 0.1, beat)
    pose = walk(HUB.real + 0.16, beat)
    bar = HUB + 0.46 - 0.28j
    draw_figure(canvas, replace(pose, hands=(bar, bar), elbows=(-1, -1)))


BIKING = Scene(
    action="Biking",
    place=places.street,
    location="a street with houses",
    objects="a bicycle",
    presence=(
        Take(
            ride,
            "the person sits on the saddle over both wheels",
            "the hands are on the bar and the feet on the pedals",
            "the legs go round and round while the houses pass",
            travel=0.5,
        ),
    ),
    context_only=still(
        bicycle_at_rest, 0.2, "the bicycle is parked, the person is on foot beside it", "nobody touches the bicycle"
    ),
    different_motion=(
        *beside(
            bicycle_at_rest,
            0.18,
            "the bicycle is parked next to the person on foot",
            "the hands and feet stay off the bicycle",
            (WAVE, MARCH),
        ),
        Take(
            push_bicycle,
            "the bicycle is upright beside the person on foot",
            "the hands hold the bar, the feet are on the road",
            "the person walks step by step while the houses pass",
            travel=0.3,
        ),
    ),
)


BENCH_X = 0.7


def hit_nail(canvas: Canvas, beat: float) -> None:
    """Raise the hammer over the shoulder and bring it down on the nail."""
    nail = 0.1 - 0.03 * (1 - lift(beat, 0.5))
    top = props.workbench(canvas, BENCH_X, nail)
    x = 0.36
    raised = keyed(beat, (0.0, 0.0), (0.1, 0.0), (0.6, 1.0), (0.7, 1.0)).real
    low = top - 0.2 - 0.1j
    high = complex(x - 0.03, 0.3)
    hand = low + (high - low) * raised + 0.06 * math.sin(math.pi * raised)
    pose = Pose(
        pelvis=complex(x, STANDING),
        hands=(complex(BENCH_X - 0.13, 0.58), hand),
        feet=(complex(x - 0.1, FOOT), complex(x + 0.06, FOOT)),
        lean=0.35 - 0.45 * raised,
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )
    draw_body(canvas, pose)
    props.hammer(canvas, hand, -2.2 * raised)
    draw_arms(canvas, pose)


def tools_at_rest(canvas: Canvas) -> None:
    """Draw the workbench with the nail standing out and the hammer standing on its head before the bench."""
    props.workbench(canvas, BENCH_X, 0.1)
    props.hammer(canvas, complex(BENCH_X + 0.06, GROUND - 0.24), math.pi / 2)


def wipe_bench(canvas: Canvas, beat: float) -> None:
    """Bend over the bench and push both hands to and fro along it."""
    tools_at_rest(canvas)
    reach = 0.12 * turn(beat)
    x = 0.4
    hands = complex(0.55 + reach, 0.6)
    pose = Pose(
        pelvis=complex(x + 0.5 * reach, STANDING),
        hands=(hands, hands + 0.02),
        feet=(complex(x - 0.1, FOOT), complex(x + 0.04, FOOT)),
        lean=0.7,
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )
    draw_figure(canvas, pose)


HAMMERING = Scene(
    action="Hammering",
    place=places.workshop,
    location="a workshop with wooden planks and a shelf",
    objects="a steel tool, a thick nail and a workbench",
    presence=(
        Take(
            hit_nail,
            "the steel tool goes between the shoulder and the nail",
            "one hand grips the tool and its head meets the nail",
            "one arm lifts high over the shoulder and drops again and again",
        ),
    ),
    context_only=still(
        tools_at_rest, 0.28, "the tool is on the floor before the workbench", "no hand touches the tool or the nail"
    ),
    different_motion=(
        *beside(
            tools_at_rest,
            0.28,
            "the tool is on the floor, away from the hands",
            "the hands stay off the tool and the nail",
            (STROLL, WAVE),
        ),
        Take(
            wipe_bench,
            "the person leans over the workbench",
            "both hands rest on the bench top, the tool is on the floor",
            "both arms push to and fro along the bench top",
        ),
    ),
)


BUCKET = complex(0.84, GROUND - 0.08)


def mop_floor(canvas: Canvas, beat: float) -> None:
    """Push the mop over the floor far to both sides."""
    props.bucket(canvas, BUCKET)
    reach = turn(beat)
    pose = upright(0.42)
    pose = replace(pose, pelvis=pose.pelvis + 0.03 * reach + 0.02j, lean=0.22 * reach)
    head = complex(0.42 + 0.27 * reach, GROUND - 0.03)
    top = pose.neck + complex(0.02 - 0.1 * reach, 0.02)
    along = head - top
    pose = replace(pose, hands=(top + 0.15 * along, top + 0.5 * along))
    draw_body(canvas, pose)
    props.mop(canvas, top, head)
    draw_arms(canvas, pose)


def mop_at_rest(canvas: Canvas) -> None:
    """Draw the mop leaning on the cupboard beside the bucket."""
    props.mop(canvas, complex(0.56, 0.2), complex(0.62, GROUND - 0.09))
    props.bucket(canvas, BUCKET)


def raise_bucket(canvas: Canvas, beat: float) -> None:
    """Lift the bucket to the chest with both hands and put it down; the mop leans on the cupboard."""
    props.mop(canvas, complex(0.76, 0.16), complex(0.84, GROUND - 0.09))
    height = lift(beat)
    x = 0.42
    middle = complex(x, GROUND - 0.1 - 0.42 * height)
    pose = replace(upright(x), pelvis=complex(x, STANDING + 0.13 * (1 - height)))
    pose = replace(pose, hands=(middle - 0.11, middle + 0.11))
    draw_body(canvas, pose)
    props.bucket(canvas, middle)
    draw_arms(canvas, pose)


MOPPING_FLOOR = Scene(
    action="MoppingFloor",
    place=places.kitchen,
    location="a kitchen with turquoise cupboards and tiles",
    objects="a long stick with a white fringe and a bucket",
    presence=(
        Take(
            mop_floor,
            "the white fringe is on the tiles before the feet",
            "both hands hold the stick and press its fringe to the tiles",
            "both arms push the stick far to one side and the other",
        ),
    ),
    context_only=still(
        mop_at_rest, 0.26, "the stick leans on a cupboard beside the bucket", "nobody touches the stick or the bucket"
    ),
    different_motion=(
        *beside(
            mop_at_rest,
            0.26,
            "the stick leans aside, its fringe down on the tiles",
            "the hands stay off the stick and the bucket",
            (STROLL, MARCH),
        ),
        Take(
            raise_bucket,
            "the bucket is before the person, the stick leans aside",
            "both hands hold the bucket, none the stick",
            "the arms lift the bucket to the chest and set it down",
        ),
    ),
)


WORK_SCENES = (BIKING, HAMMERING, MOPPING_FLOOR)
