"""Output directories: which command owns one, and which process is writing to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from . import files
from .errors import InputError
from .files import FULL, LEFTOVER, LOCK, lock_directory

MARKER = "run.json"  # names the command that a directory belongs to
RESUME = {"train": "--resume", "hierarchical train": "init_from_ckpt newest"}
CHECKPOINT_DIR, LOG_DIR, MODEL_DIR = "checkpoints", "logs", "model"


class OutputDir:
    """A directory for one command's results, refused where its run would replace others.

    Args:
        command: the one that it belongs to from `claim` on.
        go_on: the run resumes: the directory must be one that the same command has begun.
        again: the run may replace what the same command has written.
        keep: a glob of the command's checkpoints. A run that was killed before the first one has
            left nothing to lose, and may be started again.

    Raises:
        InputError: such a directory, one that cannot be written, or one that another process
            writes to now.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        command: str,
        go_on: bool = False,
        again: bool = False,
        keep: str | None = None,
    ) -> None:
        self.path, self.command, self.keep = Path(path), command, keep
        self.go_on, self.again = go_on, again
        if (self.path / LOCK).is_file():
            with lock_directory(self.path):
                pass
        self._check()
        files.check_writable(self.path)

    @contextmanager
    def claim(self, **notes: str) -> Iterator[None]:
        """Hold the directory for this process, and mark it as the command's, with notes.

        What killed processes have left half written is removed. The directory is checked again:
        it may have changed since.
        """
        with lock_directory(self.path), files.writing(self.path, FULL):
            barren = self._check()
            files.clear_leftovers(self.path)
            for name in (CHECKPOINT_DIR, LOG_DIR) if barren else ():
                shutil.rmtree(self.path / name, ignore_errors=True)
            with files.atomic_file(self.path / MARKER) as file:
                json.dump({"command": self.command, **notes}, file)
            yield

    @staticmethod
    def notes(path: Path) -> dict:
        """Return what `claim` wrote into a directory; empty where it did not, or it is damaged."""
        with suppress(InputError):
            marker = files.read_json(path / MARKER, "what a command wrote")
            return marker if isinstance(marker, dict) else {}
        return {}

    def _check(self) -> bool:
        """Return whether all that is there was left by a run killed before its first checkpoint."""
        owner = self.notes(self.path).get("command")
        ours = owner == self.command
        barren = ours and self.keep is not None and not any(self.path.glob(self.keep))
        passed = {MARKER, LOCK, *((CHECKPOINT_DIR, LOG_DIR) if barren else ())}
        results = any(
            path.name not in passed and not LEFTOVER.fullmatch(path.name) and _holds_files(path)
            for path in self.path.glob("*")
        )
        if owner is None and not results and (self.path / LOCK).is_file():
            ours = True  # killed before it could mark the directory
        if results and not ((self.go_on or self.again) and ours):
            what = f"holds a run of {owner}" if owner else "is not empty"
            also = f", or {RESUME[owner]} to go on with it" if ours and owner in RESUME else ""
            raise InputError(self.path, what, f"a new directory{also}")
        if self.go_on and not ours:
            expected = f"the directory of an earlier {self.command}"
            raise InputError(self.path, "holds no training", expected)
        return barren and not results


def _holds_files(path: Path) -> bool:
    return not path.is_dir() or any(not inner.is_dir() for inner in path.rglob("*"))
