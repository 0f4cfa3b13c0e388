"""Queues in a comparison: where live runs count, and what differs."""

from __future__ import annotations

import json
from typing import Any

from compiler.comparison.compare import DECLARED_AMOUNTS, HELD, Comparison, QueueChange
from compiler.comparison.render import comparison_text
from tests.builders import declared
from tests.unit.compiler.comparison.test_comparison import BASE, POOL, changes, found_jobs, job, queue

TWO_QUEUES = {
    **BASE,
    "cluster-specs/demo/nodes.yaml": POOL.replace("count: 4", "count: 6"),
    "cluster-specs/demo/b.yaml": queue("b", capability=32, deserved=32),
}


def pytorch_job(queue: str) -> str:
    pod = {"schedulerName": "volcano", "containers": [{"name": "pytorch", "image": "x", "resources": LIMITS}]}
    replicas = {"Worker": {"replicas": 2, "template": {"spec": pod}}}
    spec: dict[str, Any] = {"runPolicy": {"schedulingPolicy": {"queue": queue}}, "pytorchReplicaSpecs": replicas}
    return json.dumps(declared.declared("PyTorchJob", "torch", spec, api="kubeflow.org/v1", namespace="ns"))


LIMITS = {"limits": {"nvidia.com/gpu": 8}}


def test_a_live_run_counts_in_the_queue_that_it_was_created_in() -> None:
    comparison = changes(TWO_QUEUES, {**TWO_QUEUES, "jobs/one.yaml": job("one", 2, queue="b")})
    assert found_jobs(comparison) == {"ns/one": "new run"}
    assert comparison.queues == ()


def test_a_queue_that_changes_in_place_takes_the_live_run_along() -> None:
    """The training operator writes the queue into the PodGroup."""
    base = {**TWO_QUEUES, "jobs/one.yaml": pytorch_job("a")}
    comparison = changes(base, {**base, "jobs/one.yaml": pytorch_job("b")})
    assert found_jobs(comparison) == {"ns/torch": "edited", "ns/three": "starts"}
    held = [(each.name, each.after and each.after[HELD].get("nvidia.com/gpu")) for each in comparison.queues]
    assert held == [("a", 24), ("b", 16)]


def test_an_error_at_a_job_names_the_line_that_was_changed() -> None:
    child = queue("b", capability=32, deserved=32).replace("spec: {", "spec: {parent: a, ")
    text = comparison_text([changes(TWO_QUEUES, {**TWO_QUEUES, "cluster-specs/demo/b.yaml": child})], "x", "y")
    (error,) = (line for line in text.split("\n") if "GP306" in line)
    assert "jobs/one.yaml:1:" in error
    assert error.endswith("; see cluster-specs/demo/b.yaml:4")


def test_amounts_that_look_alike_are_no_difference() -> None:
    before = {**{name: {} for name in DECLARED_AMOUNTS}, HELD: {"memory": 10**12}}
    after = {**before, HELD: {"memory": 10**12 + 1, "cpu": 1}}
    text = comparison_text([Comparison("c", queues=(QueueChange("a", before, after),))], "x", "y")
    assert text.endswith("a: held 0 -> 1 cpu\n")
