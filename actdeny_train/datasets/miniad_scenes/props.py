"""Things that figures hold, sit on or stand beside. Big: a prop of a few pixels is not learned by a small model."""

import cmath
import math

from actdeny_train.datasets.miniad_scenes.canvas import GROUND, OUTLINE, Canvas
from actdeny_train.datasets.miniad_scenes.look import Colour

WOOD: Colour = (196, 132, 66)
STEEL: Colour = (150, 156, 166)
DARK: Colour = (62, 60, 70)


def guitar(canvas: Canvas, body: complex, angle: float) -> None:
    """Draw a guitar: ``body`` is the sound hole, ``angle`` where its neck points (0 right, negative up)."""
    along = cmath.rect(1, angle)
    colour = canvas.look.dye((206, 112, 40))
    canvas.line([body, body + 0.42 * along], 0.035, (92, 60, 40), outline=True)
    canvas.line([body + 0.4 * along, body + 0.46 * along], 0.055, (60, 42, 34), outline=True)
    for outline in (True, False):
        canvas.disc(body + 0.07 * along, 0.085, colour, outline=outline)
        canvas.disc(body - 0.06 * along, 0.115, colour, outline=outline)
    canvas.disc(body + 0.02 * along, 0.04, DARK)
    canvas.line([body - 0.1 * along, body + 0.4 * along], 0.01, (240, 230, 210))


def guitar_stand(canvas: Canvas, x: float) -> None:
    """Draw a low stand with two legs at x."""
    for side in (-0.09, 0.09):
        canvas.line([complex(x, 0.62), complex(x + side, GROUND)], 0.025, DARK)


def basket(canvas: Canvas, x: float) -> complex:
    """Draw a pole with a board and a ring, the ring to its left; return the ring's middle."""
    canvas.line([complex(x + 0.1, GROUND), complex(x + 0.1, 0.16)], 0.04, DARK)
    canvas.box(complex(x + 0.03, 0.02), complex(x + 0.08, 0.3), (250, 250, 250))
    canvas.line([complex(x + 0.08, 0.02), complex(x + 0.08, 0.3)], 0.015, (200, 60, 50))
    rim = complex(x - 0.06, 0.27)
    for side in (-0.09, -0.03, 0.03, 0.09):
        canvas.line([rim + side, rim + 0.6 * side + 0.14j], 0.012, (250, 250, 250))
    canvas.line([rim - 0.1, rim + 0.1], 0.03, (236, 80, 30), outline=True)
    return rim


def basketball(canvas: Canvas, centre: complex) -> None:
    """Draw a basketball."""
    canvas.disc(centre, 0.068, canvas.look.dye((232, 122, 36)), outline=True)
    canvas.line([centre - 0.06, centre + 0.06], 0.01, (70, 40, 30))
    canvas.line([centre - 0.06j, centre + 0.06j], 0.01, (70, 40, 30))


def bicycle(canvas: Canvas, hub: complex, beat: float) -> complex:
    """Draw a bicycle heading right whose cranks turn once a beat; ``hub`` is the rear wheel's. Return the cranks' middle."""
    front, crank = hub + 0.42, hub + 0.19
    saddle, bar = hub + 0.13 - 0.21j, hub + 0.35 - 0.24j
    for wheel in (hub, front):
        canvas.ring(wheel, 0.135 + 0.135j, 0.0, 0.022, DARK)
        for spoke in range(4):
            arm = cmath.rect(0.125, 2 * math.pi * (beat + spoke / 8))
            canvas.line([wheel - arm, wheel + arm], 0.008, (214, 214, 218))
    frame = canvas.look.dye((200, 40, 60))
    for tube in (
        [hub, crank, bar + 0.02j, front],
        [hub, saddle, crank],
        [saddle + 0.06j, bar + 0.05j],
        [bar + 0.02j, bar - 0.03j, bar + 0.05 - 0.03j],
    ):
        canvas.line(tube, 0.024, frame, outline=True)
    canvas.line([saddle - 0.05, saddle + 0.05], 0.035, DARK)
    return crank


