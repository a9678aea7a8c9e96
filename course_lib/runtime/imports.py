"""Small corrections to paddle and paddlenlp at the moment at which they are imported.

- paddle prints a two-line warning to stderr whenever OMP_NUM_THREADS is more than 1. It concerns
  builds with OpenBLAS; the wheels that the course pins use MKL. The two lines are dropped.
- paddle replaces the process's handler of SIGTERM by one that prints a C++ trace. A handler that
  Python code has set is put back.
- paddlenlp reports the use of Taskflow and of community models to a statistics server, which
  delays a machine without a network. It has a flag for "already reported"; the flag is set.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import signal
import sys
import threading
import warnings

_STATISTICS = ("paddlenlp.utils.downloader", "paddlenlp.taskflow.utils")


class _Loader(importlib.abc.Loader):
    """Run the module's own loader, and correct the module."""

    def __init__(self, loader: importlib.abc.Loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on the module is its own loader's, for inspect, pkgutil and reload.
        module.__spec__.loader = module.__loader__ = self._loader
        names = vars(module)
        if module.__name__ in _STATISTICS:
            self._loader.exec_module(module)
            names["DOWNLOAD_CHECK"] = True
            return
        names["print"] = lambda *_, **options: None  # paddle.base prints nothing but the warning
        self._loader.exec_module(module)
        del names["print"]
        handler = signal.getsignal(signal.SIGTERM)
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in ("paddle.base", *_STATISTICS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Install the corrections; modules that are loaded already are corrected where they can be."""
    warnings.filterwarnings("ignore", message="Setuptools is replacing distutils")
    for name in _STATISTICS:
        if name in sys.modules:
            vars(sys.modules[name])["DOWNLOAD_CHECK"] = True
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
