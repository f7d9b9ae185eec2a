"""A page in headless Chromium, driven over the DevTools protocol with the WebSocket client of aiohttp."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

#: Names under which systems install it. `SSSP_CHROMIUM` names another one.
_COMMANDS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
#: Seconds for the start, and for the answer to a command.
_TIMEOUT_S = 30


def chromium_command() -> str | None:
    """Return the command of a Chromium on this machine, None if there is none."""
    named = os.environ.get("SSSP_CHROMIUM")
    return named or next(filter(None, map(shutil.which, _COMMANDS)), None)


class BrowserPage:
    """One page. `heard` gets what the page reports: messages of the console, errors, requests."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._n_sent, self._session = socket, 0, None
        self.heard: list[tuple[str, dict]] = []

    async def send(self, method: str, **parameters: Any) -> dict:
        """Return the answer to a command."""
        self._n_sent += 1
        message = {"id": self._n_sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            answer = await self._next()
            if answer.get("id") == self._n_sent:
                assert "error" not in answer, answer
                return answer["result"]

    async def _next(self) -> dict:
        message = await asyncio.wait_for(self._socket.receive_json(), _TIMEOUT_S)
        if "method" in message:
            self.heard.append((message["method"], message["params"]))
        return message

    async def open(self, url: str, width: int, height: int, scheme: str = "light") -> None:
        """Load `url` in a window of that size, in the colour scheme "light" or "dark"."""
        if self._session is None:
            target = await self.send("Target.createTarget", url="about:blank")
            self._session = (await self.send("Target.attachToTarget", flatten=True, **target))["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                await self.send(f"{domain}.enable")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.send("Emulation.setDeviceMetricsOverride", **size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.send("Emulation.setEmulatedMedia", features=features)
        self.heard.clear()
        await self.send("Page.navigate", url=url)
        await self.loaded()

    async def loaded(self) -> None:
        """Wait until a page has loaded since `heard` was cleared."""
        while not any(method == "Page.loadEventFired" for method, _ in self.heard):
            await self._next()

    async def value(self, expression: str) -> Any:
        """Return the value of an expression in JavaScript."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def press(self, key: str, code: int) -> None:
        """Press a key and release it."""
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **text)

    async def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page."""
        found = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


@asynccontextmanager
async def browser_page(command: str, folder: Path) -> AsyncIterator[BrowserPage]:
    """Give a page of a browser that runs until the block ends and keeps its files in `folder`."""
    folder.mkdir()
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--remote-debugging-port=0",
    )
    with (folder / "log").open("wb") as log:
        # The command may be a script, and a browser has several processes: all are in one group.
        process = subprocess.Popen(
            [command, *options, f"--user-data-dir={folder}"], stdout=log, stderr=log, start_new_session=True
        )
    try:
        address = await _address(process, folder)
        async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=0) as socket:
            yield BrowserPage(socket)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


async def _address(process: subprocess.Popen, folder: Path) -> str:
    """Return the URL of the browser, which writes its port and a path to a file when it is ready."""
    active, end = folder / "DevToolsActivePort", time.monotonic() + _TIMEOUT_S
    while not active.exists() or len(lines := active.read_text().split()) < 2:
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < end, "Chromium does not start"
        await asyncio.sleep(0.02)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
