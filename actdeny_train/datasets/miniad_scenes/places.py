"""Backgrounds, one for each scene, told apart by colour and by their big shapes. Drawn wider than the frame."""

from collections.abc import Callable

from actdeny_train.datasets.miniad_scenes.canvas import Canvas
from actdeny_train.datasets.miniad_scenes.look import Colour

LEFT, RIGHT, TOP, BOTTOM = -0.3, 1.3, -0.3, 1.3


def repeated(shift: float, spacing: float, draw: Callable[[float], None]) -> None:
    """Call ``draw`` with the x of every copy of something that stands every ``spacing`` and is shifted to the left."""
    x = LEFT - spacing - shift % spacing
    while x < RIGHT + spacing:
        draw(x)
        x += spacing


def floor_and_wall(canvas: Canvas, wall: Colour, floor: Colour, edge: float = 0.74) -> None:
    """Fill the frame with a wall above the height ``edge`` and a floor (or sky and ground) below it."""
    canvas.box(complex(LEFT, TOP), complex(RIGHT, edge), wall)
    canvas.box(complex(LEFT, edge), complex(RIGHT, BOTTOM), floor)


def living_room(canvas: Canvas, shift: float) -> None:
    """Warm wall with pictures, a sofa and a rug."""
    floor_and_wall(canvas, (244, 214, 176), (150, 104, 70))

    def picture(x: float) -> None:
        canvas.box(complex(x, 0.08), complex(x + 0.2, 0.26), (120, 80, 50))
        canvas.box(complex(x + 0.02, 0.1), complex(x + 0.18, 0.24), (160, 200, 210))

    repeated(shift, 0.5, picture)
    canvas.box(complex(LEFT, 0.56), complex(RIGHT, 0.76), (196, 120, 104))
    canvas.disc(complex(0.5, 0.93), 0.07, (226, 190, 120), squeeze=6)


def court(canvas: Canvas, shift: float) -> None:
    """Blue hall with a striped wall and a wooden floor with lines."""
    floor_and_wall(canvas, (98, 134, 190), (222, 166, 104))
    repeated(shift, 0.4, lambda x: canvas.box(complex(x, TOP), complex(x + 0.08, 0.6), (82, 116, 172)))
    canvas.box(complex(LEFT, 0.66), complex(RIGHT, 0.74), (236, 236, 236))
    canvas.line([complex(LEFT, 0.93), complex(RIGHT, 0.93)], 0.02, (245, 245, 240))


def street(canvas: Canvas, shift: float) -> None:
    """Houses under a pale sky and a grey road with a dashed line."""
    floor_and_wall(canvas, (190, 222, 244), (118, 120, 126), 0.72)

    def house(x: float) -> None:
        canvas.box(complex(x, 0.26), complex(x + 0.38, 0.72), (214, 186, 170))
        canvas.polygon([complex(x - 0.03, 0.27), complex(x + 0.41, 0.27), complex(x + 0.19, 0.08)], (170, 96, 84))
        canvas.box(complex(x + 0.05, 0.36), complex(x + 0.15, 0.5), (120, 150, 180))
        canvas.box(complex(x + 0.23, 0.36), complex(x + 0.33, 0.72), (130, 104, 96))

    repeated(shift, 0.5, house)
    repeated(shift, 0.25, lambda x: canvas.box(complex(x, 0.94), complex(x + 0.13, 0.965), (240, 240, 240)))


def meadow(canvas: Canvas, shift: float) -> None:
    """Dark trees behind a yellow-green meadow."""
    floor_and_wall(canvas, (206, 232, 226), (188, 196, 84), 0.66)

    def tree(x: float) -> None:
        canvas.polygon([complex(x - 0.14, 0.66), complex(x + 0.14, 0.66), complex(x, 0.12)], (70, 116, 84))

    repeated(shift, 0.25, tree)


def weight_room(canvas: Canvas, shift: float) -> None:
    """Violet wall with mirrors and a dark floor."""
    floor_and_wall(canvas, (150, 128, 176), (70, 66, 80))
    repeated(shift, 0.5, lambda x: canvas.box(complex(x, 0.08), complex(x + 0.36, 0.6), (186, 184, 214)))


def golf_lawn(canvas: Canvas, shift: float) -> None:
    """Light green hills under a blue sky, with a sand patch."""
    floor_and_wall(canvas, (140, 196, 240), (112, 196, 96), 0.6)
    repeated(shift, 0.7, lambda x: canvas.disc(complex(x, 0.66), 0.14, (90, 172, 84), squeeze=2.2))
    canvas.box(complex(LEFT, 0.66), complex(RIGHT, BOTTOM), (112, 196, 96))
    canvas.disc(complex(0.3, 0.72), 0.03, (236, 220, 160), squeeze=5)


