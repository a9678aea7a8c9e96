"""A character vocabulary for a model that starts from nothing."""

import unicodedata
from collections import Counter
from collections.abc import Iterable

SPECIAL_TOKENS = ("[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]")
PRINTABLE_ASCII = [chr(code) for code in range(0x21, 0x7F)]
COMMON_PUNCTUATION = list("，。！？、；：“”‘’（）《》【】—…·￥～")


def build_vocabulary(texts: Iterable[str], min_count: int = 3) -> list[str]:
    """Collect the tokens that `ErnieTokenizer` needs to spell `texts` character by character.

    The characters are counted as the tokenizer will see them: lower case and without accents.
    Printable ASCII and common Chinese punctuation are always in. A character that can stand inside
    a longer word (a Latin letter, a digit, kana) also gets its `##` continuation piece, since
    WordPiece would otherwise turn the whole word into `[UNK]`.

    Args:
        texts: training texts only; a vocabulary built from test texts has seen the test.
        min_count: how often a character must occur; rarer ones become `[UNK]`.

    Returns:
        The tokens in the order of their ids: specials as in ERNIE, ASCII and punctuation, the other
        characters by falling count (ties by code point), the continuation pieces.
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_normalized(text))
    always = [one for one in PRINTABLE_ASCII + COMMON_PUNCTUATION if not one.isupper()]
    fixed = set(always)
    seen = [
        character
        for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        if count >= min_count
        and character not in fixed
        and unicodedata.category(character)[0] not in "CZ"  # invisible
    ]
    characters = always + seen
    pieces = [f"##{character}" for character in characters if _joins_words(character)]
    return [*SPECIAL_TOKENS, *characters, *pieces]


def _normalized(text: str) -> str:
    # Each character by itself, as the tokenizer does: `text.lower()` makes a Σ at an end ς.
    decomposed = unicodedata.normalize("NFD", "".join(map(str.lower, text)))
    return "".join(c for c in decomposed if unicodedata.category(c) != "Mn")


def _joins_words(character: str) -> bool:
    """Whether the tokenizer leaves this character inside a word: no Chinese, no punctuation."""
    if "\u3400" <= character <= "\u4dbf" or "\u4e00" <= character <= "\u9fff":
        return False
    return unicodedata.category(character)[0] in "LMN"
