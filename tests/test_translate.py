"""The Chinese edition, and the tool that makes it."""

import re

from course_lib.runtime import InputError
from tools import notebooks, translate

import pytest
from test_notebooks import course, rewrite  # noqa: F401, a fixture

SCRIPT = '''\
# %% [markdown]
# # A chapter of 12,000 words, after [the first](90_a.ipynb) and `this` [page](../docs/x.md)

# %% answer="91-double"
def double(number):
    """Return twice the number."""
    ### BEGIN SOLUTION
    return 2 * number  # the "product" by hand
    ### END SOLUTION

# %% check="91-double" points=1
from course_lib.notebook.checks import attempted, solved
if attempted("91-double", double(2)):
    assert double(3) == 6, f"Twice 3 is not {double(3)!r:>2}: " "look {here}."
    for number, hint in {0: (0, "Nothing twice is nothing."), 1: ("no text", "")}.items():
        assert double(number) != number or not number, hint[1]
    solved("91-double")
'''
CHINESE = "# 共 12,000 词的一章\n前面是[第一章](90_a.ipynb)，\n和 `this` [页面](../docs/x.md)"
MESSAGES = {
    "Return twice the number.": "返回该数的两倍。",
    'the "product" by hand': "手算“乘积”",
    "Twice 3 is not {double(3)!r:>2}: look {{here}}.": '3 的"两倍"不是{double(3)!r:>2}\n{{看}}',
    "Nothing twice is nothing.": "0 的两倍是 0。",
}


@pytest.fixture
def chapter(course):  # noqa: F811
    """A chapter that is translated as a whole."""
    path = rewrite(course, SCRIPT, "91_b")
    translate.draft(path)
    assert set(translate.read_messages()) == {("91", english) for english in MESSAGES}
    edit(path, "in progress", "complete")
    edit(path, r" todo -->\n.*", f" -->\n{CHINESE}")
    translate.write_messages({("91", english): text for english, text in MESSAGES.items()})
    return path


def edit(path, old, new):
    file = translate.folder() / f"{path.stem}.md"
    file.write_text(re.sub(old, new, file.read_text(encoding="utf-8")), encoding="utf-8")


def test_an_edition_says_all_in_chinese_and_does_the_same(chapter):
    assert list(translate.problems()) == []
    notebooks.generate()
    made = notebooks.read(notebooks.SOLUTIONS / "zh" / "91_b.ipynb")
    prose = "一章\n前面是[第一章](../90_a.ipynb)，和 `this` [页面](../../docs/x.md)"
    assert prose in made.cells[0].source  # in one line, where Chinese has no space
    assert '"""返回该数的两倍。"""' in made.cells[1].source
    assert '(0, "0 的两倍是 0。"), 1: ("no text", "")' in made.cells[2].source
    with pytest.raises(AssertionError, match=r'3 的"两倍"不是12\n\{看\}'):
        exec(made.cells[1].source.replace("2 *", "4 *") + "\n" + made.cells[2].source, {})
    learner = notebooks.read(notebooks.LEARNERS / "zh" / "91_b.ipynb")
    assert "手算" not in learner.cells[1].source and notebooks.generate(check=True) == []


def test_what_is_missing_or_stale_or_differs_is_named_and_shown_in_english(chapter, capsys):
    translate.write_messages({})
    edit(chapter, "12,000", "12,001")
    found = "\n".join(translate.problems())
    assert "'Return twice the number.' is missing" in found and "lacks the number 12,000" in found
    rewrite(chapter.parents[1], SCRIPT.replace("A chapter", "This chapter"), "91_b")
    assert "is stale" in "\n".join(translate.problems()) and translate.main(["check"]) == 1
    assert "# This chapter" in next(iter(translate.editions().values())).cells[0].source
    assert translate.main(["confirm", "91"]) == 0 and translate.main(["status"]) == 0
    assert "is stale" not in "\n".join(translate.problems())
    edit(chapter, "complete", "in progress")
    assert translate.editions() == {} and "missing" not in "\n".join(translate.problems())


def test_a_hint_keeps_its_values(chapter):
    for text in ("无值", "{double(4)!r:>2}", "{double(3)!r}"):
        translate.write_messages({("91", [*MESSAGES][2]): text})
        with pytest.raises(InputError, match="has other values"):
            translate.editions()


def test_the_course_is_translated_without_gaps():
    assert [*translate.problems(), *translate.page_problems()] == []


def test_a_page_is_compared_by_its_sections(course):  # noqa: F811
    page, chinese = course / "README.md", course / "README.zh.md"
    page.write_text("# Course\n\n## First [steps](notebooks/90_a.ipynb)\n", encoding="utf-8")
    assert translate.main(["draft", "README"]) == 0
    text = re.sub(" todo|in progress(?=.*)", "", chinese.read_text(encoding="utf-8"))
    text = text.replace("README.zh: ", "README.zh: complete").replace("First", "第一步")
    chinese.write_text(text.replace("notebooks/", "notebooks/zh/"), encoding="utf-8")
    assert list(translate.page_problems()) == []
    page.write_text("# Course\n\n## First [step](notebooks/90_a.ipynb)\n", encoding="utf-8")
    assert "is missing" in " ".join(translate.page_problems())


def test_code_may_be_wrapped_where_it_likes():
    english, chinese = "Use `f(a,\nb)`. A **loop** or `g` in", "用 `f(a, b)`。**循环**或 `g`"
    assert list(translate.differences(english, chinese)) == []


def test_asterisks_that_show_are_found():
    english = "*What do you expect?* Then **run** `a * b`, 2 \\* 3."
    assert (
        list(translate.differences(english, "*你预计会怎样？* 再**运行** `a * b`，2 \\* 3。")) == []
    )
    for chinese in ("*你预计会怎样？*再**运行**", "*你预计会怎样？* 再**运行，**然后"):
        found = "\n".join(translate.differences(english, f"{chinese} `a * b`，2 \\* 3。"))
        assert "has * or ** that" in found
