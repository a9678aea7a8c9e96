"""What must happen before paddle loads, and the choices that every later layer shares."""

from course_lib.runtime.errors import InputError
from course_lib.runtime.files import atomic_directory, atomic_file

__all__ = ["InputError", "atomic_directory", "atomic_file", "prepare"]


def prepare() -> None:  # replaced by course_lib.runtime.tuning
    import zlib

    zlib.compress(b"")
