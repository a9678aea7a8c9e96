"""A Chromium that a test clicks and types in, driven through its DevTools protocol."""

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.notebook.visual_logs import _browser

import pytest
import websocket


class Page:
    """One page: evaluate JavaScript in it, wait for some to be true, type, press keys."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=300, suppress_origin=True)
        self._count = 0

    def send(self, method: str, **parameters: object) -> dict:
        self._count += 1
        self._socket.send(json.dumps({"id": self._count, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._count:
                if "error" in answer:  # "Execution context was destroyed": another page came
                    raise RuntimeError(method, answer["error"])
                return answer["result"]

    def run(self, script: str) -> object:
        """Return what an expression gives; a promise is awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    def until(self, script: str, seconds: float = 120) -> object:
        """Return the first true value of an expression; one that raises is asked again, too."""
        value = f"const v = {script}; return typeof v == 'object' ? !!v : v"
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):
                if found := self.run(f"(() => {{ try {{ {value} }} catch {{ return null }} }})()"):
                    return found
            time.sleep(0.2)
        text = self.run("document.body.innerText")
        raise AssertionError(f"not within {seconds} s: {script}\n{str(text)[-3000:]}")

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)


@contextmanager
def page(url: str) -> Iterator[Page]:
    """Open `url`; a test is skipped, in words, where there is no browser."""
    if (command := _browser()) is None:
        pytest.skip("no Chromium or Chrome is installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = [f"--user-data-dir={profile}", "--remote-debugging-port=0"]
        options += ["--window-size=1400,1000", "about:blank"]
        process = subprocess.Popen([*command, *options], stderr=subprocess.DEVNULL)
        try:
            found = Path(profile, "DevToolsActivePort")
            for _ in range(300):
                if found.is_file() and len(lines := found.read_text().split()) == 2:
                    break
                time.sleep(0.1)
            else:
                pytest.skip("the browser does not start within 30 s")
            browser = Page(f"ws://127.0.0.1:{lines[0]}{lines[1]}")
            target = browser.send("Target.createTarget", url=url)["targetId"]
            yield Page(f"ws://127.0.0.1:{lines[0]}/devtools/page/{target}")
        finally:
            process.terminate()
            process.wait(20)
