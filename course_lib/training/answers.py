"""Answers to questions on a passage: from a model's scores to text, and from text to figures."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from course_lib.runtime import InputError

import numpy as np

_SYMBOLS = {*string.punctuation, *(chr(ord(one) + 0xFEE0) for one in string.punctuation)}
# Written without spaces, so that a character is a token: Han (with 々 and 〇) and kana.
_ALONE = "\u3005\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_TOKEN = re.compile(rf"[{_ALONE}]|[^\s{_ALONE}]+")


class Answer(NamedTuple):
    """A piece of a passage: `text == context[start:end]`.

    Attributes:
        score: sum of the logits of its first and its last token; compare within an example only.
    """

    text: str
    start: int
    end: int
    score: float


def normalize_answer(text: str) -> str:
    """What two answers must share to be the same one.

    Lower case, no punctuation, no articles (a, an, the, as words of their own), single spaces: the
    rules of SQuAD's evaluate-v1.1.py (Rajpurkar et al., 2016). Punctuation is every character that
    Unicode calls so and ASCII's symbols, half and full width; cmrc2018_evaluate.py (Cui et al.,
    2019) and PaddleNLP list the common ones, without 【】 or the left quote ‘ for instance. As in
    those scripts 3.5 becomes 35, and full-width letters and digits stay what they are.
    """
    kept = (
        character
        for character in text.lower()
        if character not in _SYMBOLS and not unicodedata.category(character).startswith("P")
    )
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", "".join(kept)).split())


def exact_match(prediction: str, answers: Sequence[str]) -> float:
    """1.0 where the prediction is one of the accepted answers, both normalized; 0.0 elsewhere.

    Args:
        answers: as for `answer_f1`.
    """
    return float(normalize_answer(prediction) in _accepted(answers))


def answer_f1(prediction: str, answers: Sequence[str]) -> float:
    """Overlap of the prediction with the accepted answer that it is nearest to, from 0 to 1.

    The harmonic mean of the shares of the prediction's tokens and of the answer's that both have,
    in any order, as SQuAD defines it. Tokens are CMRC 2018's: a Chinese character, or a run of
    anything else (a Latin word, a number). CMRC's own script counts the longest common run of
    tokens only, so it gives the same or less; PaddleNLP's `compute_f1` for Chinese takes letters
    apart, and ignores what follows the first space.

    Args:
        answers: all accepted ones. Those without a letter or digit are left out; where none
            remains, the empty prediction is right.

    Raises:
        InputError: no answers, or one text instead of a list.
    """
    own = Counter(_TOKEN.findall(normalize_answer(prediction)))
    best = 0.0
    for answer in _accepted(answers):
        other = Counter(_TOKEN.findall(answer))
        if not own or not other:
            best = max(best, float(own == other))
        else:
            best = max(best, 2 * (own & other).total() / (own.total() + other.total()))
    return best


def _accepted(answers: Sequence[str]) -> set[str]:
    if isinstance(answers, str) or len(answers) == 0:
        raise InputError("answers", f"is {answers!r}", "a list of at least one accepted answer")
    return {normal for normal in map(normalize_answer, answers) if normal} or {""}


def decode_answers(
    start_logits: Sequence[Sequence[float]],
    end_logits: Sequence[Sequence[float]],
    features: Iterable[dict[str, Any]],
    examples: Sequence[dict[str, Any]],
    max_answer_length: int = 30,
    n_best: int = 20,
) -> list[dict[str, Any]]:
    """The best answers of each example over all its windows.

    Every span of at most `max_answer_length` tokens inside one window's context is looked at. (The
    scripts of SQuAD and PaddleNLP's `compute_prediction` pair only the 20 best first tokens with
    the 20 best last ones, which can leave nothing.) Scores of different windows are compared as
    they are, as those scripts do.

    Args:
        start_logits, end_logits: a row a feature, shape [features, L] or rows of their own
            lengths; what stands behind a feature's last id is padding.
        features: of `convert_qa_examples(examples, ...)`, in the order of the rows.
        examples: with "context", in the order that the features' "example" counts.
        n_best: distinct answers kept, at most.

    Returns:
        One dict an example: "text", "start", "end", "score" of the best `Answer` and "candidates",
        the list of all kept ones, best first; of equal scores the earliest, then the shortest.
        Where the context has no token: "text" is "", "start", "end" and "score" are None,
        "candidates" is empty and "reason" says why.

    Raises:
        InputError: rows, features and examples that do not belong together, logits that are not
            finite numbers, `max_answer_length` or `n_best` below 1.
    """
    for name, value in (("max_answer_length", max_answer_length), ("n_best", n_best)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(name, f"is {value!r}", "a whole number of at least 1")
    features = list(features)
    if not len(start_logits) == len(end_logits) == len(features):
        problem = f"{len(start_logits)} and {len(end_logits)} rows for {len(features)} features"
        raise InputError("start_logits, end_logits", problem, "one row of each a feature")
    found: list[list[np.ndarray]] = [[] for _ in examples]
    for row, feature in enumerate(features):
        if not 0 <= feature["example"] < len(found):
            problem = f"is of example {feature['example']}, and there are {len(found)}"
            raise InputError(f"feature {row}", problem, "the examples it was made from")
        start, end = (_row(logits, row, feature) for logits in (start_logits, end_logits))
        found[feature["example"]].append(_spans(start, end, feature, max_answer_length))
    results: list[dict[str, Any]] = []
    for index, (example, windows) in enumerate(zip(examples, found, strict=True)):
        if not windows:
            problem = "has no feature"
            raise InputError(f"example {index}", problem, "the features of all the examples")
        best = _best(np.concatenate(windows), example["context"], n_best)
        if best:
            results.append({**best[0]._asdict(), "candidates": best})
        else:
            nothing = dict.fromkeys(Answer._fields) | {"text": "", "candidates": []}
            results.append({**nothing, "reason": "the context has no token"})
    return results


def _row(logits: Sequence[Sequence[float]], row: int, feature: dict[str, Any]) -> np.ndarray:
    values = np.asarray(logits[row], dtype="float64")
    length = len(feature["offset_mapping"])
    if values.ndim != 1 or len(values) < length:
        problem = f"its logits have shape {values.shape}, and it has {length} ids"
        raise InputError(f"feature {row}", problem, "a logit for each id")
    if not np.isfinite(values[:length]).all():
        raise InputError(f"feature {row}", "its logits are not all finite", "finite numbers")
    return values[:length]


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
