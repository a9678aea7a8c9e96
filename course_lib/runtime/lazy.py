"""Names of a package that load on first use, so that importing the package stays cheap."""

import sys
from collections.abc import Callable
from importlib import import_module


def lazy(package: str, **modules: str) -> tuple[list[str], Callable, Callable]:
    """A package's `__all__`, `__getattr__` and `__dir__` (PEP 562).

    Args:
        package: its `__name__`.
        modules: the names that each of its modules offers, with spaces between them.
    """
    home = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str):
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home[name]}"), name)

    return sorted(home), get, lambda: sorted({*vars(sys.modules[package]), *home})
