"""The library behind the PaddleNLP course.

Import it before paddle: `course_lib.runtime` puts right what must be right before paddle loads.
"""

from course_lib import runtime

__version__ = "0.1.0"

runtime.prepare()
