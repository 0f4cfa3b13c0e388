"""How an edit of a job takes effect: as the reconciler and the job's controller do it."""

from __future__ import annotations

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from tests.builders.beside import beside
from tests.unit.compiler.comparison.test_comparison import BASE, changes, found_jobs, job, queue, without

CASES = beside(__file__)
IMAGE = "spec.tasks[0].template.spec.containers[0].image x -> y"
REPLACE = '"annotations": {"gangplan.dev/replace": "true", '
DEPLOYMENT = CASES["deployment"]
FLOW = CASES["flow"]
RING = CASES["ring"]


@pytest.mark.parametrize(
    ("text", "old", "new", "effect", "treatment", "part"),
    [
        (DEPLOYMENT, "image: x", "image: z", "edited", "update", "its controller replaces pods of another template"),
        (DEPLOYMENT, "replicas: 2", "replicas: 1", "shrinks", "in place", "spec.replicas 2 -> 1; changed in place"),
        (FLOW, "image: x", "image: z", "edited", "next run", "what runs is not changed, the next run is"),
        (FLOW, "step}]", "step}]\n  jobRetainPolicy: delete", "new run", "new run", "JobFlow ns/flow: spec.jobRetain"),
        (RING, "image: x", "image: z", "edited", "in place", "other pods: r; changed in place"),
    ],
)
def test_edits_of_other_kinds_take_effect_as_their_controllers_do(
    text: str, old: str, new: str, effect: str, treatment: str, part: str
) -> None:
    base = {**without(BASE, "jobs/one.yaml"), "jobs/x.yaml": text}
    jobs = changes(base, {**base, "jobs/x.yaml": text.replace(old, new)}).jobs
    (found,) = (each for each in jobs if each.treatment)
    assert (found.effect, found.treatment, part in found.why) == (effect, treatment, True)


def test_a_finished_job_that_is_edited_has_a_new_run_at_once() -> None:
    name = {"name": "three", "namespace": "ns"}
    over = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": name}
    state = ClusterState(jobs=({**over, "status": {"state": {"phase": "Completed"}}},))
    small = without(BASE, "jobs/two.yaml")
    (found,) = changes(small, {**small, "jobs/three.yaml": job("three", 1, image="y")}, state).jobs
    assert (found.effect, found.why) == ("starts", f"{IMAGE}; its former run is over")
    (found,) = changes(BASE, {**BASE, "jobs/three.yaml": job("three", 1, image="y")}, state).jobs
    assert (found.effect, found.waits_longer) == ("waits", False)
    assert found.why.endswith("; its former run is over")


def test_with_static_binding_other_nodes_are_another_run() -> None:
    """The nodes are in the template: what shrinks keeps its pods, so that nobody else gets their room."""
    cluster = "apiVersion: gangplan.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec: {binding: static}\n"
    base = {**BASE, "cluster-specs/demo/cluster.yaml": cluster}
    comparison = changes(base, {**base, "jobs/two.yaml": job("two", 1)})
    assert found_jobs(comparison)["ns/two"] == "new run"
    assert "starts" not in found_jobs(comparison).values()


def test_a_live_run_that_goes_on_holds_what_it_has_and_is_no_finding() -> None:
    small = without(BASE, "jobs/one.yaml")
    comparison = changes(small, {**small, "jobs/two.yaml": job("two", 3, gpus=4)})
    assert found_jobs(comparison) == {"ns/two": "new run"}
    assert not comparison.queues
    assert "GP528" not in {each.code for each in comparison.findings.new}


def test_a_job_that_waits_is_replaced_at_once() -> None:
    (found,) = changes(BASE, {**BASE, "jobs/three.yaml": job("three", 1, image="y")}).jobs
    assert (found.effect, found.treatment, found.why) == ("edited", "at once", f"{IMAGE}; it waits as before")


@pytest.mark.parametrize(
    ("edited", "effect", "treatment", "begin"),
    [
        (job("two", 2, image="y"), "new run", "new run", f"{IMAGE}; its new run waits for the end of this one"),
        (job("two", 2, image="y").replace('"annotations": {', REPLACE), "restarts", "restart", IMAGE),
        (job("two", 2).replace('"minAvailable": 2', '"minAvailable": 1'), "edited", "in place", "spec.minAvailable 2"),
        (job("two", 1), "shrinks", "in place", "spec.minAvailable 2 -> 1, spec.tasks[0].replicas 2 -> 1; changed in"),
        (job("two", 2).replace('"maxRetry": 3', ""), None, None, ""),
        (job("two", 2).replace('"schedulerName"', '"maxRetry": 3, "schedulerName"'), "edited", "in place", "spec.maxR"),
        (job("two", 2, queue="b"), "new run", "new run", "spec.queue a -> b; its new run waits"),
        (job("two", 4), "never", "in place", "queue a may never hold more than 24"),
    ],
    ids=["image", "replace", "minimum", "fewer", "nothing", "default", "queue", "more-than-fits"],
)
def test_an_edit_takes_effect_as_the_reconciler_does_it(
    edited: str, effect: str | None, treatment: str | None, begin: str
) -> None:
    queues = queue("a", capability=24, deserved=24) + "---\n" + queue("b", deserved=8)
    small = {**without(BASE, "jobs/one.yaml"), "cluster-specs/demo/queues.yaml": queues}
    found = [each for each in changes(small, {**small, "jobs/two.yaml": edited}).jobs if each.name == "ns/two"]
    assert [(each.effect, each.treatment) for each in found] == ([(effect, treatment)] if effect else [])
    assert all(each.why.startswith(begin) for each in found)
