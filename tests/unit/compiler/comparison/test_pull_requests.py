"""Pull requests as people open them: what they mean to the cluster, and what they do not."""

from __future__ import annotations

import json

import pytest

from compiler.emit.live_changes import FieldDifference, run_change
from tests.builders import declared
from tests.unit.compiler.comparison.test_comparison import BASE, POOL, changes, job

LIMITS = {"limits": {"nvidia.com/gpu": 8}}
GATES = ("spec", "template", "spec", "schedulingGates")


def batch_job(pod: dict[str, object] | None = None, **spec: object) -> str:
    containers = [{"name": "m", "image": "x", "resources": LIMITS}]
    written = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": containers, **(pod or {})}
    whole = {"template": {"spec": written}, **spec}
    return json.dumps(declared.declared("Job", "two", whole, api="batch/v1", namespace="ns"))


def pull_request(before: str, after: str) -> dict[str, tuple[str, str]]:
    found = changes({**BASE, "jobs/two.yaml": before}, {**BASE, "jobs/two.yaml": after})
    return {each.name: (each.effect, each.why) for each in found.jobs}


def test_defaults_that_are_written_out_change_nothing_of_a_live_object() -> None:
    """Seen once: an error for a PriorityClass, and another run of a job."""
    urgent = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 1000\n"
    base = {**BASE, "cluster-specs/demo/p.yaml": urgent}
    written = f"{urgent}preemptionPolicy: PreemptLowerPriority\nglobalDefault: false\n"
    assert changes(base, {**base, "cluster-specs/demo/p.yaml": written}).errors == ()
    after = batch_job(backoffLimit=6, pod={"dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30})
    effect, why = pull_request(batch_job(), after)["ns/two"]
    assert effect == "edited"
    assert why.endswith("; changed in place")


def test_a_live_job_is_suspended_in_place() -> None:
    """Seen once: its new run, suspended, was to wait for the end of the live one."""
    (effect, why) = pull_request(batch_job(), batch_job(suspend=True))["ns/two"]
    assert (effect, why) == ("waits", "its owner suspended it; its pods are stopped")


@pytest.mark.parametrize(("desired", "action"), [(None, "in-place"), ([{"name": "gangplan.dev/placement"}], "replace")])
def test_gates_leave_no_template_of_a_live_job_and_are_never_added_to_one(desired: object, action: str) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}}
    fields = (FieldDifference(("spec", "suspend"), True, None), FieldDifference(GATES, desired, ["x"]))
    assert run_change(job, fields, is_new_run=True, is_over=False, has_started=False).action == action
    later = run_change(job, fields[1:], is_new_run=False, is_over=False, has_started=False).action
    assert later == ("none" if desired is None else "forbidden")


def test_a_job_of_another_api_group_under_the_same_name_is_another_object() -> None:
    """Seen once: it was said to wait for the end of the live one, which is pruned."""
    effect, why = pull_request(batch_job(), job("two", 1))["ns/two"]
    assert effect == "restarts"
    assert why.endswith("; its live run ends for the new one")


def test_a_count_with_another_number_of_digits_renames_nodes() -> None:
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/nodes.yaml": POOL.replace("count: 4", "count: 16")})
    assert "4 nodes renamed: count decides the digits; names: [a-[00-15]] keeps them" in comparison.resources


def test_a_taint_that_evicts_says_so() -> None:
    tainted = POOL.replace("spec: {", "spec: {taints: [{key: a, effect: NoExecute}], ")
    comparison = changes(BASE, {**BASE, "cluster-specs/demo/nodes.yaml": tainted})
    text = "4 nodes: taint a:NoExecute (evicts pods without toleration) added: n-0 to 3"
    assert text in comparison.resources