def target(canvas: Canvas, centre: complex) -> None:
    """Draw a round target on two legs."""
    for side in (-0.1, 0.1):
        canvas.line([centre, complex(centre.real + side, GROUND)], 0.03, WOOD)
    for radius, colour in ((0.2, (245, 245, 245)), (0.15, (40, 90, 190)), (0.1, (220, 50, 50)), (0.05, (250, 220, 60))):
        canvas.disc(centre, radius, colour, outline=radius == 0.2, squeeze=0.5)


def bow(canvas: Canvas, grip: complex, nock: complex) -> None:
    """Draw a tall bow held at ``grip`` whose string is drawn to ``nock``."""
    tips = [grip + complex(-0.09, s * 0.23) for s in (-1, 1)]
    canvas.line([tips[0], nock, tips[1]], 0.012, (245, 245, 235))
    curve = [grip + complex(-0.09 * t * t, 0.23 * t) for t in (-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1)]
    canvas.line(curve, 0.026, canvas.look.dye((150, 70, 30)), outline=True)


def arrow(canvas: Canvas, nock: complex) -> None:
    """Draw a level arrow that points right."""
    canvas.line([nock, nock + 0.24], 0.016, (70, 50, 40))
    canvas.polygon([nock + 0.29, nock + 0.22 - 0.03j, nock + 0.22 + 0.03j], (40, 40, 46))
    canvas.line([nock, nock + 0.05], 0.04, (240, 70, 60))


def barbell(canvas: Canvas, middle: complex) -> None:
    """Draw a level barbell with two large plates."""
    canvas.line([middle - 0.33, middle + 0.33], 0.024, STEEL, outline=True)
    for side in (-0.27, 0.27):
        canvas.disc(middle + side, 0.11, canvas.look.dye((60, 62, 74)), outline=True, squeeze=0.35)
        canvas.disc(middle + side, 0.04, (230, 190, 60), squeeze=0.35)


def bench(canvas: Canvas, x: float) -> None:
    """Draw a padded bench, 0.4 long with its left end at x."""
    for leg in (x + 0.06, x + 0.34):
        canvas.line([complex(leg, 0.72), complex(leg, GROUND)], 0.035, STEEL, outline=True)
    canvas.line([complex(x + 0.02, 0.7), complex(x + 0.38, 0.7)], 0.05, canvas.look.dye((190, 60, 60)), outline=True)


def rack(canvas: Canvas, x: float) -> None:
    """Draw two uprights with forks for a barbell whose middle is at x."""
    for side in (-0.17, 0.17):
        canvas.line([complex(x + side, 0.4), complex(x + side, GROUND)], 0.03, (214, 190, 70), outline=True)


def golf_bag(canvas: Canvas, x: float) -> None:
    """Draw a tall bag with the heads of clubs above it."""
    for side in (-0.06, 0.0, 0.06):
        head = complex(x + side, 0.37)
        canvas.line([complex(x + 0.3 * side, 0.56), head, head + 0.035 - 0.02j], 0.024, STEEL, outline=True)
    for colour, rim in ((OUTLINE, 0.01), (canvas.look.dye((200, 50, 120)), 0.0)):
        left, right = complex(x - 0.07 - rim, 0.52 - rim), complex(x + 0.07 + rim, 0.52 - rim)
        canvas.polygon([left, right, complex(right.real - 0.02, GROUND), complex(left.real + 0.02, GROUND)], colour)


def flag(canvas: Canvas, x: float) -> None:
    """Draw the flag of a hole."""
    canvas.line([complex(x, 0.7), complex(x, 0.24)], 0.018, (250, 250, 250))
    canvas.polygon([complex(x, 0.24), complex(x + 0.17, 0.3), complex(x, 0.37)], (230, 50, 40))


def club(canvas: Canvas, hands: complex, angle: float) -> None:
    """Draw a club held at ``hands``; ``angle`` is 0 for a shaft that hangs down, positive to the right."""
    along = complex(math.sin(angle), math.cos(angle))
    head = hands + 0.3 * along
    canvas.line([hands - 0.04 * along, head], 0.028, (225, 228, 234), outline=True)
    canvas.line([head, head - 0.09j * along], 0.06, DARK, outline=True)


