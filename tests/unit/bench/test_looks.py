"""What counts as an overbooked node and as an eviction where the reconciler is measured."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from bench.reconcile.bed import child_cpu_seconds
from bench.reconcile.looks import granted_evictions, repeated
from compiler.kubernetes import SCHEDULING_GATE
from tests.builders.overbooked import overbooked_nodes
from tests.controlplane import ApiError
from tests.e2e.stories.story import HOSTNAME

GPUS = {"n1": 8, "n2": 8}


def pod(gpus: int, *, bound: str = "", given: str = "", gate: str = "", phase: str = "Pending") -> dict[str, Any]:
    """A pod of two containers that is bound to a node, or selects one."""
    parts = [
        {"resources": {"requests": {"nvidia.com/gpu": str(gpus - 1)}}},
        {"resources": {"requests": {"nvidia.com/gpu": "1"}}},
    ]
    spec: dict[str, Any] = {"containers": [*parts, {"name": "without resources"}]}
    spec |= {"nodeName": bound} if bound else {}
    spec |= {"nodeSelector": {HOSTNAME: given}} if given else {}
    spec |= {"schedulingGates": [{"name": gate}]} if gate else {}
    return {"spec": spec, "status": {"phase": phase}}


def test_a_node_is_overbooked_by_what_is_bound_there_and_what_was_given_it() -> None:
    assert overbooked_nodes([pod(5, bound="n1", phase="Running"), pod(3, given="n1"), pod(8, given="n2")], GPUS) == {}
    assert overbooked_nodes([pod(5, bound="n1"), pod(4, given="n1"), pod(8, bound="n2", given="n2")], GPUS) == {"n1": 1}
    assert overbooked_nodes([pod(2, given="gone")], GPUS) == {"gone": 2}, "a node that is not there has nothing"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_has_ended_holds_nothing(phase: str) -> None:
    assert overbooked_nodes([pod(8, bound="n1"), pod(8, bound="n1", phase=phase)], GPUS) == {}


def test_what_is_gated_by_us_or_has_no_node_holds_nothing() -> None:
    gated = pod(8, given="n1", gate=SCHEDULING_GATE)
    assert overbooked_nodes([pod(8, bound="n1"), gated, *[pod(8)] * 3], GPUS) == {}
    assert overbooked_nodes([pod(8, bound="n1"), pod(8, given="n1", gate="others.example/gate")], GPUS) == {"n1": 8}


def test_what_a_child_that_runs_computes_is_counted() -> None:
    command = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"]
    before = child_cpu_seconds(os.getpid())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child_cpu_seconds(os.getpid()) - before >= 0.4
        child.kill()


def test_evictions_are_those_that_were_granted() -> None:
    def entry(verb: str, subresource: str, code: int) -> dict[str, Any]:
        about = {"resource": "pods", "subresource": subresource, "name": f"{verb}-{code}"}
        return {"verb": verb, "objectRef": about, "responseStatus": {"code": code}}

    audit = [entry("create", "eviction", 201), entry("create", "eviction", 429), entry("patch", "", 200)]
    assert list(granted_evictions([*audit, {"verb": "get"}])) == ["create-201"]


def test_a_step_is_repeated_whatever_the_server_says_and_an_error_of_its_own_is_told() -> None:
    times: list[int] = []
    ended = threading.Event()

    def step() -> None:
        times.append(len(times))
        if len(times) == 1:
            raise ApiError("GET", "/", 500, {})
        if len(times) == 3:
            ended.set()
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"), repeated(step, 0.01):
        ended.wait(10)
    assert times == [0, 1, 2]
