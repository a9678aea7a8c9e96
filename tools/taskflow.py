"""docs/taskflow.md: every task that PaddleNLP's Taskflow has in this version.

    python tools/taskflow.py generate [--check]   write (or compare) the page

Tasks, models and what they load are read from the installed package's code; what goes in and what
comes out stands in DESCRIPTIONS.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import course_lib  # noqa: E402, F401, before paddlenlp
from tools import pages  # noqa: E402

from paddlenlp.taskflow import text_classification, word_segmentation  # noqa: E402
from paddlenlp.taskflow.fill_mask import FillMaskTask  # noqa: E402
from paddlenlp.taskflow.task import Task  # noqa: E402
from paddlenlp.taskflow.taskflow import TASKS  # noqa: E402

PAGE = ROOT / "docs" / "taskflow.md"
OWN_MODEL = (FillMaskTask, text_classification.TextClassificationTask)  # have no model to download
DESCRIPTIONS = {  # task -> what goes in, what comes out
    "code_generation": ("the beginning of a program", "its continuation"),
    "dependency_parsing": ("a text", "words; for each word its head and the relation to it"),
    "dialogue": ("the dialogue so far", "the next answer"),
    "document_intelligence": ("an image of a document, questions", "answers with probabilities"),
    "feature_extraction": ("texts (some models: images)", "one vector per text"),
    "fill_mask": ("a text with one [MASK]", "tokens that fit there, with scores"),
    "information_extraction": (
        "a text; a schema",
        "for each name in the schema, the spans found; may be nested",
    ),
    "knowledge_mining": ("a text (nptag: a noun phrase)", "words with classes and linked terms"),
    "lexical_analysis": ("a text", "words and their classes"),
    "ner": ("a text", "words and their classes, or only the entities"),
    "poetry_generation": ("the beginning of a poem", "its continuation"),
    "pos_tagging": ("a text", "words and their parts of speech"),
    "question_answering": ("a question, without a passage", "a generated answer"),
    "question_generation": ("a passage and an answer", "a question"),
    "sentiment_analysis": ("a text", "negative or positive (uie-senta: aspects and opinions)"),
    "text2text_generation": ("an instruction", "a reply"),
    "text_classification": ("a text", "labels with scores"),
    "text_correction": ("a text", "the corrected text, and the positions of the errors"),
    "text_similarity": ("pairs of texts", "a similarity per pair"),
    "text_summarization": ("a text", "a summary"),
    "word_segmentation": ("a text", "its words"),
    "zero_shot_text_classification": ("a text; a schema of labels", "labels with scores"),
}


class Variant(NamedTuple):
    """The models of a task that share a class.

    Attributes:
        names: of the models, or modes; those for upstream's tests are left out.
        default: the task's default model or mode; "" where another class has it.
        download: what is fetched when nothing is given: "no", "your own model", or "yes".
        task_path: what is read from it: "yes" for all, "weights only", "no" for nothing.
    """

    task: str
    names: list[str]
    default: str
    download: str
    task_path: str


def source(method) -> str:
    """The code of a method without its comments."""
    return ast.unparse(ast.parse(textwrap.dedent(inspect.getsource(method))))


def loaded_from(cls: type[Task], part: str) -> str:
    """Where a class loads its "model" or "tokenizer" from: "path", "name", or "" for nowhere."""
    code = source(getattr(cls, f"_construct_{part}"))
    if "_task_path" in code:
        return "path"
    if not re.search(r"from_pretrained\(|ErnieDualEncoder\(", code):
        return ""
    classes = [each for each in cls.__mro__ if issubclass(each, Task) and "__init__" in vars(each)]
    beginning = "\n".join(source(each.__init__) for each in classes)
    given = re.findall(rf"self\._construct_{part}\((.*)\)", beginning)
    return "path" if any("_task_path" in argument for argument in given) else "name"


def variants() -> list[Variant]:
    """All tasks of the installed package, one entry for each class of a task."""
    rows = []
    for task, entry in sorted(TASKS.items()):
        groups: dict[type, list[str]] = {}
        for name, settings in entry.get("modes", entry.get("models")).items():
            if not name.startswith("__internal"):
                groups.setdefault(settings["task_class"], []).append(name)
        (default,) = entry["default"].values()
        for cls, names in groups.items():
            parts = [loaded_from(cls, part) for part in ("model", "tokenizer")]
            path = "no" if parts[0] == "name" else "weights only" if parts[1] == "name" else "yes"
            download = "your own model" if cls in OWN_MODEL else "yes"
            if cls is word_segmentation.SegJiebaTask:
                download, path = "no", "no"
            rows.append(Variant(task, names, default * (default in names), download, path))
    return rows


def page() -> str:
    """The whole page in Markdown."""
    rows, table = variants(), []
    for row in rows:
        given, returned = DESCRIPTIONS[row.task]
        models = f"`{row.default or row.names[0]}`" + (" (default)" if row.default else "")
        if len(row.names) > 1:
            models += f" and {len(row.names) - 1} more"
        table.append([f"`{row.task}`", given, returned, models, row.download, row.task_path])
    header = ["Task", "Input", "Output", "Models or modes", "Download", "`task_path`"]
    return "\n".join(
        [
            "<!-- Written by tools/taskflow.py from the installed PaddleNLP; do not edit it. -->",
            "",
            "# The tasks of Taskflow",
            "",
            f"PaddleNLP {version('paddlenlp')} has {len(TASKS)} tasks in `Taskflow`. The table has "
            "one line for each class that implements a task, so some tasks have several lines.",
            "",
            "- *Download*: does the first call without arguments download files? *Your own model*: "
            "PaddleNLP has no files for this task, so you always have to pass `task_path`.",
            "- *`task_path`*: can a directory of your own replace these files? *Weights only*: the "
            "tokenizer is still loaded by the name of the model, from the hub or from a directory "
            "with that name in the working directory. *No*: the weights are loaded by name, too.",
            "",
            *pages.table(header, table),
            "",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    return pages.run(arguments, "tools/taskflow.py", PAGE, page)


if __name__ == "__main__":
    sys.exit(main())
