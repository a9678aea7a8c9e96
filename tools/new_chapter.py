"""Write the skeleton of a chapter: it runs, it passes the tests, and every part is in its place.

    python tools/new_chapter.py 12 "Word embeddings" [--companion]

It writes solutions/12_word_embeddings.ipynb, its wrong answers in tests/exercises/ and a row in the
README; with --companion also course_lib/chapters/ch12.py. docs/adding_a_chapter.md goes on from
there. The setup cell is that of chapter 00.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from course_lib.runtime import InputError, atomic_file  # noqa: E402
from tools import notebooks  # noqa: E402

CHAPTER = '''\
# %% [markdown]
# # NN · TITLE: what it is good for
#
# Two sentences that say why this matters. At the end of this chapter you can
#
# - do the first thing;
# - do the second thing.
#
# **Time**: about 60 minutes to read and do, about one minute of computing.
# **Before you start**: chapter 01.

# %% [markdown]
# ## Setup

# %%
SETUP

# %% [markdown]
# ## 1 The idea
#
# *What do you expect: which number is the largest?*

# %%
numbers = np.array([4, 1, 2])
paddle.to_tensor(numbers).max()

# %%
import matplotlib.pyplot as plt

figure, axis = plt.subplots(figsize=(4, 2))
axis.bar(range(3), numbers)
axis.set(xlabel="place", ylabel="number")
plt.show()

# %% [markdown]
# *Figure: three bars with the heights 4, 1 and 2; the first is the highest.*

# %% [markdown]
# ### Exercise 1: the largest
# Which of `numbers` is the largest?

# %% answer="NN-largest"
largest = ...
### BEGIN SOLUTION
largest = numbers.max()
### END SOLUTION

# %% check="NN-largest" points=1
if attempted("NN-largest", largest):
    assert largest in numbers, "It has to be one of the numbers."
    assert largest == 4, "There is a larger one."
    solved("NN-largest")

# %% [markdown]
# ### Exercise 2: the mean
# What is the mean of `numbers`?

# %% answer="NN-mean"
mean = ...
### BEGIN SOLUTION
mean = numbers.mean()
### END SOLUTION

# %% check="NN-mean" points=1
if attempted("NN-mean", mean):
    assert abs(mean - 7 / 3) < 1e-6, "Divide the sum by how many there are; do not round."
    solved("NN-mean")

# %% [markdown]
# ### Exercise 3: twice as much
# Write `double(values)`.

# %% answer="NN-double"
def double(values):
    """Return an array with twice each value, shape as given."""
    ### BEGIN SOLUTION
    return 2 * values
    ### END SOLUTION


# %% check="NN-double" points=1
doubled = double(np.array([4, 1, 3]))
if attempted("NN-double", doubled):
    assert np.shape(doubled) == (3,), "Three values in, three values out."
    assert list(doubled) == [8, 2, 6], "Each value becomes twice as large."
    solved("NN-double")

# %% [markdown]
# ## Quiz
#
QUIZ

# %% [markdown]
# ## On your own data
#
# What a reader changes to use this on data of their own.
#
# ## On a GPU with ERNIE 3.0
#
# `COURSE_PROFILE=gpu COURSE_BACKBONE=ernie-3.0-medium-zh make lab`: what grows, what to see.

# %% [markdown]
# ## Summary
#
# - One sentence to take away.
#
# **Next**: the chapter that goes on from here.
#
# **Words**: chapter 章 · exercise 练习
'''
QUESTION = """\
# **{}.** A question about what the reader has just seen?
# <details><summary>Answer</summary>The answer, and why.</details>"""
WRONG = """\
Typical wrong answers of chapter NN: the mistake => the hint that it must draw, and its code.

NN-largest
how many there are => one of the numbers
    largest = len(numbers)
the place of the largest => one of the numbers
    largest = numbers.argmax()
the sum => one of the numbers
    largest = numbers.sum()
the smallest => a larger one
    largest = numbers.min()

NN-mean
the sum => Divide the sum
    mean = numbers.sum()
the median => Divide the sum
    mean = np.median(numbers)
rounded down => do not round
    mean = numbers.sum() // 3
a fixed number of them => how many there are
    mean = numbers.sum() / 2

NN-double
unchanged => twice as large
    return values
two more => twice as large
    return values + 2
squared => twice as large
    return values**2
each value twice => three values out
    return np.append(values, values)
"""


def write_chapter(number: str, title: str, companion: bool = False) -> list[Path]:
    """Write the skeleton of chapter `number` and return the files that are new or changed.

    Raises:
        InputError: the number is taken or out of range, or the title makes no file name.
    """
    words = "_".join(re.findall(r"[a-z0-9]+", title.lower()))
    taken = sorted(notebooks.SOLUTIONS.glob(f"{number}_*.ipynb"))
    if not re.fullmatch(r"\d\d[a-z]?", number) or taken:
        problem = f"is taken by {taken[0].name}" if taken else "has no two digits"
        raise InputError(f"chapter {number}", problem, "a free number, such as 21 or 04a")
    if not title.isascii() or not words:
        raise InputError("title", f"{title!r} makes no file name", "English words")
    first = notebooks.chapters(["00"])[0]
    setup = next(cell.source for cell in notebooks.read(first).cells if cell.cell_type == "code")
    quiz = "\n#\n".join(QUESTION.format(n) for n in range(1, 6))
    name, nn = f"{number}_{words}", number
    script = CHAPTER.replace("NN", nn).replace("TITLE", title)
    script = script.replace("SETUP", setup).replace("QUIZ", quiz)
    chapter = notebooks.SOLUTIONS / f"{name}.ipynb"
    wrong = ROOT / "tests" / "exercises" / f"{name}.txt"
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "chapter.py")
        source.write_text(script, encoding="utf-8")
        notebooks.import_script(source, chapter)
    texts = {wrong: WRONG.replace("NN", nn), ROOT / "README.md": with_row(nn, title, name)}
    if companion:
        path = ROOT / "course_lib" / "chapters" / f"ch{nn}.py"
        texts[path] = f'"""What only chapter {nn} uses."""\n'
    for path, text in texts.items():
        with atomic_file(path) as file:
            file.write(text)
    return [chapter, *texts]


def with_row(number: str, title: str, name: str) -> str:
    """Return the README with the chapter's row at its place in the table."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    rows = [(i, re.match(r"\| \[(\d\d[a-z]?) · ", line)) for i, line in enumerate(lines)]
    # 04a comes before 04, as in notebooks.chapters
    place = max(i for i, row in rows if row and row[1] + "~" < number + "~") + 1
    link = f"[{number} · {title}: what it is good for](notebooks/{name}.ipynb)"
    lines.insert(place, f"| {link} | do the first thing and the second | 60 minutes | one minute |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the skeleton of a chapter.")
    parser.add_argument("number", help="two digits, perhaps a letter: 12, or 04a (before 04)")
    parser.add_argument("title", help='such as "Word embeddings"')
    parser.add_argument("--companion", action="store_true", help="also course_lib/chapters/chNN.py")
    options = parser.parse_args(arguments)
    try:
        written = write_chapter(options.number, options.title, options.companion)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(*(path.relative_to(ROOT) for path in written), sep="\n")
    print("next: docs/adding_a_chapter.md, step 2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
