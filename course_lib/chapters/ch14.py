"""Chapter 14: ways to answer that take turns, a waterfall, and a small decoder of reviews."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from course_lib.models import load_backbone
from course_lib.notebook.style import COLORS, INK, MUTED, CourseFigure
from course_lib.training.prediction import inference_mode

import numpy as np
import paddle
from paddle.nn import functional
from paddlenlp.transformers import GPTConfig, GPTForCausalLM

PAD, END, UNKNOWN = range(3)
SPECIAL = ["[PAD]", "[END]", "[UNK]", "negative", "positive"]  # the last two begin a review
CHARACTERS = 48  # of each review


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let Paddle's dynamic graph use so many threads, inside the block; then one."""
    paddle.base.core.set_num_threads(number)
    try:
        yield
    finally:
        paddle.base.core.set_num_threads(1)


def in_turns(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds that each way takes, the best of `rounds`.

    The ways take turns, so that whatever else the machine does meanwhile hits all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - begin)
    return {name: min(values) for name, values in times.items()}


def measure(
    rates: dict[str, float],
    ways: Mapping[str, Callable[[], object]],
    texts: int,
    rounds: int,
    anchor: str | None = None,
) -> None:
    """Add the texts per second of each way to `rates`.

    Args:
        anchor: one of the ways that has a rate already; the others are put in proportion to it, so
            that a slower minute of the machine does not look like a slower way.
    """
    seconds = in_turns(ways, rounds)
    scale = rates[anchor] * seconds[anchor] / texts if anchor else 1.0
    rates.update({n: scale * texts / value for n, value in seconds.items() if n != anchor})


def waterfall(
    rates: Mapping[str, float], aside: Sequence[str] = (), unit: str = "texts per second"
) -> CourseFigure:
    """Show what each step adds to a rate: a floating bar per step, from the one before it.

    Args:
        rates: by step, in order; the first one is where it begins.
        aside: steps that are not built upon: the next one goes on from the step before them.
    """
    with CourseFigure(figsize=(8.0, 0.36 * len(rates) + 1.3)) as figure:
        axes = figure.subplots()
        before, first, told = 0.0, next(iter(rates.values())), []
        for place, (name, rate) in enumerate(rates.items()):
            low, high = sorted((before, rate))
            color = COLORS[0] if rate >= before else COLORS[1]
            look = {"facecolor": "white", "hatch": "////"} if name in aside else {"color": color}
            axes.barh(place, high - low, 0.66, left=low, edgecolor=color, **look)
            label = f"{rate:,.0f}  ({rate / first:.1f} times)" if place else f"{rate:,.0f}"
            axes.annotate(
                label, (high, place), (6, 0), textcoords="offset points", va="center",
                fontsize=8.5, color=INK,
            )  # fmt: skip
            told.append(f"{name} {rate:.0f}")
            if name not in aside:
                axes.plot([rate, rate], [place + 0.33, place + 0.67], color=MUTED, marker="", lw=1)
                before = rate
        axes.set_yticks(range(len(rates)), list(rates), color=INK)
        axes.set(ylim=(len(rates) - 0.4, -0.6), xlim=(0, 1.28 * max(rates.values())), xlabel=unit)
        return figure.finish(f"A waterfall of {unit}: {', '.join(told)}.")


# ---- the decoder


def alphabet(examples: Sequence[Mapping], least: int = 20) -> list[str]:
    """What the decoder can write: `SPECIAL`, then characters that occur `least` times."""
    counts = Counter("".join("".join(row["text"].lower().split()) for row in examples))
    return SPECIAL + [char for char, count in counts.most_common() if count >= least]


def review_rows(
    examples: Sequence[Mapping], names: Sequence[str], length: int = CHARACTERS
) -> list[list[int]]:
    """Ids of each review: its label, at most `length` characters, and END where it is whole."""
    ids = {char: place for place, char in enumerate(names)}
    rows = []
    for example in examples:
        text = "".join(example["text"].lower().split())
        row = [len(SPECIAL) - 2 + example["label"]]
        row += [ids.get(char, UNKNOWN) for char in text[:length]]
        rows.append([*row, END] if len(text) <= length else row)
    return rows


