"""An HTTP service for an exported model: many small requests, few large batches.

    POST /predict   {"text": "..."} or {"texts": ["...", ...]}; for pairs and questions one example
                    or {"examples": [...]}, as /health names its fields; answers as `predict` does
    GET  /health    what is served, and how busy it is
    GET  /          a page to try it out

The event loop reads and checks requests, a `Batcher` has them answered. What does not fit is
refused with a status of 400 to 422 and {"error": ...}; what is too much at the moment, with 503.
Slow and idle connections are not limited here: where strangers come, put a proxy before it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

from ..runtime import InputError
from ..runtime.visible import is_blank
from .batcher import Batcher, Limits, Refused
from .predictor import Predictor

import uvicorn
from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, create_model
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

PATIENCE = 10  # seconds that the body of a request may take
MAX_DROPPED = 2**26  # bytes of a body that are read at most, so that its client gets an answer
GRACE = 30  # seconds that accepted requests have to be answered in, once the service is to stop
PAGE = Path(__file__).with_name("page.html")
MANY = ("texts", "examples")  # the key of a list, where an example is a text, and elsewhere
_CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tab and line breaks


def make_app(
    predictor: Predictor, limits: Limits | None = None, allow_hosts: Iterable[str] = ()
) -> FastAPI:
    """The service as an ASGI application; `app.state.batcher` is its Batcher.

    Args:
        allow_hosts: names that the Host header may have, besides "localhost" and any address in
            numbers.

    Raises:
        InputError: the model has no task that the course knows, or no tokenizer.
    """
    limits = limits or Limits()
    fields = predictor.task.fields
    predictor.classify([dict.fromkeys(fields, "预热")])  # finds out now what is wrong; and warms up
    batcher, form = Batcher(predictor, limits), _form(limits, fields)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await asyncio.to_thread(batcher.stop)

    handlers: Any = dict.fromkeys((HTTPException, Exception), _answer_error)
    # FastAPI's own documentation pages load scripts from elsewhere
    app = FastAPI(
        lifespan=lifespan,
        openapi_url=None,
        exception_handlers=handlers,
        dependencies=[Depends(_host_check({"localhost", *allow_hosts}))],
    )
    app.state.batcher = batcher

    @app.get("/")
    async def page() -> HTMLResponse:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
        policy += "; connect-src 'self'; img-src data:; frame-ancestors 'none'"
        text = PAGE.read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    @app.api_route("/health", methods=["GET", "HEAD"])  # watchers ask with either
    async def health() -> JSONResponse:
        state = {
            "status": "stopping" if batcher.stopping else "ok",
            "model": predictor.path.name,
            "backend": predictor.backend,
            "int8": predictor.int8,
            "task": predictor.task.name,
            "fields": fields,
            "problem": predictor.problem,
            "labels": predictor.labels,
            **{key: getattr(batcher, key) for key in ("busy", "accepted", "answered", "batches")},
        }
        return JSONResponse(state, 503 if batcher.stopping else 200)

    @app.post("/predict")
    async def predict(request: Request) -> JSONResponse:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # also: what another site's page may send without asking
            raise Refused(415, "expected the header Content-Type: application/json")
        try:
            body = await asyncio.wait_for(_read(request, limits.max_body), PATIENCE)
        except (ClientDisconnect, asyncio.TimeoutError):
            raise Refused(408, f"the body did not arrive within {PATIENCE} s") from None
        examples, several = _parse(body, form, fields)
        answers = await batcher.classify(examples)
        return JSONResponse({"results": answers} if several else answers[0])

    return app


def _host_check(names: Iterable[str]) -> Callable[[Request], Awaitable[None]]:
    """Refuse requests whose Host header is a name that this service does not have.

    A page of another site can have its own name point to this machine, and would then be allowed to
    read the answers (DNS rebinding). Addresses in numbers cannot be misused in this way.
    """
    own = set(map(_host_name, names))

    async def check(request: Request) -> None:
        host = request.headers.get("host", "")
        name = _host_name(host)
        if host and name not in own:  # browsers always name a host
            try:
                ipaddress.ip_address(name)
            except ValueError:
                problem = f"the host {host[:100]!r} is not served here; --allow_host allows it"
                raise Refused(421, problem) from None

    return check


def _host_name(host: str) -> str:
    """A host without its port, the brackets of an address, and a dot at its end."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdigit() else host).strip("[]").rstrip(".").lower()


