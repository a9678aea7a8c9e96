"""Drawings of chapter 04a, and the measurements of its broken models."""

from collections.abc import Sequence

from course_lib.models import load_backbone
from course_lib.notebook.style import COLORS, HEAT, INK, MUTED, CourseFigure
from course_lib.runtime import seed_everything
from course_lib.tasks.explain import attention_maps

import numpy as np
import paddle
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

LEFT = [  # from the text at the bottom to the predictions at the top
    ("房 间 很 大 ... (the text)", None),
    ("token ids", None),
    ("token + position + segment\nembeddings", 0),
    ("layer norm", 1),
    ("layer 1", 2),
    ("layers 2, 3, 4", 2),
    ("sequence_output:\none vector per token", None),
]
INSIDE = [
    ("vectors of the tokens", None),
    ("self-attention, 12 heads:\ntokens read each other", 0),
    ("add & layer norm", 1),
    ("feed-forward 384, 1536, 384:\neach token on its own", 2),
    ("add & layer norm", 1),
    ("vectors for the next layer", None),
]


def encoder_drawing() -> CourseFigure:
    """Draw the way of a text through the encoder, and one layer of it."""
    with CourseFigure(figsize=(8, 5)) as figure:
        left, right = figure.subplots(1, 2)
        tops = _stack(left, LEFT, "The encoder")
        left.annotate("heads: masked LM,\nclassifier, ...", (0, tops[-1]), (0, tops[-1] + 0.9),
                      ha="center", va="center", color=MUTED,
                      arrowprops={"arrowstyle": "<-", "color": MUTED})  # fmt: skip
        tops = _stack(right, INSIDE, "Inside one layer")
        for low, high in ((0, 2), (2, 4)):  # residual connections go around a part
            low_y, high_y = tops[low] + 0.12, tops[high] - 0.3
            way = [(0, low_y), (1.22, low_y), (1.22, high_y), (1.0, high_y)]
            right.plot(*zip(*way, strict=True), color=COLORS[1], linewidth=1.6, marker="")
            right.annotate("", (0.98, high_y), (1.22, high_y),
                           arrowprops={"arrowstyle": "->", "color": COLORS[1]})  # fmt: skip
            right.text(1.27, (low_y + high_y) / 2, "residual", color="#A84A00", rotation=90,
                       va="center")  # fmt: skip
        return figure.finish(
            "Left, from bottom to top: text, token ids, the sum of three embeddings, layer norm, "
            "four layers, one vector per token, heads. Right, inside a layer: self-attention, add "
            "and layer norm, feed-forward, add and layer norm; a residual goes around each part."
        )


def _stack(axes: Axes, parts: Sequence[tuple[str, int | None]], title: str) -> list[float]:
    """Draw boxes above each other, with arrows between them; return the height of each top."""
    tops: list[float] = []
    bottom = 0.0
    for text, color in parts:
        height = 0.42 + 0.26 * text.count("\n")
        face = "white" if color is None else ("#DCEBF5", "#FBEBD3", "#D9F0E8")[color]
        style = {"boxstyle": "round,pad=0.06", "facecolor": face, "edgecolor": "#AAAAAA"}
        axes.add_patch(FancyBboxPatch((-0.92, bottom), 1.84, height, **style))
        axes.text(0, bottom + height / 2, text, ha="center", va="center", color=INK)
        if tops:
            axes.annotate("", (0, bottom - 0.06), (0, tops[-1] + 0.06),
                          arrowprops={"arrowstyle": "->", "color": MUTED})  # fmt: skip
        tops.append(bottom + height)
        bottom += height + 0.42
    axes.set(xlim=(-1.2, 1.5), ylim=(-0.2, bottom + 0.75), title=title)
    axes.axis("off")
    return tops


def heads_drawing(
    weights: Sequence[np.ndarray], titles: Sequence[str], labels: Sequence[str]
) -> CourseFigure:
    """Show attention weights [tokens, tokens]: a row looks at the columns that are dark.

    Args:
        weights: one matrix per panel.
        titles: one per panel.
        labels: one per token; their translations are read from the first word on.
    """
    short = [label.split(" ")[0] for label in labels]
    with CourseFigure(figsize=(1.4 + 3 * len(weights), 3.9)) as figure:
        panels = np.ravel(figure.subplots(1, len(weights), sharey=True))
        for axes, matrix, title in zip(panels, weights, titles, strict=True):
            axes.imshow(matrix, cmap=HEAT, vmin=0, vmax=1)
            axes.set_xticks(range(len(short)), short, fontsize=7)
            axes.set_title(title, fontsize=10)
            axes.tick_params(length=0, labelcolor=INK)
            axes.spines[:].set_visible(False)
            axes.set_xlabel("is looked at")
        panels[0].set_yticks(range(len(labels)), labels, fontsize=8)
        panels[0].set_ylabel("this token looks")
        peaks = [f"{title}: mean of the largest weights {matrix.max(axis=1).mean():.2f}"
                 for title, matrix in zip(titles, weights, strict=True)]  # fmt: skip
        return figure.finish(f"Attention weights of {len(labels)} tokens. {'; '.join(peaks)}.")


