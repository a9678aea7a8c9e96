"""Answers to questions on a passage: from a model's scores to text, and from text to scores."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..runtime import InputError

import numpy as np

_SYMBOLS = {*string.punctuation, *(chr(ord(one) + 0xFEE0) for one in string.punctuation)}
# Written without spaces, so that a character is a token: Han (with 々 and 〇) and kana.
_ALONE = "\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_ALONE}]|[^\s{_ALONE}]+")


class Answer(NamedTuple):
    """A piece of a passage, `context[start:end]`; `score` sums the logits of its two ends."""

    text: str
    start: int
    end: int
    score: float


def _normalized(text: str) -> str:
    """Lower case, no punctuation, no articles (a, an, the), single spaces; 3.5 becomes 35.

    The rules of SQuAD's evaluate-v1.1.py (Rajpurkar et al., 2016), where punctuation is every
    character that Unicode calls so and ASCII's symbols, half and full width.
    """
    kept = (
        character
        for character in text.lower()
        if character not in _SYMBOLS and not unicodedata.category(character).startswith("P")
    )
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", "".join(kept)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where the prediction is one of the accepted answers, both normalized; 0.0 elsewhere."""
    return float(_normalized(prediction) in _accepted(answers))


def answer_f1(prediction: str, answers: Sequence[str]) -> float:
    """Overlap of the prediction with the accepted answer that it is nearest to, from 0 to 1.

    The harmonic mean of the shares of the prediction's tokens and of the answer's that both have,
    in any order, as SQuAD defines it. Tokens are CMRC 2018's (Cui et al., 2019): a Chinese
    character, or a run of anything else. CMRC's own script counts the longest common run only;
    PaddleNLP's `compute_f1` for Chinese splits letters, and ignores what follows the first space.

    Args:
        answers: all accepted ones; where none has a letter, the empty prediction is right.
    """
    predicted = Counter(_TOKEN.findall(_normalized(prediction)))
    best = 0.0
    for answer in _accepted(answers):
        accepted = Counter(_TOKEN.findall(answer))
        if not predicted or not accepted:
            best = max(best, float(predicted == accepted))
        else:
            shared = (predicted & accepted).total()
            best = max(best, 2 * shared / (predicted.total() + accepted.total()))
    return best


def _accepted(answers: Sequence[str]) -> set[str]:
    if isinstance(answers, str) or not answers:  # each character would be an answer
        raise InputError("answers", f"is {answers!r}", "a list of accepted answers")
    return {normal for normal in map(_normalized, answers) if normal} or {""}


def decode_answers(
    start_logits: Sequence[Sequence[float]],
    end_logits: Sequence[Sequence[float]],
    features: Iterable[dict[str, Any]],
    examples: Sequence[dict[str, Any]],
    max_answer_length: int = 30,
    n_best: int = 20,
) -> list[dict[str, Any]]:
    """The best answers of each example over all its windows.

    Every span of at most `max_answer_length` tokens inside one window's context is considered. (The
    scripts of SQuAD and PaddleNLP's `compute_prediction` pair only the 20 best first tokens with
    the 20 best last ones, which can leave nothing.)

    Args:
        start_logits, end_logits: a row per feature, shape [features, L] or rows of their own
            lengths; what follows a feature's last id is padding.
        features: of `convert_qa_examples(examples, ...)`, in the order of the rows.
        examples: with "context", in the order that the features' "example" counts.
        n_best: distinct answers kept, at most.

    Returns:
        One dict per example: "text", "start", "end", "score" of the best `Answer` and "candidates",
        the list of all kept ones, best first; of equal scores the earliest, then the shortest.
        Where the context has no token, "text" is "" and a "reason" says why.

    Raises:
        InputError: logits that are not finite numbers: every answer would be a guess.
        ValueError: numbers of rows that differ; an example without a feature.
    """
    windows: list[list[np.ndarray]] = [[] for _ in examples]
    rows = zip(start_logits, end_logits, features, strict=True)
    for row, (starts, ends, feature) in enumerate(rows):
        length = len(feature["offset_mapping"])
        start, end = (np.asarray(logits[:length], "float64") for logits in (starts, ends))
        if not np.isfinite(start + end).all():
            raise InputError(f"feature {row}", "its logits are not all finite", "finite numbers")
        windows[feature["example"]].append(_spans(start, end, feature, max_answer_length))
    results: list[dict[str, Any]] = []
    for example, spans in zip(examples, windows, strict=True):
        best = _best(np.concatenate(spans), example["context"], n_best)
        if best:
            results.append({**best[0]._asdict(), "candidates": best})
        else:
            nothing = dict.fromkeys(Answer._fields) | {"text": "", "candidates": []}
            results.append({**nothing, "reason": "the context has no token"})
    return results


def _spans(start: np.ndarray, end: np.ndarray, feature: dict[str, Any], longest: int) -> np.ndarray:
    """Rows (score, first character, end) of all spans in a window; shape [spans, 3]."""
    offsets = feature["offset_mapping"]
    inside = np.flatnonzero([offset is not None for offset in offsets])
    places = np.array([offsets[token] for token in inside], dtype="float64").reshape(-1, 2)
    first, width = np.mgrid[: len(inside), : min(longest, len(inside))]
    last = first + width
    fits = last < len(inside)
    first, last = first[fits], last[fits]
    scores = start[inside][first] + end[inside][last]
    return np.column_stack([scores, places[first, 0], places[last, 1]])


def _best(spans: np.ndarray, context: str, count: int) -> list[Answer]:
    """The best distinct spans; windows overlap, and tokens may share a character."""
    answers: dict[tuple[int, int], Answer] = {}
    for row in np.lexsort((spans[:, 2], spans[:, 1], -spans[:, 0])):
        score, start, end = float(spans[row, 0]), int(spans[row, 1]), int(spans[row, 2])
        answers.setdefault((start, end), Answer(context[start:end], start, end, score))
        if len(answers) == count:
            break
    return list(answers.values())
