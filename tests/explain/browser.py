"""A headless Chromium, spoken to by the WebDriver protocol over HTTP; as much of it as the tests need.

Reference: W3C WebDriver, 2018.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no Chromium here: install Debian's chromium and chromium-driver"
)
_ARGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--force-device-scale-factor=1"]


class Browser:
    """A session; use as a context manager."""

    def __init__(self, profile: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._profile, self._base = profile, ""

    def __enter__(self) -> Browser:
        assert DRIVER is not None
        self._process = subprocess.Popen(
            [DRIVER, f"--port={self._port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        options = {"binary": CHROMIUM, "args": [*_ARGS, f"--user-data-dir={self._profile}"]}
        always = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        deadline = time.monotonic() + 60
        while True:
            try:
                session = self._send("POST", "/session", {"capabilities": {"alwaysMatch": always}})
                break
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > deadline or self._process.poll() is not None:
                    self._process.kill()
                    self._process.wait()
                    raise
                time.sleep(0.1)
        self._base = f"/session/{session['sessionId']}"
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._send("DELETE", self._base)
        finally:
            self._process.terminate()
            self._process.wait(timeout=30)

    def open(self, path: Path) -> None:
        """Load a file, to the end."""
        self._send("POST", f"{self._base}/url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *args: Any) -> Any:
        """What a function body of JavaScript returns."""
        return self._send("POST", f"{self._base}/execute/sync", {"script": script, "args": list(args)})

    def click(self, x: float, y: float, times: int = 1) -> None:
        """Press the mouse at a place of the window."""
        press = [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        steps = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}, *press * times]
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": steps}
        self._send("POST", f"{self._base}/actions", {"actions": [mouse]})

    def type(self, selector: str, text: str) -> None:
        """Write into a field."""
        found = self._send("POST", f"{self._base}/element", {"using": "css selector", "value": selector})
        self._send("POST", f"{self._base}/element/{next(iter(found.values()))}/value", {"text": text})

    def problems(self) -> list[str]:
        """Errors and warnings of the console since the last question."""
        lines = self._send("POST", f"{self._base}/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def screenshot(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self._send("GET", f"{self._base}/screenshot"))

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self._port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]
