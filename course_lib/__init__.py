"""A small PaddleNLP library that grows with the course's notebooks.

Import it before paddle: paddle 2.6 brings its own zlib and reads its thread settings while it
loads, and `runtime.prepare` has to come first (see `course_lib.runtime.tuning`). Importing this
package does not import paddle itself.
"""

import sys

from . import runtime

__version__ = "0.1.0"
__all__ = ["runtime"]

try:
    runtime.prepare()
except runtime.InputError as error:
    if sys.argv[:1] != ["-m"]:
        raise
    # `python -m course_lib` imports this before its own main can catch anything.
    print(f"error: {error}", file=sys.stderr)
    raise SystemExit(2) from None
