"""Scenes of music and play: a guitar, a hoop, a seat on chains."""

import cmath
import math
from dataclasses import replace

from actdeny_train.datasets.miniad_scenes import places, props
from actdeny_train.datasets.miniad_scenes.canvas import GROUND, Canvas
from actdeny_train.datasets.miniad_scenes.figure import SIDE, STANDING, Pose, draw_arms, draw_body, draw_figure
from actdeny_train.datasets.miniad_scenes.motions import (
    FOOT,
    MARCH,
    SIDE_BEND,
    STROLL,
    WAVE,
    lift,
    turn,
    upright,
)
from actdeny_train.datasets.miniad_scenes.scene import Scene, Take, beside, still


def strum(canvas: Canvas, beat: float) -> None:
    """Sweep one hand across the strings while the other slides along the neck."""
    pose = replace(upright(0.5), lean=0.05 * turn(beat))
    body, angle = pose.pelvis - 0.05 - 0.03j, -0.42
    along = cmath.rect(1, angle)
    strumming = body + complex(0.0, 0.17 * turn(2 * beat))
    fretting = body + (0.3 + 0.07 * turn(beat)) * along
    pose = replace(pose, hands=(strumming, fretting), elbows=(1, -1))
    draw_body(canvas, pose)
    props.guitar(canvas, body, angle)
    draw_arms(canvas, pose)


def guitar_at_rest(canvas: Canvas) -> None:
    """Draw the guitar upright on its stand."""
    props.guitar_stand(canvas, 0.76)
    props.guitar(canvas, complex(0.76, 0.66), -math.pi / 2)


def raise_guitar(canvas: Canvas, beat: float) -> None:
    """Lift the level guitar over the head with both hands and lower it."""
    pose = upright(0.5)
    middle = complex(0.5, STANDING + 0.03 - 0.4 * lift(beat))
    pose = replace(pose, hands=(middle - 0.1, middle + 0.14))
    draw_body(canvas, pose)
    props.guitar(canvas, middle - 0.12, 0.0)
    draw_arms(canvas, pose)


PLAYING_GUITAR = Scene(
    action="PlayingGuitar",
    place=places.living_room,
    location="a living room with a sofa and pictures",
    objects="a guitar",
    presence=(
        Take(
            strum,
            "the guitar is slanted across the front of the body",
            "one hand is on the strings, the other on the neck",
            "one hand sweeps up and down while the other slides to and fro",
        ),
    ),
    context_only=still(
        guitar_at_rest, 0.36, "the guitar is upright on its stand beside the person", "nobody touches the guitar"
    ),
    different_motion=(
        *beside(
            guitar_at_rest,
            0.34,
            "the guitar is on its stand at the person's side",
            "the hands stay off the guitar and its strings",
            (WAVE, MARCH),
        ),
        Take(
            raise_guitar,
            "the guitar is level in front of the chest or over the head",
            "both hands carry the guitar by its body and neck",
            "both arms lift the guitar high and lower it",
        ),
    ),
)


def spin_hoop(canvas: Canvas, beat: float) -> None:
    """Circle the hips inside the hoop, the arms held wide."""
    swing = turn(beat)
    pose = upright(0.5)
    pose = replace(pose, pelvis=pose.pelvis + 0.06 * swing, lean=-0.3 * swing)
    hands = (pose.shoulders[0] + complex(-0.22, -0.08), pose.shoulders[1] + complex(0.22, -0.08))
    pose = replace(pose, hands=hands, elbows=(-1, 1))
    centre = pose.pelvis - 0.06j - 0.09 * turn(beat, 0.25)
    tilt = 0.28 * turn(beat, 0.1)
    props.hoop(canvas, centre, 0.29 + 0.085j, tilt, "back")
    draw_body(canvas, pose)
    props.hoop(canvas, centre, 0.29 + 0.085j, tilt, "front")
    draw_arms(canvas, pose)


def hoop_at_rest(canvas: Canvas) -> None:
    """Draw the hoop standing on the floor."""
    props.hoop(canvas, complex(0.74, GROUND - 0.24), 0.2 + 0.24j)


