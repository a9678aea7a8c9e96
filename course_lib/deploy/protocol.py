"""Limits for connections that uvicorn does not have: size and time of a request's head, and number.

A client that opens hundreds of connections, or sends a head byte by byte or without end, would
otherwise use up the memory and the file descriptors of the service.
"""

from __future__ import annotations

import ipaddress
from asyncio import TimerHandle

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE = 10  # seconds to send a request's head, to send its body, and to take an answer
MAX_HEAD = 64 * 1024  # bytes of a request's first line and headers
MAX_CONNECTIONS = 1000  # fewer where the system allows fewer open files, see `connection_limit`
MAX_PIPELINED = 100  # requests of a connection that wait for the answer of an earlier one
RESERVE = 64  # open files for everything but connections


def connection_limit() -> int:
    """How many connections may be open at once, after asking the system for enough open files."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return MAX_CONNECTIONS
    wanted = MAX_CONNECTIONS + RESERVE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and soft < wanted:
        soft = min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, soft - RESERVE))


class LimitedProtocol(HttpToolsProtocol):
    """One connection. While all are in use, the one that has waited longest for a head makes room.

    So clients that send requests are served, however many others only stay connected.
    """

    max_connections = MAX_CONNECTIONS
    _timer: TimerHandle | None = None  # runs while a head is awaited
    _reading: TimerHandle | None = None  # runs while the client has to read before more is sent
    _in_head = True  # else in a body
    _head = 0  # bytes of the head so far
    _answering = None  # the request whose answer is being made

    def connection_made(self, transport) -> None:
        super().connection_made(transport)
        # tell of a single byte that is not taken: a close waits for it, without end
        transport.set_write_buffer_limits(0)
        self._wait_for_head()
        if len(self.connections) > self.max_connections:
            waiting = [other for other in self.connections if other._timer and not other._busy()]
            oldest = min(waiting, key=lambda other: other._timer.when(), default=self)
            oldest._drop()
            self.connections.discard(oldest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_answering()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and not self._busy():
            self._wait_for_head()
        self._head += len(data) * self._in_head
        super().data_received(data)
        if self._in_head and self._head > MAX_HEAD:
            self._refuse(431, f"the head of the request has more than {MAX_HEAD} bytes")

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        super().on_headers_complete()
        if len(self.pipeline) > MAX_PIPELINED:
            self._drop()

    def _start_asgi_task(self, cycle, app) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._busy() and not self.transport.is_closing():
            self._wait_for_head()

    def pause_writing(self) -> None:
        self._reading = self.loop.call_later(PATIENCE, self._drop)
        super().pause_writing()

    def resume_writing(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        super().resume_writing()

    def _drop(self) -> None:
        self._stop_answering()
        self.transport.abort()

    def _stop_answering(self) -> None:
        """Let nothing be written any more; of pipelined requests uvicorn tells only the newest."""
        if self._answering is not None:
            self._answering.disconnected = True

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_head(self) -> None:
        self._stop_timer()
        problem = f"no request arrived within {PATIENCE} s"
        self._timer = self.loop.call_later(PATIENCE, self._refuse, 408, problem)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, problem: str) -> None:
        self._stop_timer()
        if self._in_head and self._head and not self._busy():  # else it has or gets another answer
            body = JSONResponse({"error": problem}).body
            lines = (
                f"HTTP/1.1 {status} Refused",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
                "Connection: close",
            )
            self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
        self.transport.close()


class AllowedHosts:
    """Refuse requests whose Host header is a name that this service does not have.

    A page of another site can have its own name point to this machine, and would then be allowed to
    read the answers (DNS rebinding). Addresses in numbers cannot be misused in this way.
    """

    def __init__(self, app: ASGIApp, names: set[str]) -> None:
        self.app, self.names = app, set(map(_host_name, names))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if not self._allowed(host):
                problem = f"the host {host[:100]!r} is not served here; --allow_host allows it"
                return await JSONResponse({"error": problem}, 421)(scope, receive, send)
        await self.app(scope, receive, send)

    def _allowed(self, host: str) -> bool:
        name = _host_name(host)
        if not host or name in self.names:  # browsers always name a host
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def _host_name(host: str) -> str:
    """A host without its port, the brackets of an address, and a dot at its end."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).strip("[]").rstrip(".").lower()
