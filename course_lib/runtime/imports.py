"""Small corrections to paddle and paddlenlp at the moment at which they are imported.

Two things are corrected and nothing else:

- paddle prints a two-line warning to stderr whenever OMP_NUM_THREADS is more than 1. It concerns
  builds with OpenBLAS; the wheels that the course pins use MKL. The two lines are dropped.
- paddlenlp reports the use of Taskflow and of community models to a statistics server, which
  delays a machine without a network. It has a flag for "already reported"; the flag is set.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import ModuleType

_BANNER = ("WARNING: OMP_NUM_THREADS set to", "PLEASE USE OMP_NUM_THREADS WISELY")


class _WithoutBanner:
    """A text stream that passes everything on to `stream` but paddle's banner."""

    def __init__(self, stream):
        self._stream, self._dropped = stream, False

    def write(self, text: str) -> int:
        if text.startswith(_BANNER):
            self._dropped = True
            return len(text)
        if self._dropped and text == "\n":  # print() writes the line end separately
            self._dropped = False
            return 1
        self._dropped = False
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)


@contextlib.contextmanager
def _without_banner(module: ModuleType):
    if sys.stderr is None:
        yield
        return
    with contextlib.redirect_stderr(_WithoutBanner(sys.stderr)):
        yield


@contextlib.contextmanager
def _without_statistics(module: ModuleType):
    yield
    module.DOWNLOAD_CHECK = True


_AROUND: dict[str, Callable[[ModuleType], AbstractContextManager]] = {
    "paddle.base": _without_banner,
    "paddlenlp.utils.downloader": _without_statistics,
    "paddlenlp.taskflow.utils": _without_statistics,
}


class _Loader(importlib.abc.Loader):
    """Run the module's own loader inside the context manager that belongs to its name."""

    def __init__(self, loader: importlib.abc.Loader, around):
        self._loader, self._around = loader, around

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on the module is its own loader's, for inspect, pkgutil and reload.
        module.__spec__.loader = module.__loader__ = self._loader
        with self._around(module):
            self._loader.exec_module(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in _AROUND:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, _AROUND[name])
        return spec


def install() -> None:
    """Install the corrections; modules that are loaded already are corrected where they can be."""
    warnings.filterwarnings("ignore", message="Setuptools is replacing distutils")
    for name, around in _AROUND.items():
        if around is _without_statistics and name in sys.modules:
            sys.modules[name].DOWNLOAD_CHECK = True
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
