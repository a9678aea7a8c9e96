"""What must happen before paddle loads, and the choices that every later layer shares."""

from course_lib.runtime.device import select_device
from course_lib.runtime.errors import InputError
from course_lib.runtime.files import atomic_directory, atomic_file, check_writable, scratch_dir
from course_lib.runtime.settings import Profile, data_dir, profile, seed_everything
from course_lib.runtime.tuning import applied, prepare