def steer_hoop(canvas: Canvas, beat: float) -> None:
    """Hold the hoop upright over the head and turn it like a wheel to both sides."""
    pose = replace(upright(0.5), lean=0.15 * turn(beat))
    centre = complex(0.5 + 0.1 * turn(beat), 0.27)
    tilt = 0.36 * turn(beat)
    grips = (centre + cmath.rect(0.24, 0.8 * math.pi + tilt), centre + cmath.rect(0.24, 0.2 * math.pi + tilt))
    pose = replace(pose, hands=grips, elbows=(1, -1))
    draw_body(canvas, pose)
    props.hoop(canvas, centre, 0.24 + 0.24j)
    draw_arms(canvas, pose)


HULA_HOOP = Scene(
    action="HulaHoop",
    place=places.dance_hall,
    location="a pink hall with paper lanterns",
    objects="a large green ring",
    presence=(
        Take(
            spin_hoop,
            "the green ring lies around the waist",
            "the waist pushes the ring, the hands are free",
            "the hips circle while the arms are held wide",
        ),
    ),
    context_only=still(
        hoop_at_rest, 0.32, "the green ring is upright on the floor beside the person", "nobody touches the ring"
    ),
    different_motion=(
        *beside(
            hoop_at_rest,
            0.32,
            "the green ring is on the floor at the person's side",
            "the hands and hips stay off the ring",
            (MARCH, SIDE_BEND),
        ),
        Take(
            steer_hoop,
            "the green ring is upright around the head",
            "both hands hold the ring at its lower edge",
            "both arms tilt the ring from side to side",
        ),
    ),
)


def swing_high(canvas: Canvas, beat: float) -> None:
    """Sit on the seat and fly to and fro, the legs stretched in front and folded behind."""
    bar = props.swing_frame(canvas)
    angle = 0.75 * turn(beat)
    seat = props.swing_seat(canvas, bar, angle)
    chain = (bar - seat) / abs(bar - seat)
    pelvis = seat + 0.03 * chain
    tuck = (1 - turn(beat)) / 2
    forward = chain * 1j
    legs = (0.24 - 0.14 * tuck) * forward - (0.02 + 0.2 * tuck) * chain
    feet = (pelvis + legs, pelvis + legs + 0.03 * forward)
    pose = Pose(
        pelvis=pelvis,
        hands=(0, 0),
        feet=feet,
        lean=-angle * 0.9 - 0.35 * turn(beat),
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )
    grip = seat + 0.2 * chain
    draw_figure(canvas, replace(pose, hands=(grip, grip)))


def swing_at_rest(canvas: Canvas) -> None:
    """Draw the frame with the seat hanging still."""
    props.swing_seat(canvas, props.swing_frame(canvas), 0.0)


def push_seat(canvas: Canvas, beat: float) -> None:
    """Stand behind the empty seat and push it away each time it comes back."""
    bar = props.swing_frame(canvas)
    angle = 0.3 + 0.42 * turn(beat)
    seat = props.swing_seat(canvas, bar, angle)
    x = 0.2
    reach = complex(min(seat.real - 0.06, x + 0.2), seat.imag - 0.04)
    pose = Pose(
        pelvis=complex(x, STANDING),
        hands=(reach, reach),
        feet=(complex(x - 0.06, FOOT), complex(x + 0.04, FOOT)),
        lean=0.25 + 0.1 * turn(beat),
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )
    draw_figure(canvas, pose)


SWING = Scene(
    action="Swing",
    place=places.playground,
    location="a sandy yard before a round hedge",
    objects="a seat on two long chains in a tall frame",
    presence=(
        Take(
            swing_high,
            "the person sits on the seat high above the sand",
            "the hips are on the seat and the hands on the chains",
            "the whole body flies to and fro, the legs stretch and fold",
        ),
    ),
    context_only=still(
        swing_at_rest,
        0.27,
        "the empty seat hangs beside the person",
        "nobody touches the seat or the chains",
    ),
    different_motion=(
        *beside(
            swing_at_rest,
            0.24,
            "the empty seat hangs next to the person",
            "the hands and hips stay off the seat",
            (MARCH, STROLL),
        ),
        Take(
            push_seat,
            "the person is on foot behind the empty seat",
            "the hands meet the empty seat and shove it away",
            "the arms reach forward and draw back while the seat moves",
        ),
    ),
)

PLAY_SCENES = (PLAYING_GUITAR, HULA_HOOP, SWING)
