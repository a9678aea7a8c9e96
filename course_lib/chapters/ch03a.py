"""The picture of chapter 03a: from a file to a batch."""

from collections.abc import Sequence

from course_lib.notebook.style import COLORS, INK, MUTED, CourseFigure, drawable

from matplotlib.patches import FancyBboxPatch


def pipeline_flow(
    stages: Sequence[tuple[str, str]],
    calls: Sequence[str],
    side: tuple[str, str, int] | None = None,
) -> CourseFigure:
    """Show the forms that data take: a box for each form, an arrow for each call between two.

    Args:
        stages: (name, example of its content), in order; the content may have several lines.
        calls: what turns each stage into the next, one less than stages.
        side: (name, content, number of the call that it steers): a box below that arrow.
    """
    width, gap, height = 1.8, 1.15, 1.15
    right = len(stages) * (width + gap) - gap
    low = -2.3 if side else -0.7
    box = {"boxstyle": "round,pad=0.02,rounding_size=0.08", "linewidth": 1.2}
    arrow = {"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 0}
    # One unit is 0.65 inches in both directions, so boxes keep their shape.
    with CourseFigure(figsize=(0.65 * (right + 0.2), 0.65 * (0.7 - low))) as figure:
        axes = figure.subplots()
        axes.set(xlim=(-0.1, right + 0.1), ylim=(low, 0.7), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)

        def draw(x: float, y: float, name: str, content: str, color: str) -> None:
            corner = (x - width / 2, y - height / 2)
            style = {**box, "edgecolor": color, "facecolor": "white"}
            axes.add_patch(FancyBboxPatch(corner, width, height, **style))
            text = {"ha": "center", "fontsize": 8}
            axes.text(x, y + 0.36, name, color=color, va="center", **text)
            content = "\n".join(drawable(line) for line in content.splitlines())
            axes.text(x, y - 0.14, content, color=INK, va="center", **text)

        for number, (name, content) in enumerate(stages):
            x = width / 2 + number * (width + gap)
            draw(x, 0, name, content, COLORS[0])
            if number:
                middle = x - (width + gap) / 2
                ends = {"xy": (x - width / 2, 0), "xytext": (x - width / 2 - gap, 0)}
                axes.annotate("", **ends, arrowprops=arrow)
                call = {"ha": "center", "va": "bottom", "fontsize": 8, "color": "#A84A00"}
                axes.text(middle, 0.08, calls[number - 1], **call)
        if side:
            name, content, number = side
            x = (number + 1) * (width + gap) - gap / 2
            draw(x, -1.65, name, content, "#007A59")
            ends = {"xy": (x, -0.04), "xytext": (x, -1.65 + height / 2)}
            axes.annotate("", **ends, arrowprops={**arrow, "color": "#007A59"})
        steps = "; ".join(
            f"{call} makes {name}"
            for call, (name, _) in zip(
                (call.replace("\n", " ") for call in calls), stages[1:], strict=True
            )
        )
        alt = f"Boxes and arrows. It begins with {stages[0][0]}; {steps}."
        if side:
            alt += f" {side[0]} steers {calls[side[2]]}."
        return figure.finish(alt)
