"""`gangplan sandbox`: docs/tutorial.md runs on it as written, with its pictures, and nothing outlives it.

New pictures: pytest tests/golden tests/e2e/stories/test_sandbox.py --update -k tutorial
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from reconciler.cli.sandbox import FOLDER, running_sandbox
from tests.browser.chromium import Page, running_browser
from tests.builders.pages import DOCS, command_environment, pieces
from tests.builders.processes import ends
from tests.controlplane.build import build, cache_root
from tests.controlplane.processes import free_ports
from tests.e2e.stories.story import GitRepository

pytestmark = pytest.mark.e2e
BOX = """(({x, y, width, height}) => ({x: x + scrollX, y: y + scrollY, width, height, scale: 1}))(
    document.querySelector("#cluster").getBoundingClientRect())"""


class Shell:
    """A user's shell: what one call exports, the next one has."""

    def __init__(self, folder: Path) -> None:
        build()
        self.folder, self.repository = folder, GitRepository(folder / "repository")
        (folder / "bin").mkdir()
        self._port = str(free_ports(1)[0])
        state = {
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CACHE_HOME": str(cache_root().parents[1]),
        }
        self.environment = {**command_environment(folder / "bin"), **state, "GANGPLAN_SANDBOX_PORT": self._port}
        self.report = f"http://127.0.0.1:{self._port}/report"
        self.state = folder / "state" / "gangplan" / FOLDER

    def run(self, commands: str) -> str:
        """What the commands print."""
        kept = self.folder / "exported"
        kept.touch()
        script = f". {kept}\n{commands}\nexport -p > {kept}\n"
        folder = self.repository.folder
        done = subprocess.run(
            ["sh", "-ec", script], cwd=folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}"
        return done.stdout

    def processes(self) -> list[str]:
        """The command lines that name the sandbox's folder."""
        found = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it has ended
                continue
            if str(self.state) in command:
                found.append(command)
        return found

    def left_processes(self) -> list[str]:
        """Those that half a minute later still run: a guard ends them a moment after their keeper."""
        deadline = time.monotonic() + 30
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def check_picture(page: Page, shell: Shell, name: str, update: bool) -> None:
    """The page comes to show each job of the repository on the cluster, without a reload. Its picture is the
    document's, as far as their sizes show, about: fonts differ from machine to machine."""
    for file in (shell.repository.folder / "jobs").glob("*/*.yaml"):
        page.wait_for(f"document.querySelector('#cluster').innerText.includes('{file.parent.name}/{file.stem}')")
    page.settle()
    picture = base64.b64decode(
        page.call("Page.captureScreenshot", clip=page.evaluate(BOX), captureBeyondViewport=True)["data"]
    )
    if update:
        (DOCS / name).write_bytes(picture)
    (width, height), stored = size(picture), size((DOCS / name).read_bytes())
    assert stored[0] == width
    assert abs(stored[1] - height) < height / 5, f"{name} is another picture. Fix: see the head of this file"


def size(png: bytes) -> tuple[int, int]:
    """Width and height of a picture in pixels."""
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


def test_the_tutorial_runs_as_written(shell: Shell, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    update, shown = bool(request.config.getoption("--update", default=False)), 0
    try:
        with running_browser(tmp_path / "profile") as page:
            for commands, text, picture in pieces("tutorial.md"):
                if picture:
                    check_picture(page, shell, picture, update)
                    continue
                printed = shell.run(commands)
                assert text in printed, printed
                shown += bool(text)
                if "sandbox up" in commands:
                    page.open(shell.report)
                    assert shell.run("gangplan sandbox up").startswith("export KUBECONFIG=")  # it already runs
            assert page.problems == []
    finally:
        shell.run("gangplan sandbox down")
    assert shown >= 4
    assert shell.left_processes() == []
    assert not shell.state.exists()


def test_a_sandbox_whose_keeper_is_killed_in_the_middle_leaves_nothing(shell: Shell) -> None:
    shell.run("gangplan init .")
    command = ["gangplan", "sandbox", "up"]
    with subprocess.Popen(
        command, cwd=shell.repository.folder, env=shell.environment, stderr=subprocess.PIPE, text=True
    ) as up:
        assert up.stderr is not None
        assert "starting the control plane" in up.stderr.readline()
        while not any("kube-apiserver" in each for each in shell.processes()):
            assert up.poll() is None
        keeper = running_sandbox(shell.state)
        assert keeper is not None
        os.kill(keeper.pid, signal.SIGKILL)
        assert up.stderr.read().startswith("Error: ")
    assert up.returncode == 1
    assert ends(keeper.pid)
    shell.run("gangplan sandbox down")
    assert shell.left_processes() == []
