"""What must happen before paddle loads, and the choices that every later layer shares."""

from .device import select_device
from .errors import InputError
from .files import atomic_directory, atomic_file, check_writable, scratch_dir
from .settings import Profile, data_dir, profile, seed_everything
from .tuning import applied, prepare
