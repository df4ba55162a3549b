"""Scenes of sports with a ball, a bow, a club or weights."""

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
    WINDMILL,
    keyed,
    lift,
    mirrored,
    turn,
    upright,
    walk,
)
from actdeny_train.datasets.miniad_scenes.scene import Scene, Take, beside, still

BASKET_X = 0.86
SHOOTER_X = 0.26


def shoot(canvas: Canvas, beat: float) -> None:
    """Crouch with the ball, leap, stretch and let it fly into the basket; it drops and rolls back."""
    rim = props.basket(canvas, BASKET_X)
    height = keyed(beat, (0.0, 0.0), (0.2, 0.09), (0.38, -0.1), (0.6, 0.0)).real
    x = SHOOTER_X
    hold = complex(x + 0.13, STANDING - 0.08)
    top = complex(x + 0.1, 0.05)
    hands = keyed(beat, (0.0, hold), (0.2, hold + 0.07j), (0.38, top), (0.6, top + 0.02 + 0.03j), (0.85, hold + 0.1j))
    feet_y = FOOT + min(0.0, height)
    pose = Pose(
        pelvis=complex(x - 0.4 * max(0.0, height), STANDING + height),
        hands=(hands, hands),
        feet=(complex(x - 0.04, feet_y), complex(x + 0.02, feet_y)),
        lean=0.1 + max(0.0, 3 * height),
        width=SIDE,
        elbows=(-1, -1),
        knees=(-1, -1),
    )
    draw_figure(canvas, pose)
    time = beat % 1
    held = hands + 0.06 - 0.03j
    if time < 0.38:
        ball = held
    elif time < 0.62:
        share = (time - 0.38) / 0.24
        start = top + 0.06 - 0.03j
        ball = start + (rim - start) * share - 0.5j * share * (1 - share)
    elif time < 0.75:
        share = (time - 0.62) / 0.13
        ball = rim + 0.5j * share**2
    else:
        share = (time - 0.75) / 0.25
        ball = rim + 0.5j + (hold + 0.06 - 0.03j - rim - 0.5j) * share
    props.basketball(canvas, ball)


def ball_at_rest(canvas: Canvas) -> None:
    """Draw the basket with the ball on the floor below it."""
    props.basket(canvas, BASKET_X)
    props.basketball(canvas, complex(BASKET_X - 0.16, GROUND - 0.04))


def carry_ball(canvas: Canvas, beat: float) -> None:
    """Walk to and fro with the ball under the arm."""
    props.basket(canvas, BASKET_X)
    place = 0.12 * turn(beat / 2)
    pose = walk(0.34, beat)
    ball = complex(0.34 + 0.05, STANDING - 0.03)
    pose = replace(pose, hands=(pose.hands[0], ball + 0.02 + 0.03j), elbows=(-1, 1))
    if turn(beat / 2, 0.25) < 0:
        pose, ball = mirrored(pose, 0.34), complex(0.34 - 0.05, ball.imag)
    pose, ball = pose.moved(place), ball + place
    draw_body(canvas, pose)
    props.basketball(canvas, ball)
    draw_arms(canvas, pose)


BASKETBALL = Scene(
    action="Basketball",
    place=places.court,
    location="a sports hall with a blue striped wall",
    objects="a basketball and a ring with a net on a pole",
    presence=(
        Take(
            shoot,
            "the ball flies from above the head to the ring",
            "both hands raise the ball and let go of it",
            "the knees bend, then the whole body stretches up with the arms",
        ),
    ),
    context_only=still(
        ball_at_rest, 0.3, "the ball lies on the floor, away from the person", "the hands do not touch the ball"
    ),
    different_motion=(
        *beside(
            ball_at_rest,
            0.34,
            "the ball lies on the floor under the ring",
            "the hands and feet stay off the ball",
            (SIDE_BEND, MARCH),
        ),
        Take(
            carry_ball,
            "the ball is at the hip, under one arm",
            "one arm clamps the ball against the body",
            "the person walks a few steps to and fro",
        ),
    ),
)


TARGET = 0.83 + 0.5j
ARCHER_X = 0.3


