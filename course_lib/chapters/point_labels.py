"""Labels beside the points of a map that cover neither points nor each other."""

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
    for place, text in zip(places, texts, strict=True):
        tried = []
        for x, y in SIDES:
            aligned = {"ha": ("center", "left", "right")[np.sign(x)]}
            aligned["va"] = ("center", "bottom", "top")[np.sign(y)]
            offset = {"xytext": (x, y), "textcoords": "offset points"}
            note = axes.annotate(text, place, fontsize=size, **offset, **aligned)
            box = note.get_window_extent()
            common = filter(None, (Bbox.intersection(box, other) for other in taken))
            tried.append((sum(one.width * one.height for one in common), note, box))
        _, chosen, box = min(tried, key=lambda one: one[0])
        for _, note, _ in tried:
            if note is not chosen:
                note.remove()
        taken.append(box)
