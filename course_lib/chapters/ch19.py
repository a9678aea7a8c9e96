"""Chapter 19: a tagger with a CRF against one without, and the chapter's figures."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from course_lib.models import freeze_layers, suggested_learning_rate
from course_lib.models.patches import quiet_paddlenlp
from course_lib.notebook.style import (
    COLORS,
    INK,
    MUTED,
    NEGATIVE,
    POSITIVE,
    CourseFigure,
    drawable,
)
from course_lib.runtime import seed_everything
from course_lib.tasks.tagging import (
    BackboneTagger,
    Crf,
    entity_scores,
    predict_tags,
    train_tagger,
)
from course_lib.training import span_counts

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle
from paddlenlp.transformers import AutoModelForTokenClassification, AutoTokenizer


def short(
    dataset: Sequence[dict[str, Any]], count: int | None, longest: int = 64
) -> list[dict[str, Any]]:
    """The first `count` examples of at most `longest` tokens, all of them for None."""
    return [example for example in dataset if len(example["tokens"]) <= longest][:count]


class CrfComparison(NamedTuple):
    """What `compare_crf` returns; the keys are "without" and "with" a CRF.

    Attributes:
        scores: one row each, columns precision, recall, f1, right, found, true, broken.
        counts: int64 [sentences, 3] each: right, found and true entities of each sentence of dev,
            for `paired_bootstrap_f1`; those of several seeds may be added.
        losses: of each training step, in nats per token.
        taggers: as trained.
    """

    scores: pd.DataFrame
    counts: dict[str, np.ndarray]
    losses: dict[str, list[float]]
    taggers: dict[str, BackboneTagger]


def compare_crf(
    train: Sequence[Mapping[str, Any]],
    dev: Sequence[Mapping[str, Any]],
    label_list: Sequence[str],
    backbone: str | os.PathLike,
    seed: int = 42,
    learning_rate: float | None = None,
    frozen_layers: int = 0,
    **settings: Any,
) -> CrfComparison:
    """Train a pretrained encoder twice from the same seed, without a CRF and with one.

    Both start with the same random weights of the head and see the same sentences in the same
    order with the same dropout; the transitions start at 0. So only the CRF differs.

    Args:
        train, dev: examples `{"tokens": list[str], "labels": list[int]}`.
        label_list: names of the labels: O, B-X, I-X, B-Y, ... in any order.
        backbone: a directory or a name of PaddleNLP's hub.
        learning_rate: None takes the backbone's suggestion.
        frozen_layers: of the encoder, the lowest ones; see `freeze_layers`.
        settings: of `train_tagger`, such as epochs, batch_size, max_length, max_steps.
    """
    true = [example["labels"] for example in dev]
    result = CrfComparison(pd.DataFrame(), {}, {}, {})
    rows = {}
    for name, crf in (("without", False), ("with", True)):
        seed_everything(seed)  # the head's weights
        with quiet_paddlenlp():
            model = AutoModelForTokenClassification.from_pretrained(
                str(backbone), num_classes=len(label_list), ignore_mismatched_sizes=True
            )
            tokenizer = AutoTokenizer.from_pretrained(str(backbone))
        freeze_layers(model, frozen_layers)
        tagger = BackboneTagger(model, tokenizer, label_list, crf)
        rate = learning_rate or suggested_learning_rate(model)
        result.losses[name] = train_tagger(tagger, train, learning_rate=rate, seed=seed, **settings)
        predicted = predict_tags(tagger, [example["tokens"] for example in dev])
        rows[name] = entity_scores(tagger, dev, predicted)["all"]
        result.counts[name] = span_counts(true, predicted, label_list).sum(axis=1)
        result.taggers[name] = tagger
    return result._replace(scores=pd.DataFrame(rows).T)


def rule_crf(label_list: Sequence[str]) -> Crf:
    """A CRF that is not trained: 0, but -10,000 from a label to an I-X that continues no X.

    (The first label of a sentence has no label before it: it may still be an I-.)
    """
    inside = np.array([label.startswith("I-") for label in label_list])
    same = np.array([[one[1:] == other[1:] for other in label_list] for one in label_list])
    crf = Crf(len(label_list))
    crf.transitions.set_value(np.where(inside & ~same, -1e4, 0).astype("float32"))
    return crf


def entity_text(
    texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int, str]]], row: int = 30
) -> CourseFigure:
    """Draw texts with their entities on colored ground, the type below each.

    Args:
        texts: one below the other.
        spans: (first, end, type) of each text, end excluded; they do not overlap.
        row: Chinese characters per line.
    """
    kinds = list(dict.fromkeys(kind for own in spans for _, _, kind in own))
    places, line, widest = [], 0, 1.0
    for text in texts:
        x, own = 0.0, []
        for character in text:
            width = 1.0 if ord(character) > 0x2E7F else 0.6
            if x and x + width > row:
                line, x = line + 1, 0.0
            own.append((x, line, width))
            x += width
            widest = max(widest, x)
        places.append(own)
        line += 1
    with CourseFigure(figsize=(8.4, 0.62 * line + 0.35)) as figure:
        axes = figure.subplots()
        for text, own, marks in zip(texts, places, spans, strict=True):
            for first, end, kind in marks:
                color = COLORS[kinds.index(kind) % len(COLORS)]
                for at in range(first, end):
                    x, y, width = own[at]
                    box = Rectangle((x, y), width, 0.55, facecolor=color, alpha=0.3, linewidth=0)
                    axes.add_patch(box)
                x, y, _ = own[first]
                axes.text(x, y + 0.75, drawable(kind, 12), fontsize=7.5, color=MUTED, va="center")
            for character, (x, y, width) in zip(text, own, strict=True):
                style = {"ha": "center", "va": "center", "fontsize": 12}
                axes.text(x + width / 2, y + 0.3, drawable(character), **style)
        axes.set(xlim=(-0.1, max(row, widest) + 0.1), ylim=(line, -0.1))
        axes.set_axis_off()
        found = [
            f"{text[first:end]} ({kind})"
            for text, marks in zip(texts, spans, strict=True)
            for first, end, kind in marks
        ]
        return figure.finish(f"{len(texts)} texts. Marked: {', '.join(found) or 'nothing'}.")


def transition_map(
    transitions: Sequence[Sequence[float]], labels: Sequence[str], title: str = "Transitions"
) -> CourseFigure:
    """Show the scores that a CRF gives to each label (a column) after each other one (a row).

    Args:
        transitions: of shape [labels, labels], `[label, the next label]`.
        labels: their names. The scores are written into the cells of at most 12 labels.
    """
    scores = np.asarray(transitions, dtype=float)
    count = len(labels)
    names = [drawable(label, 10) for label in labels]
    largest = float(np.abs(scores).max()) or 1.0
    colors = LinearSegmentedColormap.from_list("signed", [NEGATIVE, "#FFFFFF", POSITIVE])
    side = 4.4 if count <= 12 else 7.2
    with CourseFigure(figsize=(side + 1.0, side)) as figure:
        axes = figure.subplots()
        picture = axes.imshow(scores, cmap=colors, vmin=-largest, vmax=largest)
        size = 9 if count <= 12 else 7
        axes.set_xticks(range(count), names, fontsize=size, rotation=90)
        axes.set_yticks(range(count), names, fontsize=size)
        axes.tick_params(length=0, colors=INK)
        axes.set(title=drawable(title, 60), xlabel="the next label", ylabel="label")
        axes.spines[:].set_visible(False)
        if count <= 12:
            for (row, column), value in np.ndenumerate(scores):
                deep = abs(value) > 0.7 * largest
                style = {"ha": "center", "va": "center", "fontsize": 8}
                color = "white" if deep and value > 0 else INK
                axes.text(column, row, f"{value:.2f}", color=color, **style)
        else:
            bar = figure.colorbar(picture, ax=axes, shrink=0.7)
            bar.outline.set_visible(False)
        summary = []
        for word, place in (("highest", scores.argmax()), ("lowest", scores.argmin())):
            row, column = map(int, np.unravel_index(place, scores.shape))
            summary.append(f"{word} {scores[row, column]:.2f}, {labels[row]} to {labels[column]}")
        return figure.finish(f"{title}: {count} labels; {'; '.join(summary)}.")
