"""What the figures of data/README.md have in common: intervals and Markdown tables."""

from __future__ import annotations

import math


def wilson(count: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson score interval of the share count / total; 95% at the default z."""
    share = count / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total)
    half *= math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return centre - half, centre + half


def markdown_table(header: list[str], rows: list[list]) -> str:
    """A table whose first column is aligned left, the others right; 1234 is written 1,234."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(
        "| " + " | ".join(f"{c:,}" if isinstance(c, int) else str(c) for c in line) + " |"
        for line in lines
    )
