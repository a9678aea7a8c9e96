"""Models as files that run without their Python code. Names load on first use."""

from __future__ import annotations

from importlib import import_module

_HOME = {
    "check_head": "export",
    "export_model": "export",
    "load_static": "restore",
    "Predictor": "predictor",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
