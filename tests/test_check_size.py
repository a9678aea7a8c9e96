"""tools/check_size.py: what it counts, and when it fails."""

from __future__ import annotations

from tools import check_size

import pytest

LONG = "\n".join(["def work():", '    """Two', '    lines."""', *["    x = 1"] * 60, ""])


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"runtime__files": "x = 1\n" * 500, "chapters__ch01": "x = 1\n" * 200}, None),
        ({"runtime__files": "x = 1\n" * 501}, "course_lib/runtime/files.py: 501, limit 500"),
        ({"chapters__ch01": "x = 1\n" * 201}, "course_lib/chapters/ch01.py: 201, limit 200"),
        ({f"runtime__m{n}": "x = 1\n" * 400 for n in range(4)}, "runtime: 1,600, limit 1,500"),
        ({"old__names": "class A: ...\n" * 351}, "public names outside chapters: 351, limit 350"),
        ({"chapters__ch01": "", "old__few": "def _a(): ...\n" * 476}, None),
        ({"data__one": LONG.replace("    x = 1\n", "", 1)}, None),
        ({"data__one": LONG}, "course_lib/data/one.py: work: 61, limit 60"),
        ({"data__one": "@cached\n" + LONG}, "course_lib/data/one.py: work: 62, limit 60"),
    ],
)
def test_a_broken_budget_is_named_and_fails(tmp_path, capsys, monkeypatch, files, complaint):
    monkeypatch.setattr(check_size, "CEILINGS", {})
    for name, text in files.items():
        path = tmp_path / "course_lib" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    status = check_size.main([], tmp_path)
    printed = capsys.readouterr().out
    assert status == (complaint is not None)
    assert (complaint or "no limit is broken") in printed
    assert check_size.main(["--report"], tmp_path) == 0


def test_the_table_adds_up(capsys):
    check_size.main(["--report"])
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    counts = {line[0]: line[1] for line in table if line and line[0].startswith("course_lib/")}
    library = check_size.ROOT / "course_lib"
    for package in ("runtime", "data"):
        files = (library / package).rglob("*.py")
        lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
        assert counts[f"course_lib/{package}"] == f"{lines:,}"