def hammer(canvas: Canvas, hand: complex, angle: float) -> None:
    """Draw a big hammer held at ``hand``; ``angle`` is where its handle points (0 right, negative up)."""
    along = cmath.rect(1, angle)
    head = hand + 0.2 * along
    canvas.line([hand - 0.04 * along, head], 0.028, WOOD, outline=True)
    for colour, rim in ((OUTLINE, 0.008), (canvas.look.dye(STEEL), 0.0)):
        corners = ((-0.045, -0.1), (0.045, -0.1), (0.045, 0.1), (-0.045, 0.1))
        grow = 1 + rim / 0.045
        canvas.polygon([head + along * complex(x * grow, y * (1 + rim / 0.1)) for x, y in corners], colour)


def workbench(canvas: Canvas, x: float, nail: float) -> complex:
    """Draw a bench with a block and a thick nail standing ``nail`` out of it, its middle at x; return the nail's top."""
    for side in (-0.17, 0.17):
        canvas.line([complex(x + side, 0.66), complex(x + side, GROUND)], 0.05, (120, 80, 46), outline=True)
    canvas.line([complex(x - 0.2, 0.66), complex(x + 0.2, 0.66)], 0.05, (150, 100, 60), outline=True)
    canvas.box(complex(x - 0.1, 0.56), complex(x + 0.1, 0.645), (236, 206, 150))
    top = complex(x, 0.56 - nail)
    canvas.line([top, complex(x, 0.56)], 0.024, (90, 94, 104))
    canvas.line([top - 0.03, top + 0.03], 0.024, (90, 94, 104))
    return top


def hoop(canvas: Canvas, centre: complex, radii: complex, tilt: float = 0.0, part: str = "all") -> None:
    """Draw a thick coloured hoop as an ellipse."""
    canvas.ring(centre, radii, tilt, 0.034, canvas.look.dye((40, 190, 90)), part)


def mop(canvas: Canvas, top: complex, head: complex) -> None:
    """Draw a mop from the top of its stick to its wide fringe."""
    along = (head - top) / abs(head - top)
    canvas.line([top, head], 0.026, canvas.look.dye((210, 150, 70)), outline=True)
    for side in (-0.11, -0.055, 0.0, 0.055, 0.11):
        canvas.line([head, head + complex(side, 0.0) + 0.07 * along], 0.045, (250, 250, 236), outline=True)
    for side in (-0.11, -0.055, 0.0, 0.055, 0.11):
        canvas.line([head, head + complex(side, 0.0) + 0.07 * along], 0.045, (250, 250, 236))


def bucket(canvas: Canvas, middle: complex) -> None:
    """Draw a bucket."""
    canvas.ring(middle - 0.08j, 0.09 + 0.09j, 0.0, 0.012, STEEL, "back")
    canvas.polygon([middle + d for d in (-0.11 - 0.09j, 0.11 - 0.09j, 0.08 + 0.1j, -0.08 + 0.1j)], DARK)
    canvas.polygon(
        [middle + d for d in (-0.095 - 0.08j, 0.095 - 0.08j, 0.07 + 0.09j, -0.07 + 0.09j)],
        canvas.look.dye((230, 60, 60)),
    )


def swing_frame(canvas: Canvas) -> complex:
    """Draw a tall frame with splayed legs; return where the chains hang."""
    bar = 0.5 + 0.07j
    for side in (-0.36, 0.36):
        canvas.line(
            [bar + 0.55 * side, complex(0.5 + side, GROUND)], 0.045, canvas.look.dye((220, 70, 60)), outline=True
        )
    canvas.line([bar - 0.2, bar + 0.2], 0.05, canvas.look.dye((220, 70, 60)), outline=True)
    return bar


def swing_seat(canvas: Canvas, bar: complex, angle: float) -> complex:
    """Draw chains and a seat at an angle from the plumb line (positive to the right); return the seat's middle."""
    along = complex(math.sin(angle), math.cos(angle))
    seat = bar + 0.58 * along
    canvas.line([bar, seat], 0.02, (90, 90, 100))
    canvas.line([seat - 0.08j * along, seat + 0.08j * along], 0.045, (60, 50, 150), outline=True)
    return seat