def written(ids: Sequence[int], names: Sequence[str]) -> str:
    """The text of generated ids, up to END."""
    chars = [names[i] for i in ids]
    chars = chars[: chars.index("[END]")] if "[END]" in chars else chars
    return "".join(char for char in chars if char not in SPECIAL)


def new_decoder(
    names: Sequence[str], size: int = 128, layers: int = 2, dropout: float = 0.0
) -> GPTForCausalLM:
    """A decoder that was not trained, but for its characters' vectors.

    They are those of the backbone, cut to `size` numbers by a singular value decomposition.
    """
    config = GPTConfig(
        vocab_size=len(names), hidden_size=size, num_hidden_layers=layers, num_attention_heads=4,
        intermediate_size=4 * size, max_position_embeddings=256, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=0.0, pad_token_id=PAD, eos_token_id=END, bos_token_id=END,
        eol_token_id=END,
    )  # fmt: skip
    model = GPTForCausalLM(config)
    backbone, tokenizer = load_backbone(label_list=SPECIAL[-2:])
    table = backbone.ernie.embeddings.word_embeddings.weight.numpy()
    places = tokenizer.convert_tokens_to_ids(list(names[len(SPECIAL) :]))
    vectors = table[places] - table[places].mean(axis=0)
    _, _, directions = np.linalg.svd(vectors, full_matrices=False)
    vectors = vectors @ directions[:size].T
    special = np.random.RandomState(0).normal(0, vectors.std(), (len(SPECIAL), size))
    table = 0.05 * np.concatenate([special, vectors]) / vectors.std()
    model.gpt.embeddings.word_embeddings.weight.set_value(table.astype("float32"))
    return model


def next_loss(model: GPTForCausalLM) -> Callable[..., paddle.Tensor]:
    """The cross entropy of each character after those before it, for `ch09.train_on`."""

    def loss_on(ids: paddle.Tensor, places: object = None) -> paddle.Tensor:
        logits = model(ids[:, :-1])
        wanted = ids[:, 1:].reshape([-1])
        return functional.cross_entropy(logits.flatten(0, 1), wanted, ignore_index=PAD)

    return loss_on


def perplexity(model: GPTForCausalLM, rows: Sequence[Sequence[int]]) -> float:
    """How many equally likely characters the next one is as hard to guess as."""
    total, count, loss_on, ordered = 0.0, 0, next_loss(model), sorted(rows, key=len)
    with inference_mode(model):
        for start in range(0, len(ordered), 64):
            batch = ordered[start : start + 64]
            longest = max(map(len, batch))
            ids = paddle.to_tensor([[*row, *[PAD] * (longest - len(row))] for row in batch])
            number = int((ids[:, 1:] != PAD).sum())
            total, count = total + number * float(loss_on(ids)), count + number
    return float(np.exp(total / count))


def trigram_perplexity(
    train: Sequence[Sequence[int]], rows: Sequence[Sequence[int]], size: int
) -> float:
    """The baseline: shares of one, two and three characters in train, mixed 20:50:30."""
    one, two, three = Counter(), Counter(), Counter()  # type: ignore[var-annotated]
    pasts = Counter(), Counter()  # type: ignore[var-annotated]
    for row in train:
        for a, b, c in zip([PAD, *row], row, row[1:], strict=False):
            one[c] += 1
            two[b, c] += 1
            three[a, b, c] += 1
            pasts[0][b] += 1
            pasts[1][a, b] += 1
    total, losses = sum(one.values()), []
    for row in rows:
        for a, b, c in zip([PAD, *row], row, row[1:], strict=False):
            pair = two[b, c] / max(1, pasts[0][b])
            triple = three[a, b, c] / pasts[1][a, b] if pasts[1][a, b] else pair
            losses.append(-np.log(0.2 * (one[c] + 1) / (total + size) + 0.5 * pair + 0.3 * triple))
    return float(np.exp(np.mean(losses)))


def variety(texts: Sequence[str]) -> float:
    """Distinct pairs of characters as a share of all pairs (distinct-2; Li et al., 2016)."""
    pairs = [text[i : i + 2] for text in texts for i in range(len(text) - 1)]
    return len(set(pairs)) / max(1, len(pairs))