def workshop(canvas: Canvas, shift: float) -> None:
    """Planks of dark wood and a shelf with boxes."""
    floor_and_wall(canvas, (176, 130, 88), (104, 92, 84), 0.78)
    repeated(shift, 0.16, lambda x: canvas.line([complex(x, TOP), complex(x, 0.78)], 0.012, (146, 104, 68)))
    canvas.box(complex(LEFT, 0.16), complex(RIGHT, 0.19), (110, 76, 50))
    repeated(shift, 0.32, lambda x: canvas.box(complex(x, 0.06), complex(x + 0.16, 0.16), (206, 180, 120)))


def dance_hall(canvas: Canvas, shift: float) -> None:
    """Pink wall with paper lanterns and a pale floor."""
    floor_and_wall(canvas, (244, 180, 200), (236, 222, 214))
    repeated(shift, 0.4, lambda x: canvas.disc(complex(x, 0.1), 0.06, (250, 232, 150)))
    canvas.box(complex(LEFT, 0.7), complex(RIGHT, 0.74), (214, 130, 160))


def kitchen(canvas: Canvas, shift: float) -> None:
    """Turquoise cupboards over a checkered floor."""
    floor_and_wall(canvas, (216, 238, 234), (232, 234, 236), 0.7)

    def cupboard(x: float) -> None:
        canvas.box(complex(x, 0.02), complex(x + 0.26, 0.24), (84, 176, 172))
        canvas.box(complex(x, 0.46), complex(x + 0.26, 0.7), (84, 176, 172))

    repeated(shift, 0.3, cupboard)
    for row, y in enumerate((0.7, 0.8, 0.9, 1.0)):
        for column in range(-2, 7):
            if (row + column) % 2:
                x = column * 0.2
                canvas.box(complex(x, y), complex(x + 0.2, y + 0.1), (176, 190, 200))


def playground(canvas: Canvas, shift: float) -> None:
    """Hedge, sky and sand."""
    floor_and_wall(canvas, (160, 214, 246), (232, 206, 146), 0.78)
    repeated(shift, 0.24, lambda x: canvas.disc(complex(x, 0.7), 0.13, (98, 160, 88)))
    canvas.box(complex(LEFT, 0.78), complex(RIGHT, BOTTOM), (232, 206, 146))


def wall_bar_gym(canvas: Canvas, shift: float) -> None:
    """Red brick gym wall with wooden wall bars."""
    floor_and_wall(canvas, (206, 112, 96), (212, 178, 130))

    def bars(x: float) -> None:
        for i in range(8):
            y = 0.06 + 0.08 * i
            canvas.line([complex(x, y), complex(x + 0.34, y)], 0.02, (240, 204, 150))
        for side in (x, x + 0.34):
            canvas.line([complex(side, 0.02), complex(side, 0.72)], 0.03, (214, 172, 112))

    repeated(shift, 0.5, bars)


def mat_room(canvas: Canvas, shift: float) -> None:
    """Bright room with round windows and a big blue mat on the floor."""
    floor_and_wall(canvas, (246, 240, 200), (206, 200, 190), 0.76)
    repeated(shift, 0.45, lambda x: canvas.disc(complex(x, 0.24), 0.11, (170, 206, 226)))
    canvas.polygon([0.02 + 0.8j, 0.98 + 0.8j, 1.08 + 0.97j, -0.08 + 0.97j], (52, 112, 196))


def roof(canvas: Canvas, shift: float) -> None:
    """Flat roof before dark towers and an evening sky."""
    floor_and_wall(canvas, (250, 170, 120), (170, 172, 180), 0.76)

    def towers(x: float) -> None:
        for left, top in ((x, 0.2), (x + 0.26, 0.4), (x + 0.5, 0.28)):
            canvas.box(complex(left, top), complex(left + 0.2, 0.76), (110, 90, 130))
            for y in (0.46, 0.58):
                canvas.box(complex(left + 0.05, y), complex(left + 0.15, y + 0.04), (250, 220, 140))

    repeated(shift, 0.75, towers)


def beach(canvas: Canvas, shift: float) -> None:
    """Blue sea, sand and palms."""
    floor_and_wall(canvas, (206, 236, 250), (244, 224, 168), 0.7)
    canvas.box(complex(LEFT, 0.46), complex(RIGHT, 0.7), (40, 140, 190))

    def palm(x: float) -> None:
        canvas.line([complex(x, 0.76), complex(x + 0.04, 0.26)], 0.03, (140, 100, 64))
        for leaf in (-0.16 + 0.05j, -0.1 - 0.08j, 0.08 - 0.08j, 0.15 + 0.04j):
            canvas.line([complex(x + 0.04, 0.26), complex(x + 0.04, 0.26) + leaf], 0.03, (60, 150, 80))

    repeated(shift, 0.75, palm)
