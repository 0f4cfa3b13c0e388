"""A small repository, requests to compile it, and a compile process whose answers are waited for."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reconciler.planning.compile.process import CompileProcess, CompileRequest
from reconciler.planning.snapshot import CompileBreakdown, Snapshot
from tests.builders import cluster_objects
from tests.builders.beside import beside

CLUSTER, JOB = (text.encode() for text in beside(__file__).values())
OTHER = JOB.replace(b"name: train", b"name: other")


def request(**files: bytes) -> CompileRequest:
    jobs = {f"jobs/{name}.yaml": text for name, text in files.items()}
    return CompileRequest("c0ffee", "test", {"cluster-specs/test/cluster.yaml": CLUSTER, **jobs}, {})


ASKED = request(train=JOB)


class Compiler(CompileProcess):
    """A compile process whose answers are waited for. child: the process that compiled last."""

    def __init__(self, directory: Path, **limits: Any) -> None:
        self.done, self.child = threading.Event(), 0
        super().__init__(directory, self.done.set, **limits)

    def answer(self, wanted: CompileRequest = ASKED) -> Snapshot | CompileBreakdown:
        self.done.clear()
        self.start_compile(wanted)
        return self.wait()

    def _order(self, order: Mapping[str, Any], deadline: float) -> int:
        found = super()._order(order, deadline)
        self.child = found if "answer" in order else self.child
        return found

    def wait(self) -> Snapshot | CompileBreakdown:
        assert self.done.wait(120)
        found = self.take_result()
        assert found is not None
        assert not self.is_busy
        return found

    def plan(self, wanted: CompileRequest = ASKED) -> Snapshot:
        found = self.answer(wanted)
        assert isinstance(found, Snapshot)
        return found

    @property
    def worker(self) -> subprocess.Popen[bytes]:
        self.warm_up()
        assert self._worker is not None
        return self._worker


def node(name: str) -> dict[str, Any]:
    return cluster_objects.node(name, {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"})
