"""Names of a package that load on first use, so that importing the package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(package: str, home: Mapping[str, str]) -> tuple[Callable, Callable]:
    """A package's `__getattr__` and `__dir__` (PEP 562).

    Args:
        package: its `__name__`.
        home: the module, within the package, of each name that it offers.
    """

    def get(name: str):
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return get, names