def look_drawing(maps: np.ndarray, labels: Sequence[str], place: int) -> CourseFigure:
    """Show where one token looks: a row per head, a column per token.

    Args:
        maps: attention weights of one layer [heads, tokens, tokens].
        place: of the token that looks.
    """
    rows = np.vstack([maps[:, place], maps[:, place].mean(axis=0)])
    with CourseFigure(figsize=(7.8, 4.6)) as figure:
        axes = figure.subplots()
        axes.imshow(rows, cmap=HEAT, vmin=0, vmax=1, aspect="auto")
        for (row, column), value in np.ndenumerate(rows):
            if value >= 0.095:
                color = "white" if value > 0.55 else INK
                axes.text(column, row, f"{value:.0%}", ha="center", va="center", color=color,
                          fontsize=8)  # fmt: skip
        names = [f"head {head}" for head in range(1, len(maps) + 1)]
        axes.set_yticks(range(len(rows)), [*names, "mean"])
        axes.set_xticks(range(len(labels)), [label.replace(" ", "\n") for label in labels])
        axes.get_xticklabels()[place].set_color(COLORS[1])
        axes.tick_params(length=0, labelcolor=INK, labelsize=8)
        axes.get_xticklabels()[place].set(color=COLORS[1], fontsize=10)
        axes.axhline(len(maps) - 0.5, color="white", linewidth=3, marker="")
        axes.spines[:].set_visible(False)
        axes.set_title(f"Where {labels[place]} (place {place}) looks in layer 1")
        best = rows.argmax(axis=1)
        seen = [f"{name} {labels[i]} {row[i]:.0%}" for name, i, row in
                zip([*names, "mean"], best, rows, strict=True)]  # fmt: skip
        return figure.finish(f"{labels[place]} looks most at: {', '.join(seen)}.")


def broken_models() -> pd.DataFrame:
    """Measure an intact encoder and four broken ones, A to D, on the same three questions.

    Returns:
        A row per model, with the columns "same text twice" and "[PAD] added" (largest change of
        the vectors when the text is read again, and with ten [PAD] behind it), "狗咬人, 人咬狗"
        (largest difference of the two sentences' mean vectors), and "largest weight" (mean over
        heads and tokens of the largest attention weight).
    """
    rows = {}
    for name in ("intact", "A", "B", "C", "D"):
        dropout = 0.1 if name == "B" else 0.0
        seed_everything(42)
        model, tokenizer = load_backbone(
            hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout
        )
        encoder = model.ernie
        if name != "B":
            encoder.eval()
        if name == "C":
            weight = encoder.embeddings.position_embeddings.weight
            weight.set_value(paddle.zeros_like(weight))
        if name == "D":
            for layer in encoder.encoder.layers:
                for parameter in layer.self_attn.q_proj.parameters():
                    parameter.set_value(parameter * layer.self_attn.head_dim**0.5)
        rows[name] = _symptoms(encoder, tokenizer, masked=name != "A")
    return pd.DataFrame(rows).T


def _symptoms(encoder: paddle.nn.Layer, tokenizer, masked: bool) -> dict[str, float]:
    def read(text: str, padding: int = 0) -> np.ndarray:
        ids = paddle.to_tensor([tokenizer(text)["input_ids"] + [tokenizer.pad_token_id] * padding])
        mask = None if masked else paddle.zeros([1, 1, 1, ids.shape[1]])  # 0: may be looked at
        with paddle.no_grad():
            return encoder(ids, attention_mask=mask)[0][0].numpy()[: ids.shape[1] - padding]

    text = "房间很大，早餐也很好吃。"
    first, again, padded = read(text), read(text), read(text, padding=10)
    dog, man = (read(each).mean(axis=0) for each in ("狗咬人", "人咬狗"))
    maps = attention_maps(encoder, paddle.to_tensor([tokenizer(text)["input_ids"]]))
    return {
        "same text twice": float(abs(first - again).max()),
        "[PAD] added": float(abs(first - padded).max()),
        "狗咬人, 人咬狗": float(abs(dog - man).max()),
        "largest weight": float(maps.max(axis=-1).mean()),
    }
