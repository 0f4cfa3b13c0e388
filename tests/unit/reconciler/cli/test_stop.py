"""SIGTERM ends the process in bounded time, whatever it waits for."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.builders.kubeconfigs import write_kubeconfig

HUNG = """
import threading
from reconciler.cli.commands import end_in_time
from reconciler.timings import LoopTimings
end_in_time(lambda: True, LoopTimings(stop_limit=0.2))
threading.Event().wait()
"""


def test_an_end_that_takes_too_long_is_cut_off() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG], timeout=60, check=False, capture_output=True)
    assert done.returncode == 1
    assert b"did not end within 0.2 s" in done.stderr


def test_a_signal_before_the_start_is_handled_and_ends_it(tmp_path: Path) -> None:
    """The first process of a container is not ended by a signal without a handler: it waited for a server on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        config = str(write_kubeconfig(tmp_path, address))
        options = ["--repo", str(tmp_path), "--cluster", "c", "--data", str(tmp_path / "data")]
        command = [sys.executable, "-m", "reconciler", "reconcile", *options, "--kubeconfig", config]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            server.settimeout(60)
            connection, _ = server.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            process.kill()
            process.wait()
