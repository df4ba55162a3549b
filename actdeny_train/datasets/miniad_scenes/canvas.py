"""A canvas in frame units: points are complex numbers, x to the right and y down, (0, 0) to (1, 1) over the frame."""

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from actdeny_train.datasets.miniad_scenes.look import Colour, Look, Shot

GROUND = 0.87
"""Height (y) of the floor under a figure's feet; zooming leaves it where it is."""

OUTLINE: Colour = (30, 28, 34)

SUPERSAMPLE = 2
"""Times that a frame is drawn larger than it is, for smooth edges. 3 costs twice the time and looks the same at 112 px."""


class Canvas:
    """One frame, drawn at ``SUPERSAMPLE`` times its size and then scaled down.

    The camera (zoom, offset, mirror) comes from a source's look and a clip's shot; shapes are given in scene units.
    """

    def __init__(self, size_px: int, look: Look, shot: Shot) -> None:
        self.size_px = size_px
        self.look = look
        self._side = size_px * SUPERSAMPLE
        self._zoom = look.zoom * shot.zoom
        self._offset = look.offset + shot.offset
        self._image = Image.new("RGB", (self._side, self._side))
        self._pen = ImageDraw.Draw(self._image)

    def backdrop(self) -> Image.Image:
        """Return a copy of what was drawn so far, at drawing size, with the source's tint."""
        bands = self._image.split()
        tinted = [
            band.point([min(255, max(0, v + t)) for v in range(256)])
            for band, t in zip(bands, self.look.tint, strict=True)
        ]
        return Image.merge("RGB", tinted)

    def start_from(self, backdrop: Image.Image) -> None:
        """Replace everything drawn by a backdrop."""
        self._image.paste(backdrop)

    def pixels(self) -> npt.NDArray[np.uint8]:
        """Return the frame, (size_px, size_px, 3) uint8."""
        return np.asarray(self._image.resize((self.size_px, self.size_px), Image.Resampling.BOX))

    def polygon(self, points: list[complex], colour: Colour) -> None:
        """Fill a polygon."""
        self._pen.polygon([self._place(p) for p in points], fill=colour)

    def box(self, corner: complex, opposite: complex, colour: Colour) -> None:
        """Fill an upright rectangle between two opposite corners."""
        across = complex(opposite.real, corner.imag)
        down = complex(corner.real, opposite.imag)
        self.polygon([corner, across, opposite, down], colour)

    def line(self, points: list[complex], width: float, colour: Colour, outline: bool = False) -> None:
        """Draw a polyline with round joints and ends, with a dark rim if ``outline``."""
        if outline:
            self.line(points, width + 0.016, OUTLINE)
        places = [self._place(p) for p in points]
        thickness = self._length(width)
        self._pen.line(places, fill=colour, width=max(1, round(thickness)))
        for x, y in places:
            r = thickness / 2
            self._pen.ellipse((x - r, y - r, x + r, y + r), fill=colour)

    def disc(self, centre: complex, radius: float, colour: Colour, outline: bool = False, squeeze: float = 1.0) -> None:
        """Fill a circle; ``squeeze`` is its width over its height."""
        if outline:
            self.disc(centre, radius + 0.008, OUTLINE, squeeze=squeeze)
        (x, y), ry = self._place(centre), self._length(radius)
        rx = ry * squeeze
        self._pen.ellipse((x - rx, y - ry, x + rx, y + ry), fill=colour)

    def ring(
        self, centre: complex, radii: complex, tilt: float, width: float, colour: Colour, part: str = "all"
    ) -> None:
        """Draw an ellipse's line; ``part`` "back" or "front" draws only its upper or lower half as seen untilted."""
        first, last = {"all": (0.0, 2.0), "front": (0.0, 1.0), "back": (1.0, 2.0)}[part]
        angles = np.linspace(first * np.pi, last * np.pi, 49)
        turn = complex(np.cos(tilt), np.sin(tilt))

        def band(thickness: float) -> list[complex]:
            inner, outer = (radii + side * thickness * (0.5 + 0.5j) for side in (-1, 1))
            there = [centre + turn * complex(outer.real * np.cos(a), outer.imag * np.sin(a)) for a in angles]
            back = [centre + turn * complex(inner.real * np.cos(a), inner.imag * np.sin(a)) for a in angles[::-1]]
            return there + back

        self.polygon(band(width + 0.016), OUTLINE)
        self.polygon(band(width), colour)

    def _place(self, p: complex) -> tuple[float, float]:
        x = 0.5 + (p.real - 0.5) * self._zoom + self._offset.real
        y = GROUND + (p.imag - GROUND) * self._zoom + self._offset.imag
        return (1 - x if self.look.mirror else x) * self._side, y * self._side

    def _length(self, length: float) -> float:
        return length * self._zoom * self._side
