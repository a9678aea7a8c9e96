"""One companion module per chapter. Nothing else in the library imports them.

`import course_lib.chapters` comes before paddle, whose C++ code reads its log level while it loads.
"""

import os

os.environ.setdefault("GLOG_minloglevel", "2")  # errors only


def quiet_logs(level: str = "ERROR") -> None:
    """Make PaddleNLP's logger print nothing below `level`."""
    from paddlenlp.utils.log import logger

    logger.set_level(level)
