"""What varies between sources (their look) and between clips of one source (their shot), without meaning."""

from dataclasses import dataclass

from actdeny_train.draw import Draw

Colour = tuple[int, int, int]

SHIRTS: dict[str, Colour] = {
    "red": (214, 48, 49),
    "blue": (38, 84, 200),
    "green": (28, 140, 70),
    "yellow": (246, 196, 32),
    "purple": (128, 56, 170),
    "orange": (240, 120, 24),
    "white": (245, 245, 245),
    "pink": (246, 130, 176),
}
TROUSERS: tuple[Colour, ...] = ((36, 44, 84), (70, 60, 60), (28, 86, 92), (96, 40, 60), (52, 52, 60))
SKINS: tuple[Colour, ...] = ((250, 212, 180), (232, 180, 140), (190, 134, 94), (142, 94, 62), (106, 68, 46))
HAIRS: tuple[Colour, ...] = ((40, 28, 22), (94, 58, 28), (206, 160, 74), (20, 20, 24), (150, 70, 36))


@dataclass(frozen=True)
class Look:
    """Appearance of one source: the same person, place and camera in all its clips.

    ``shade`` in [-1, 1] varies the colour of the props. ``tint`` is added to the place's colours (of 255). ``layout`` in [0, 1)
    moves windows, trees and the like. ``zoom`` is a factor, ``offset`` in frame units.
    """

    shirt_name: str
    trousers: Colour
    skin: Colour
    hair: Colour
    shade: float
    tint: Colour
    layout: float
    mirror: bool
    zoom: float
    offset: complex

    @property
    def shirt(self) -> Colour:
        """Colour of the shirt."""
        return SHIRTS[self.shirt_name]

    def dye(self, colour: Colour) -> Colour:
        """Return a prop's colour as this source has it, up to 35 of 255 lighter or darker."""
        r, g, b = (min(255, max(0, v + round(35 * self.shade))) for v in colour)
        return r, g, b


@dataclass(frozen=True)
class Shot:
    """What differs between clips of one source. ``beat`` is where in its cycle the motion starts; ``rate`` is cycles per second."""

    beat: float
    rate: float
    zoom: float
    offset: complex


def draw_look(draw: Draw) -> Look:
    """Draw the look of a source."""
    return Look(
        shirt_name=draw.choice(tuple(SHIRTS)),
        trousers=draw.choice(TROUSERS),
        skin=draw.choice(SKINS),
        hair=draw.choice(HAIRS),
        shade=draw.uniform(-1, 1),
        tint=(draw.integer(33) - 16, draw.integer(33) - 16, draw.integer(33) - 16),
        layout=draw.uniform(),
        mirror=draw.choice((False, True)),
        zoom=draw.uniform(0.96, 1.06),
        offset=complex(draw.uniform(-0.03, 0.03), draw.uniform(-0.02, 0.03)),
    )


def draw_shot(draw: Draw) -> Shot:
    """Draw the shot of a clip."""
    return Shot(
        beat=draw.uniform(),
        rate=draw.uniform(0.85, 1.25),
        zoom=draw.uniform(0.97, 1.03),
        offset=complex(draw.uniform(-0.015, 0.015), draw.uniform(-0.01, 0.01)),
    )
