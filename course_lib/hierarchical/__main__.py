"""`python -m course_lib.hierarchical`, and the script that paddle.distributed.launch starts."""

from importlib import import_module
from pathlib import Path

# The library's name: this file may run as a script, which cannot import relatively.
PACKAGE = (__package__ or Path(__file__).resolve().parent.parent.name).removesuffix(".hierarchical")
main = import_module(f"{PACKAGE}.cli.hierarchical").main

if __name__ == "__main__":
    raise SystemExit(main())
