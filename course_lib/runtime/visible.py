"""What can be seen of a text: one rule for readers, labels, words and services."""

import re
import unicodedata

# letters, symbols and marks that are drawn as nothing, variation selectors and tags among them
_DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0000-\U000e0fff]"
)
_CONTROL, _SURROGATE = "a control character", "half a surrogate pair"
_HIDDEN = {"Cc": _CONTROL, "Cs": _SURROGATE, "Cf": "", "Zl": "", "Zp": "", "Zs": ""}


def is_blank(text: str) -> bool:
    """Whether nothing in a text can be seen, so that a BERT-like tokenizer finds no token in it.

    White space, control and zero-width characters, accents without a letter and U+FFFD do not
    count. Beside visible characters they are right: an emoji of a family needs its joiners.
    """
    return not any(
        (kind := unicodedata.category(character))[0] not in "CZ"
        and kind != "Mn"
        and character != "\ufffd"
        and not _DRAWN_AS_NOTHING.match(character)
        for character in text
    )


def hidden_character(name: str) -> str | None:
    """The first character of a label or a word that cannot be seen, or looks like a space.

    Names that look alike would be two classes, so readers refuse them. A plain space may stand
    between the parts of a name.

    Returns:
        It in words, such as "U+200B ZERO WIDTH SPACE"; None where there is none.
    """
    for character in name:
        kind = "" if character.isprintable() else unicodedata.category(character)
        if kind in _HIDDEN or _DRAWN_AS_NOTHING.match(character):
            called = "BYTE ORDER MARK" if character == "\ufeff" else _HIDDEN.get(kind)
            return f"U+{ord(character):04X} {called or unicodedata.name(character, 'unassigned')}"
    return None
