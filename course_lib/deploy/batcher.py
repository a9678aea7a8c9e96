"""Dynamic batching: the texts of many small requests in few runs of the model.

While the one thread that has the Predictor works on a batch, the next one gathers in a queue. Under
load batches fill by themselves; a short wait helps while there is little to do.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from ..runtime import InputError
from .predictor import Predictor

from starlette.exceptions import HTTPException

RETRY = {"Retry-After": "1"}  # second


@dataclass(frozen=True)
class Limits:
    """What one request, and all that wait, may ask for.

    Attributes:
        max_batch: texts of one run of the model; 1 turns batching off.
        max_wait_ms: how long an incomplete batch waits for more, in milliseconds.
        queue: texts that may wait or be worked on; a request beyond it is refused.
        max_texts: of one request.
        max_characters: of one text.
        max_body: bytes.

    Raises:
        InputError: a request of `max_texts` never fits into the queue.
    """

    max_batch: int = 16
    max_wait_ms: int = 2
    queue: int = 256
    max_texts: int = 64
    max_characters: int = 2000
    max_body: int = 2**20

    def __post_init__(self) -> None:
        if self.queue < self.max_texts:
            expected = f"at least max_texts, {self.max_texts}: such a request would never fit"
            raise InputError("queue", f"is {self.queue}", expected)


class Refused(HTTPException):
    """A request that gets no answer, with its HTTP status and the reason in words."""


Example = str | Mapping[str, str]


class Batcher:
    """Gathers the texts of waiting requests into batches, which one thread runs."""

    def __init__(self, predictor: Predictor, limits: Limits) -> None:
        self.predictor, self.limits = predictor, limits
        self.stopping = False
        self.busy = self.accepted = self.answered = self.batches = 0  # texts, but for batches
        self._jobs: deque[tuple[list[Example], asyncio.Future]] = deque()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="predictor")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, and return when all that was accepted is answered."""
        with self._changed:
            self.stopping = True
            self._changed.notify()
        self._thread.join()

    async def classify(self, texts: list[Example]) -> list[dict]:
        """Wait for a place in a batch and for its answers.

        Args:
            texts: at least one; examples, where a task has more than a text.

        Raises:
            Refused: the queue is full, or the service is about to stop.
        """
        job = (texts, asyncio.get_running_loop().create_future())
        with self._changed:
            if self.stopping:
                raise Refused(503, "the service is stopping", RETRY)
            if self.busy + len(texts) > self.limits.queue:
                raise Refused(503, "too many texts are waiting", RETRY)
            self._jobs.append(job)
            self.busy += len(texts)
            self.accepted += len(texts)
            self._changed.notify()
        return await job[1]

    def _work(self) -> None:
        while jobs := self._gather():
            answers = self._answer(jobs)
            self.batches += 1
            jobs[0][1].get_loop().call_soon_threadsafe(self._deliver, jobs, answers)

    def _gather(self) -> list[tuple[list[Example], asyncio.Future]]:
        """The next jobs; none when the service stops. A full batch leaves at once."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs or self.stopping)
            self._changed.wait_for(self._is_full, self.limits.max_wait_ms / 1000)
            return self._take()

    def _is_full(self) -> bool:
        return self.stopping or sum(len(texts) for texts, _ in self._jobs) >= self.limits.max_batch

    def _take(self) -> list[tuple[list[Example], asyncio.Future]]:
        """The job that has waited longest, and with it those of the most similar length.

        A batch is as long as its longest text. As the oldest always goes, none waits for ever.
        """
        if not self._jobs:
            return []
        length = {id(job): max(len(str(each)) for each in job[0]) for job in self._jobs}
        wanted = length[id(self._jobs[0])]
        taken: set[int] = set()
        room = self.limits.max_batch
        for job in sorted(self._jobs, key=lambda job: abs(length[id(job)] - wanted)):  # stable
            if len(job[0]) <= room or not taken:
                taken.add(id(job))
                room -= len(job[0])
        jobs = [job for job in self._jobs if id(job) in taken]
        self._jobs = deque(job for job in self._jobs if id(job) not in taken)
        return jobs

    def _answer(self, jobs: list) -> list[list[dict] | Exception]:
        gathered = [text for texts, _ in jobs for text in texts]
        try:
            rows = iter(self.predictor.classify(gathered, self.limits.max_batch))
        except Exception as error:
            if len(jobs) == 1:
                return [error]
            return [answer for job in jobs for answer in self._answer([job])]  # spare the others
        return [[next(rows) for _ in texts] for texts, _ in jobs]

    def _deliver(self, jobs: list, answers: list) -> None:
        for (texts, future), answer in zip(jobs, answers, strict=True):
            self.busy -= len(texts)
            self.answered += len(texts)
            if future.done():  # its client has gone
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
