"""Words and patterns that the course does not use, in everything that a learner reads.

    python tools/check_style.py             status 1 if a file has a finding
    python tools/check_style.py FILE ...    print all findings of these files

Checked are markdown, and strings of three or more words in Python, without code and links.
"""

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GLOBS = ["*.md", "docs/*.md", "data/**/*.md", "solutions/*.ipynb", "course_lib/**/*.py"]
UNIT = "(bar|character|class|column|example|feature|label|layer|line|row|second|step|text|token)"
PATTERNS = {
    "American spelling": r"colour\w*|(un)?labell(ed|ing)|neighbour\w*|learnt|behaviour\w*|favour\w*"
    r"|centred?|grey\w*|licence\w*|judgement|artefact\w*|misspelt|\w*(quanti|normali|optimi|initiali|tokeni"
    r"|seriali|organi|recogni|summari|generali|visuali|memori|minimi|maximi)s(e[dsr]?|ing|ation\w*)",
    "old-fashioned": r"oftener|mend(s|ed|ing)?|shall|anew|afresh|whoever|lest|nought|makes of it"
    r"|made of it|that is none|by far not|of like length|in the place of|of one's own",
    "is in, not stands in": r"st(ands?|ood) (in|beside|below|above|at|on|there|here)",
    "reported, not said": r"said",
    "student, not pupil": r"pupils?",
    "reranker, not judge": r"the judge",
    "per, not a": rf"(?<!each )(?<!every )(?<!many ){UNIT}s? an? {UNIT}",
}
RULES = {rule: re.compile(rf"\b({pattern})\b", re.IGNORECASE) for rule, pattern in PATTERNS.items()}
CODE = re.compile(r"```.*?```|``?[^`]*``?|\]\([^)]*\)|https?://\S+|<[^>]+>", re.DOTALL)


def strings(source: str) -> Iterator[str]:
    """Yield the strings of three or more words in Python source."""
    nodes = ast.walk(ast.parse(re.sub(r"^\s*[%!].*", "", source, flags=re.MULTILINE)))
    values = [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
    yield from (value for value in values if len(value.split()) > 2)


def texts(path: Path) -> Iterator[str]:
    """Yield what a learner reads in a document, module or notebook."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        for cell in json.loads(content)["cells"]:
            source = "".join(cell["source"])
            yield from [source] if cell["cell_type"] == "markdown" else strings(source)
    else:
        yield from [content] if path.suffix == ".md" else strings(content)


def findings(path: Path) -> list[str]:
    """Return the findings of a file, each as "rule: the text around it"."""
    found = []
    for text in texts(path):
        plain = " ".join(re.sub(r"\n\s*\n|\n[#|*-]", " ¶ ", CODE.sub(" ` ", text)).split())
        for rule, pattern in RULES.items():
            for match in pattern.finditer(plain):
                found.append(f"    {rule}: {plain[max(0, match.start() - 30) : match.end() + 30]}")
    return found


def main(arguments: list[str]) -> int:
    paths = map(Path, arguments) if arguments else {p for each in GLOBS for p in ROOT.glob(each)}
    found = {path.resolve().relative_to(ROOT).as_posix(): findings(path) for path in sorted(paths)}
    broken = {name: each for name, each in found.items() if each}
    for name, each in broken.items():
        print(f"{name}: {len(each)} findings", *each, sep="\n")
    print(f"style: {len(broken)} files with findings")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
