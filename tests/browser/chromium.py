"""A headless Chromium, driven by the DevTools protocol: pages that are opened, keys that are pressed, what they report.

`scripts/chromium` finds the browser, or installs Debian's package; `scripts/test` calls it before the tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import websocket

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE = 60
"""Seconds for any one step of a browser on a loaded machine."""
ALIGNED_BOX = """element => {
  const {x, y, width, height} = element.getBoundingClientRect(), [left, top] = [x + scrollX, y + scrollY];
  element.style.transform = `translate(${-left % 2}px, ${-top % 2}px)`;
  return {x: left - left % 2, y: top - top % 2, width, height};
}"""
COMPARE = """async (pictures) => {
    const pixels = async (data) => {
        const image = Object.assign(new Image(), { src: `data:image/png;base64,${data}` });
        await image.decode();
        const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        return context.getImageData(0, 0, image.width, image.height);
    };
    const [one, other] = await Promise.all(pictures.map(pixels));
    if (one.width !== other.width || one.height !== other.height) return 1;
    let differing = 0;
    for (let at = 0; at < one.data.length; at += 4) {
        const isClear = (channel) => Math.abs(one.data[at + channel] - other.data[at + channel]) > 48;
        if ([0, 1, 2].some(isClear)) differing += 1;
    }
    return (4 * differing) / one.data.length;
}"""
KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowRight": 39,
    "End": 35,
    "Enter": 13,
    "Escape": 27,
    "Home": 36,
    "PageDown": 34,
    "Tab": 9,
}


def browser_path() -> str:
    """The browser of this machine. Without one a test fails: it would prove nothing."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise AssertionError(
        "there is no Chromium. Fix: run scripts/chromium, which installs it, or apt-get install chromium"
    )


class Page:
    """One tab. problems: errors of the console, uncaught exceptions, and violations of the page's policy. requests: the
    addresses that it asked for."""

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)
        self._number = 0
        self.problems: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol; events that come before it are noted."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv())
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.problems.append(json.dumps(parameters["entry"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert", "warning"):
            self.problems.append(json.dumps(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def open(self, file: Path | str, width: int = 1000, *, dark: bool = False) -> None:
        """Open a report, a file or what a server answers, and wait until it is drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=file if isinstance(file, str) else file.as_uri())
        self.wait_for("document.documentElement?.dataset.ready !== undefined")
        self.settle()

    def wait_for(self, condition: str) -> None:
        """Wait until a condition holds in the page."""
        until = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < until, f"the page does not come to {condition}: {self.problems}"
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait for two frames, so that what observes sizes has drawn."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def press(self, key: str) -> None:
        """Press and release a key: one of KEYS, or a letter."""
        code = KEYS.get(key, ord(key[0].upper()))
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def write(self, text: str) -> None:
        """Type a text into the field that has the focus."""
        self.call("Input.insertText", text=text)

    def click(self, x: float, y: float) -> None:
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, selector: str) -> str:
        """The last element that matches as PNG in base64, at half its size. It is moved to where its edges are edges of
        pixels: what is above it may be a fraction of a pixel high."""
        element = f"[...document.querySelectorAll({json.dumps(selector)})].at(-1)"
        clip = self.evaluate(f"({ALIGNED_BOX})({element})")
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip={**clip, "scale": 0.5})
        return str(shot["data"])

    def difference(self, one: str, other: str) -> float:
        """The share of pixels of two pictures, as `picture` gives them, that differ clearly; 1 if the sizes do."""
        self.call("Page.navigate", url="about:blank")  # the report's policy admits no picture
        self.wait_for("document.readyState === 'complete'")
        share: float = self.evaluate(f"({COMPARE})({json.dumps([one, other])})")
        return share

    def close(self) -> None:
        self._socket.close()


@contextmanager
def running_browser(folder: Path) -> Iterator[Page]:
    """A browser with one empty tab. folder: for its profile."""
    # A container has no user namespaces for the sandbox; what is opened are our own pages.
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
    command = [browser_path(), *options, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        page = Page(_tab_address(folder / "DevToolsActivePort"))
        try:
            yield page
        finally:
            page.close()
    finally:
        process.terminate()
        process.wait(PATIENCE)


def _tab_address(port_file: Path) -> str:
    """The address of the first tab, once the browser has written its port."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if port_file.is_file() and (lines := port_file.read_text().split()):
            with urlopen(f"http://127.0.0.1:{lines[0]}/json", timeout=PATIENCE) as answer:
                tabs = [tab for tab in json.load(answer) if tab["type"] == "page"]
            if tabs:
                return str(tabs[0]["webSocketDebuggerUrl"])
        time.sleep(0.1)
    raise AssertionError("Chromium did not start")
