"""Limits for connections that uvicorn does not have: size and time of a request's head, and number.

A client that opens hundreds of connections, or sends a head byte by byte or without end, would
otherwise use up the memory and the file descriptors of the service.
"""

from asyncio import TimerHandle

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

PATIENCE = 10  # seconds to send a request's head, to send its body, and to take an answer
MAX_HEAD = 64 * 1024  # bytes of a request's first line and headers
MAX_CONNECTIONS = 900  # fewer where the system allows fewer open files
RESERVE = 64  # open files for everything but connections


def _connection_limit() -> int:
    """How many connections may be open at once, so that files can still be opened."""
    if resource is None:
        return MAX_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = MAX_CONNECTIONS + RESERVE if files == resource.RLIM_INFINITY else files
    return max(1, min(MAX_CONNECTIONS, files - RESERVE))


class LimitedProtocol(HttpToolsProtocol):
    """One connection. While all are in use, the one that has waited longest for a head makes room.

    So clients that send requests are served, however many others only stay connected.
    """

    max_connections = _connection_limit()
    _timer: TimerHandle | None = None  # runs while a head is awaited
    _reading: TimerHandle | None = None  # runs while the client has to read before more is sent
    _in_head = True  # else in a body
    _head = 0  # bytes of the head so far

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        # tell of a single byte that is not taken: a close waits for it, without end
        transport.set_write_buffer_limits(0)
        self._wait_for_head()
        if len(self.connections) > self.max_connections:
            waiting = [other for other in self.connections if other._timer and not other._busy()]
            oldest = min(waiting, key=lambda other: other._timer.when(), default=self)
            oldest.transport.abort()
            self.connections.discard(oldest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and not self._busy():
            self._wait_for_head()
        self._head += len(data) * self._in_head
        super().data_received(data)
        if self._in_head and self._head > MAX_HEAD:
            self._refuse(f"the head of the request has more than {MAX_HEAD} bytes")

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._busy() and not self.transport.is_closing():
            self._wait_for_head()

    def pause_writing(self) -> None:
        self._reading = self.loop.call_later(PATIENCE, self.transport.abort)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        super().resume_writing()

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._stop_timer()
        problem = f"no request arrived within {PATIENCE} s"
        self._timer = self.loop.call_later(PATIENCE, self._refuse, problem)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, problem: str) -> None:
        self._stop_timer()
        if self._in_head and self._head and not self._busy():  # else it has or gets another answer
            self.send_400_response(problem)
        self.transport.close()