def draw_and_release(canvas: Canvas, beat: float) -> None:
    """Pull the string to the chin, let the arrow fly into the target, reach back for the next."""
    props.target(canvas, TARGET)
    x = ARCHER_X
    grip = complex(x + 0.22, STANDING - 0.16)
    rest = grip - 0.09
    chin = complex(x - 0.04, grip.imag)
    quiver = complex(x - 0.16, STANDING - 0.02)
    hand = keyed(beat, (0.0, rest), (0.35, chin), (0.5, chin), (0.56, chin - 0.06), (0.75, quiver))
    time = beat % 1
    drawn = time < 0.52
    pose = Pose(
        pelvis=complex(x, STANDING),
        hands=(grip, hand),
        feet=(complex(x + 0.07, FOOT), complex(x - 0.07, FOOT)),
        lean=-0.04,
        width=SIDE,
        elbows=(1, 1),
        knees=(-1, 1),
    )
    draw_body(canvas, pose)
    props.bow(canvas, grip, hand if drawn else rest)
    if drawn:
        props.arrow(canvas, hand)
    else:
        flown = min(1.0, (time - 0.52) / 0.16)
        props.arrow(canvas, rest + (TARGET - 0.24 - rest) * flown)
    draw_arms(canvas, pose)


def bow_at_rest(canvas: Canvas) -> None:
    """Draw the target with the bow standing against a post."""
    props.target(canvas, TARGET)
    canvas.line([complex(0.6, GROUND), complex(0.6, 0.5)], 0.03, props.WOOD)
    props.bow(canvas, complex(0.62, 0.64), complex(0.53, 0.64))


def raise_bow(canvas: Canvas, beat: float) -> None:
    """Lift the bow over the head with both hands and lower it."""
    props.target(canvas, TARGET)
    x = ARCHER_X + 0.04
    middle = complex(x, STANDING + 0.02 - 0.46 * lift(beat))
    pose = replace(upright(x), hands=(middle - 0.09, middle + 0.09))
    draw_body(canvas, pose)
    canvas.line([middle - 0.23 + 0.05j, middle + 0.23 + 0.05j], 0.012, (245, 245, 235))
    curve = [middle + complex(0.23 * t, 0.09 * t * t - 0.02) for t in (-1, -0.5, 0, 0.5, 1)]
    canvas.line(curve, 0.026, canvas.look.dye((150, 70, 30)), outline=True)
    draw_arms(canvas, pose)


ARCHERY = Scene(
    action="Archery",
    place=places.meadow,
    location="a meadow before dark fir trees",
    objects="a tall bow and a round target on legs",
    presence=(
        Take(
            draw_and_release,
            "the bow is upright at arm's length before the target",
            "one hand grips the bow, the other draws the string to the chin",
            "one arm draws far back, opens, and reaches behind the hip",
        ),
    ),
    context_only=still(
        bow_at_rest, 0.28, "the bow leans on a post between person and target", "nobody touches the bow or its string"
    ),
    different_motion=(
        *beside(
            bow_at_rest,
            0.28,
            "the bow leans on a post, the person is next to it",
            "the hands stay off the bow and its string",
            (WAVE, STROLL),
        ),
        Take(
            raise_bow,
            "the bow lies level across the front of the person",
            "both hands hold the wood of the bow, none its string",
            "both arms lift the bow over the head and lower it",
        ),
    ),
)


GOLFER_X = 0.38
BAG_X = 0.84


def golf_place(canvas: Canvas) -> None:
    """Draw the flag and the bag with clubs."""
    props.flag(canvas, 0.66)
    props.golf_bag(canvas, BAG_X)


def golf_swing(canvas: Canvas, beat: float) -> None:
    """Take the club back over one shoulder and sweep it through the ball to the other."""
    golf_place(canvas)
    angle = keyed(beat, (0.0, -2.5), (0.15, -2.5), (0.5, 2.5), (0.65, 2.5)).real
    x = GOLFER_X
    pelvis = complex(x + 0.016 * angle, STANDING + 0.03)
    pose = replace(
        upright(x), pelvis=pelvis, feet=(complex(x - 0.12, FOOT), complex(x + 0.12, FOOT)), lean=-0.08 * angle
    )
    hands = pose.neck + 0.06j + 0.2 * complex(math.sin(angle * 0.82), math.cos(angle * 0.82))
    pose = replace(pose, hands=(hands - 0.01, hands + 0.01))
    time = beat % 1
    if time < 0.32 or time > 0.8:
        canvas.disc(complex(x, GROUND - 0.02), 0.024, (255, 255, 255), outline=True)
    else:
        canvas.disc(
            complex(x, GROUND - 0.02) + complex(1.6, -0.9) * (time - 0.32), 0.024, (255, 255, 255), outline=True
        )
    draw_body(canvas, pose)
    props.club(canvas, hands, angle)
    draw_arms(canvas, pose)