async def _answer_error(request: Request, error: Exception) -> JSONResponse:
    """Say with a status and {"error": ...} what is refused, or that the model failed."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": "the model failed on this; the service goes on"}, 500)


async def _read(request: Request, max_body: int) -> bytes:
    """The body. Of one that is too long the rest is read, too, and dropped.

    A connection that is closed while its client still sends is reset, and the answer may be lost.
    """
    body, size = bytearray(), int(request.headers.get("content-length", 0))
    if size <= max(MAX_DROPPED, max_body):
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= max_body:
                body += chunk
            elif size > MAX_DROPPED:
                break
    if size > max_body:
        raise Refused(413, f"the body has more than {max_body} bytes", {"Connection": "close"})
    return bytes(body)


def _form(limits: Limits, fields: Sequence[str]) -> type[BaseModel]:
    """What the JSON of a request may hold."""
    text = Annotated[str, Field(max_length=limits.max_characters), AfterValidator(_readable)]
    config = ConfigDict(extra="forbid", strict=True)
    item: Any = text
    if len(fields) > 1:
        one: Any = dict.fromkeys(fields, (text, ...))
        item = create_model("Example", __config__=config, **one)
    items = Annotated[list[item], Field(min_length=1, max_length=limits.max_texts)]
    columns: Any = {**dict.fromkeys(fields, (text, None)), MANY[len(fields) > 1]: (items, None)}
    return create_model("Body", __config__=config, **columns)


def _readable(text: str) -> str:
    if control := _CONTROL.search(text):
        raise ValueError(f"it holds a control character, U+{ord(control[0]):04X}")
    if is_blank(text):
        raise ValueError("it is empty, or holds nothing that can be seen")
    return text


def _parse(body: bytes, form: type[BaseModel], fields: Sequence[str]) -> tuple[list, bool]:
    """The examples in the body of a request, and whether they were a list."""
    many = MANY[len(fields) > 1]
    one = "{" + ", ".join(f'"{field}": "..."' for field in fields) + "}"
    each = one if len(fields) > 1 else '"..."'
    usage = f'expected {one} or {{"{many}": [{each}, ...]}}'
    try:
        content = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Refused(400, f"the body is not JSON in UTF-8: {reason}") from None
    try:
        form.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] in ("model_type", "extra_forbidden"):
            raise Refused(422, usage) from None
        place = "".join(f"[{each}]" if isinstance(each, int) else each for each in first["loc"])
        raise Refused(422, f"{place}: {first['msg'].removeprefix('Value error, ')}") from None
    if set(content) == {many}:
        return content[many], True
    if set(content) != set(fields):
        raise Refused(422, usage)
    return [content if len(fields) > 1 else content["text"]], False


class _Server(uvicorn.Server):
    def handle_exit(self, number, frame) -> None:
        self.config.app.state.batcher.stopping = True  # refused from now on, not at the next tick
        super().handle_exit(number, frame)

    async def startup(self, sockets=None) -> None:
        await super().startup(sockets)
        host, port = sockets[0].getsockname()[:2]
        print(f"serving at http://{f'[{host}]' if ':' in host else host}:{port}", flush=True)


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C; then answer what was accepted, and return.

    Prints the address when it is ready, and in the end how many texts were accepted and answered.
    """
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE,
    )
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again when it is done
        signal.signal(number, lambda *_: None)
    _Server(config).run(sockets=[listener])
    batcher = app.state.batcher
    print(json.dumps({"accepted": batcher.accepted, "answered": batcher.answered}), flush=True)


def listen(host: str, port: int) -> socket.socket:
    """Take an address, before a model is loaded for it; port 0 means any free one."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except (OSError, ValueError) as error:  # a ValueError: no name of a host at all
        problem = f"cannot be used ({getattr(error, 'strerror', None) or error})"
        raise InputError(f"{host}:{port}", problem, "a free address of this machine") from None
