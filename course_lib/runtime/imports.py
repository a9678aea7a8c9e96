"""Small corrections to paddle and paddlenlp at the moment at which they are imported.

- paddle prints a two-line warning to stderr whenever OMP_NUM_THREADS is more than 1. It concerns
  builds with OpenBLAS; the wheels that the course pins use MKL. The two lines are dropped.
- paddle replaces the process's handler of SIGTERM by one that prints a C++ trace. A handler that
  Python code has set is put back.
- paddlenlp reports the use of Taskflow and of community models to a statistics server, which
  delays a machine without a network. It has a flag for "already reported"; the flag is set.
"""

import importlib.abc
import importlib.machinery
import signal
import sys
import threading
import warnings

_STATISTICS = ("paddlenlp.utils.downloader", "paddlenlp.taskflow.utils")


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name not in ("paddle.base", *_STATISTICS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def corrected(module):
            names = vars(module)
            if name in _STATISTICS:
                execute(module)
                names["DOWNLOAD_CHECK"] = True
                return
            names["print"] = lambda *_, **options: None  # it prints nothing but the warning
            execute(module)
            del names["print"]
            handler = signal.getsignal(signal.SIGTERM)
            if callable(handler) and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)

        spec.loader.exec_module = corrected  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Install the corrections; modules that are loaded already are corrected where they can be."""
    warnings.filterwarnings("ignore", message="Setuptools is replacing distutils")
    for name in {*_STATISTICS} & {*sys.modules}:
        vars(sys.modules[name])["DOWNLOAD_CHECK"] = True
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
