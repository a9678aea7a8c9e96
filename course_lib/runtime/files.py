"""Reading whole files, writing that never leaves half of one, locks and scratch_dir."""

import atexit
import contextlib
import ctypes
import errno
import json
import os
import re
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from .errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
TRIES = 100  # while other processes replace the same directory
Result = TypeVar("Result")
LOCK = ".lock"  # of a scratch directory, beside it
LEFTOVER = re.compile(r"\..+\.tmp-\d{10,}")  # the names that `_temporary` gives


def read_bytes(path: str | os.PathLike) -> bytes:
    """Read a whole file.

    Raises:
        InputError: it does not exist, is empty, may not be read, or is a directory, a device or a
            pipe, which have no end.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise InputError(path, "is a directory", "a file")
        if path.exists() and not path.is_file():
            raise InputError(path, "is a device or a pipe", "a file")
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(path, "does not exist", "an existing file") from None
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror})", "a readable file") from None
    if not content:
        raise InputError(path, "is empty", "at least one example")
    return content


def read_json(path: str | os.PathLike, expected: str) -> Any:
    """What a JSON file in UTF-8 holds.

    Raises:
        InputError: as `read_bytes`, or it is not JSON; it says what is `expected`.
    """
    try:
        return json.loads(read_bytes(path).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        problem = getattr(error, "problem", f"is not JSON ({reason})")
        raise InputError(path, problem, expected) from None


@contextmanager
def atomic_file(path: str | os.PathLike, mode: str = "w", **open_options) -> Iterator[IO]:
    """Open `path` for writing so that it appears whole or not at all.

    Text is UTF-8 with LF line ends unless `open_options` says otherwise. An exception inside the
    block removes the temporary file and leaves an existing `path` as it was, which also lends its
    permissions to the new one. A symbolic link stays, and what it points to is replaced. What is
    no regular file (a device, a pipe) cannot be renamed over and is written to directly.

    Args:
        mode: "w" or "wb".

    Raises:
        InputError: `path` cannot be written, or the disk is full.
    """
    if mode == "w":
        open_options = {"encoding": "utf-8", "newline": "\n", **open_options}
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InputError(path, "is a directory", "the name of a file to write")
    regular = target.is_file() or not target.exists()
    temporary = _temporary(target) if regular else target
    try:
        with writing(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            handle = open(temporary, mode, **open_options)  # noqa: SIM115, closed by the next `with`
        with writing(path, FULL), handle:
            yield handle
            if regular:
                handle.flush()
                os.fsync(handle.fileno())
        with writing(path):
            if target.is_file():
                shutil.copymode(target, temporary)
            if regular:
                os.replace(temporary, target)
    finally:
        if regular:
            with contextlib.suppress(OSError):
                temporary.unlink()


@contextmanager
def atomic_directory(path: str | os.PathLike, mark: str | None = None) -> Iterator[Path]:
    """Yield a temporary directory that becomes `path` when the block ends well.

    An existing `path` is kept until the new one is complete; then they change places in one step.
    Where the system or the disk cannot do that (`_exchange`), it takes two renames, between which
    the old one is called `.NAME.previous`; if a crash left it so, the next writer or `read_unmixed`
    puts it back. Of two writers at once the later one wins, whole.
    A symbolic link stays, and the directory that it points to is replaced.

    Args:
        mark: a file that only directories of this kind have; any other directory with files in it
            is not replaced.

    Raises:
        InputError: the parent cannot be written, the disk is full, or `path` is a file, or holds
            something without the `mark`.
    """
    target = Path(os.path.realpath(path))
    previous = target.with_name(f".{target.name}.previous")
    with writing(path):
        _settle(previous, target, _temporary(target))
        _check_place(path, mark)
    with temporary_in(target.parent, target.name, path) as temporary:
        yield temporary
        with writing(path):
            for file in temporary.rglob("*"):
                if file.is_file():
                    with open(file, "rb") as handle:
                        os.fsync(handle.fileno())
            _check_place(path, mark)
            _replace(temporary, target, previous)


def _check_place(path: str | os.PathLike, mark: str | None) -> None:
    if os.path.exists(path) and not os.path.isdir(path):
        raise InputError(path, "is a file", "the name of a directory to write")
    names = {mark}
    if mark is not None:
        with contextlib.suppress(FileNotFoundError):
            names = set(read_unmixed(path, lambda: os.listdir(path)))
    if names and mark not in names:
        problem = f"holds files, but no {mark}: all of them would be lost"
        raise InputError(path, problem, "a new directory, or an older one of this kind")


def _replace(temporary: Path, target: Path, previous: Path) -> None:
    """Replace `target` by `temporary`, although it may be missing or change meanwhile."""
    for left in reversed(range(TRIES)):
        try:
            if not target.exists() or not _exchange(temporary, target):
                if target.exists():
                    target.rename(previous)
                temporary.rename(target)
            break
        except OSError as error:
            met = error.errno in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY)  # another writer
            if not met or not left:
                raise
        finally:
            _settle(previous, target, temporary.with_name(f"{temporary.name}0"))


def _settle(previous: Path, target: Path, trash: Path) -> None:
    """Put back what a kill between two renames left, or remove it where it is not needed."""
    with contextlib.suppress(OSError):  # there is none, or another writer does the same
        if not target.exists():
            previous.rename(target)
        previous.rename(trash)  # so that no other process puts back half of it
    shutil.rmtree(trash, ignore_errors=True)


def discard(path: Path) -> None:
    """Delete a directory; a kill half-way leaves nothing that looks like one."""
    trash = _temporary(path)
    shutil.rmtree(trash, ignore_errors=True)
    path.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def clear_leftovers(directory: Path) -> None:
    """Clear what killed processes left half written or half deleted where this one writes alone."""
    for previous in list(directory.rglob(".*.previous")):
        target = previous.with_name(previous.name[1:].removesuffix(".previous"))
        _settle(previous, target, _temporary(target))
    for path in [path for path in directory.rglob(".*-*") if LEFTOVER.fullmatch(path.name)]:
        shutil.rmtree(path, ignore_errors=True)  # does nothing to files and links
        with contextlib.suppress(OSError):
            path.unlink()


def _exchange(one: Path, other: Path) -> bool:
    """Let two directories change places in one step, or say that this system or disk cannot."""
    libc: Any = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    if not hasattr(libc, "renameat2"):  # Linux only
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    failed = libc.renameat2(here, os.fsencode(one), here, os.fsencode(other), swap)
    if failed and ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return not failed


def read_unmixed(directory: str | os.PathLike, read: Callable[[], Result]) -> Result:
    """Read a directory as it was before or after a replacement, never a mix of both.

    It is called again when `atomic_directory` has replaced the directory meanwhile.

    Raises:
        InputError: the directory was replaced too often; also what `read` raises.
    """
    real = Path(os.path.realpath(directory))
    previous = real.with_name(f".{real.name}.previous")
    for trial in range(TRIES):
        if trial == TRIES // 2:  # no writer takes so long: one was killed between its two renames
            _settle(previous, real, _temporary(real))
        before = _identity(real)
        try:
            result = read()
            if _identity(real) == before:
                return result
        except Exception:
            between_renames = before is None and (previous.exists() or real.exists())
            if _identity(real) == before and not between_renames:
                raise
        time.sleep(0.01)
    problem = f"was missing or replaced each of the {TRIES} times that it was read"
    raise InputError(directory, problem, "a directory that no other process writes")


def _identity(directory: Path) -> tuple[int, int, int] | None:
    """What differs between a directory and a later one in its place; None where there is none."""
    with contextlib.suppress(OSError):
        state = directory.stat()
        return state.st_dev, state.st_ino, state.st_ctime_ns
    return None


@contextmanager
def temporary_in(
    directory: str | os.PathLike, name: str = "new", named: str | os.PathLike | None = None
) -> Iterator[Path]:
    """Yield a temporary directory within `directory`, for files that are then moved there.

    Args:
        name: what is made: a part of the temporary name.
        named: what errors name instead of `directory`.
    """
    named, temporary = named or directory, _temporary(Path(directory, name))
    with writing(named):
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
    try:
        with writing(named, FULL):
            yield temporary
    except InputError as error:
        where = os.path.relpath(error.where, temporary)
        if where.startswith(".."):
            raise
        raise InputError(Path(named, where), error.problem, error.expected, error.line) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _hold(path: str | os.PathLike) -> IO | None:
    """Open and lock a file, made if it is not there, until it is closed or the process has ended.

    On a system or disk without locks the file is only opened.

    Returns:
        The open file, or None while another one holds it.
    """
    handle = open(path, "a")  # noqa: SIM115, open is what holds it
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        handle.close()
        return None
    except OSError:  # a disk of the network that knows no locks
        pass
    return handle


@contextmanager
def lock_directory(output_dir: str | os.PathLike) -> Iterator[None]:
    """Hold a directory, made if it is not there; an InputError where another process holds it."""
    Path(output_dir).mkdir(parents=True, exist_ok=True)
    lock = _hold(Path(output_dir, LOCK))
    if lock is None:
        expected = "another directory, or to wait until it has ended"
        raise InputError(output_dir, "is in use: another process is writing to it", expected)
    with lock:
        yield


def scratch_dir(name: str) -> Path:
    """Make an empty directory for what a notebook writes, which goes when its process does.

    A process that was killed (nbval kills each kernel) cannot remove its directory, so the next
    call does, of whatever name; a chapter leaves up to 1 GB. Systems without locks, such as
    Windows, keep it. The lock lies beside the directory: copies of it are not cleared.
    """
    with writing("TMPDIR"):
        place = Path(tempfile.gettempdir())
        _clear_scratch(place)
        directory = place / f"course-{name}-{uuid.uuid4().hex[:8]}"
        lock = _hold(f"{directory}{LOCK}")
        directory.mkdir(mode=0o700)
    atexit.register(_remove, directory, os.getpid(), lock)
    return directory


def _remove(directory: Path, owner: int, lock: IO | None) -> None:
    if os.getpid() == owner:  # not a fork that ends; the lock is held until here
        shutil.rmtree(directory, ignore_errors=True)
        Path(f"{directory}{LOCK}").unlink(missing_ok=True)


def _clear_scratch(place: Path) -> None:
    """Remove what `scratch_dir` has made in processes that have ended."""
    for lock in place.glob(f"course-*{LOCK}") if fcntl is not None else ():
        # In use, another user's, or without locks nobody can tell.
        with contextlib.suppress(OSError), open(lock, "a") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()


def check_writable(directory: str | os.PathLike) -> None:
    """Refuse, before the work whose results it is to hold, a directory that cannot be written."""
    path = Path(directory).absolute()
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not existing.is_dir():
        problem = "is a file" if existing == path else f"cannot be written ({existing} is a file)"
        raise InputError(directory, problem, "the name of a directory to write")
    with writing(directory):
        tempfile.TemporaryFile(dir=existing).close()


def _temporary(target: Path) -> Path:
    return target.with_name(f".{target.name}.tmp-{os.getpid()}{threading.get_ident()}")


@contextmanager
def writing(path: str | os.PathLike, only: frozenset[int] | None = None) -> Iterator[None]:
    """Turn what the system says of a place that cannot be written into an InputError.

    It names the place and how much room is left there.

    Args:
        path: the place, for the message.
        only: the error numbers to translate (`FULL`): what is written to `path` may fail for
            other reasons, which are not about `path`.
    """
    try:
        yield
    except OSError as error:
        if only is not None and error.errno not in only:
            raise
        room = ""
        with contextlib.suppress(OSError, StopIteration):
            places = (Path(path).absolute(), *Path(path).absolute().parents)
            free = shutil.disk_usage(next(one for one in places if one.is_dir())).free
            room = f"; {free / 1e6:,.1f} MB are free there"
        problem = f"cannot be written ({error.strerror or error}{room})"
        raise InputError(path, problem, "a writable place with room on it") from error
