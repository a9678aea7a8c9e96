"""Labels beside the points of a picture that cover neither points nor each other."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.transforms import Bbox

SIDES = [(5, 0), (-5, 0), (0, 5), (0, -5), (4, 4), (-4, 4), (4, -4), (-4, -4)]  # points (1/72 inch)


def write_beside(axes: Axes, places: np.ndarray, texts: Iterable[str], size: float = 6.5) -> None:
    """Write each text beside its place, on the side where it covers least of what is there.

    Args:
        places: float [texts, 2], in the units of the axes, which are drawn already.
    """
    axes.figure.canvas.draw()  # the layout, and with it the scale, is settled on drawing
    spots = axes.transData.transform(places)
    taken = [Bbox.from_extents(x - 4, y - 4, x + 4, y + 4) for x, y in spots]  # the markers
    looks = []
    for x, y in SIDES:
        aligned = {"ha": ("center", "left", "right")[np.sign(x)]}
        aligned["va"] = ("center", "bottom", "top")[np.sign(y)]
        looks.append({"xytext": (x, y), "fontsize": size, **aligned})
    for place, text in zip(places, texts, strict=True):
        write_clear(axes, text, place, looks, taken)


def write_clear(
    axes: Axes,
    text: str,
    place: tuple[float, float] | np.ndarray,
    looks: Iterable[dict],
    taken: list[Bbox],
    shrink: float = 0,
    outside: float = 0,
) -> None:
    """Write a text at a place in that one of several looks which covers least of what is there.

    Args:
        place: in the units of the axes, which are drawn already.
        looks: keywords of `Axes.annotate`; "xytext" is in points from the place.
        taken: what is there, in pixels; the box of the text is added.
        shrink: pixels on each side by which a text's box is larger than what is drawn.
        outside: how much worse it is to leave the axes than to cover something.
    """
    tried = []
    for look in looks:
        note = axes.annotate(text, place, textcoords="offset points", **look)
        box = note.get_window_extent().padded(-shrink)
        cost = sum(_area(Bbox.intersection(box, other)) for other in taken)
        cost += outside * (_area(box) - _area(Bbox.intersection(box, axes.bbox)))
        tried.append((cost, note, box))
    _, chosen, box = min(tried, key=lambda one: one[0])
    for _, note, _ in tried:
        if note is not chosen:
            note.remove()
    taken.append(box)


def _area(box: Bbox | None) -> float:
    return box.width * box.height if box else 0.0
