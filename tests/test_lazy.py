"""Packages whose names load on first use."""

from __future__ import annotations

import sys
from importlib import import_module

import course_lib  # noqa: F401

import pytest

PACKAGES = (
    "data",
    "training",
    "compression",
    "deploy",
    "tasks.hierarchical",
    "tasks.tagging",
    "tasks.search",
    "tasks.vocabulary",
    "tasks.labels",
    "tasks.explain",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_every_name_of_a_package_is_listed_and_loads(name):
    package = import_module(f"course_lib.{name}")
    assert package.__all__ == sorted(package.__all__) and {*package.__all__} <= {*dir(package)}
    for one in package.__all__:
        assert hasattr(package, one), one
    with pytest.raises(AttributeError, match=f"module 'course_lib.{name}' has no attribute 'x'"):
        package.x  # noqa: B018


def test_nothing_is_loaded_before_it_is_asked_for(tmp_path, monkeypatch):
    (tmp_path / "slow").mkdir()
    (tmp_path / "slow" / "__init__.py").write_text(
        "from course_lib.runtime.lazy import lazy\n"
        "__all__, __getattr__, __dir__ = lazy(__name__, part='answer')\n"
    )
    (tmp_path / "slow" / "part.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import slow

    assert "answer" in dir(slow) and "__name__" in dir(slow)
    assert not hasattr(slow, "question") and "slow.part" not in sys.modules
    assert slow.answer == 42 and "slow.part" in sys.modules