GOLF_SWING = Scene(
    action="GolfSwing",
    place=places.golf_lawn,
    location="a green lawn with a sand patch",
    objects="a bag with golf clubs, a flag and a white ball",
    presence=(
        Take(
            golf_swing,
            "the club goes from over one shoulder past the ball to the other",
            "both hands grip the end of a long club",
            "both arms sweep down together and up to the other side",
        ),
    ),
    context_only=still(
        golf_place, GOLFER_X, "the clubs are all in the bag beside the person", "no club is held, the hands are empty"
    ),
    different_motion=beside(
        golf_place,
        GOLFER_X,
        "the person is a step away from the bag with the clubs",
        "the hands are empty and all clubs stay in the bag",
        (WAVE, STROLL, WINDMILL),
    ),
)


BENCH_X = 0.42
BAR = 0.6 + 0.38j


def weights(canvas: Canvas) -> None:
    """Draw the bench with the barbell on its rack."""
    props.rack(canvas, BAR.real)
    props.bench(canvas, BENCH_X)
    props.barbell(canvas, BAR)


def bench_press(canvas: Canvas, beat: float) -> None:
    """Lie on the bench and move the barbell from the chest to arm's length and back."""
    props.rack(canvas, BAR.real)
    props.bench(canvas, BENCH_X)
    height = 0.03 + 0.22 * lift(beat)
    middle = complex(BAR.real, 0.6 - height)
    pose = Pose(
        pelvis=complex(0.44, 0.645),
        hands=(middle - 0.02, middle + 0.03),
        feet=(complex(0.26, FOOT), complex(0.22, FOOT)),
        lean=math.pi / 2,
        width=SIDE,
        elbows=(1, 1),
        knees=(1, 1),
    )
    draw_body(canvas, pose)
    props.barbell(canvas, middle)
    draw_arms(canvas, pose)


def sit_on_bench(canvas: Canvas, beat: float) -> None:
    """Sit on the bench and swing one raised arm from side to side."""
    props.rack(canvas, BAR.real)
    props.barbell(canvas, BAR)
    props.bench(canvas, BENCH_X)
    x = BENCH_X + 0.06
    pelvis = complex(x, 0.655)
    pose = Pose(pelvis=pelvis, hands=(0, 0), feet=(complex(x - 0.1, FOOT), complex(x + 0.08, FOOT)))
    angle = math.pi + 0.2 + 0.8 * turn(beat)
    raised = pose.shoulders[0] + 0.235 * complex(math.sin(angle), math.cos(angle))
    draw_figure(canvas, replace(pose, hands=(raised, pelvis + 0.1)))


BENCH_PRESS = Scene(
    action="BenchPress",
    place=places.weight_room,
    location="a weight room with mirrors on a violet wall",
    objects="a padded bench and a barbell with two large plates",
    presence=(
        Take(
            bench_press,
            "the person lies on the bench under the barbell",
            "both hands hold the bar above the chest",
            "the arms stretch up and fold again with the weight",
        ),
    ),
    context_only=still(
        weights,
        0.2,
        "the barbell is on its rack, the person beside it",
        "nobody touches the barbell or lies on the bench",
    ),
    different_motion=(
        *beside(
            weights,
            0.2,
            "the bench is empty and the barbell is on its rack",
            "the hands stay off the barbell",
            (MARCH, STROLL),
        ),
        Take(
            sit_on_bench,
            "the person sits upright at the end of the bench",
            "the hips rest on the bench, the hands stay off the barbell",
            WAVE.phrase,
        ),
    ),
)

SPORT_SCENES = (BASKETBALL, ARCHERY, GOLF_SWING, BENCH_PRESS)
