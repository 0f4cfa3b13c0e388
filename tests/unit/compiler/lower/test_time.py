"""Durations, ends, patience, promises, maintenance and kept domains, as documents and a state say them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState, load_state
from compiler.emit.waves import manifests
from compiler.kubernetes import STARTS_AT_ANNOTATION
from compiler.lower.lowering import lower
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import ClusterSpec, Specs
from compiler.specs.gang_spec import GangSpec
from compiler.specs.queue_spec import QueueSpec
from compiler.views import data, text
from compiler.views.explanation import explanation_text
from solver.problem import Gang, Problem
from tests.builders import declared
from tests.builders.cluster_objects import pod
from tests.builders.repositories import repository
from tests.builders.specs import document, gang, hypernode, node, queue, role
from tests.builders.specs import specs as build

CASE = Path(__file__).parents[3] / "golden" / "reservation"
JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}


@pytest.fixture(scope="module")
def specs() -> Specs:
    return read_specs(Repository.from_directory(CASE / "repo"))


@pytest.fixture(scope="module")
def state() -> ClusterState:
    return load_state((CASE / "state.yaml").read_bytes())


def of(problem: Problem, name: str) -> Gang:
    return next(gang for gang in problem.gangs if gang.name == f"team/{name}")


def patient(specs: Specs, seconds: int) -> Specs:
    return replace(specs, cluster=replace(specs.cluster, patience=seconds))


# ---- durations, ends, patience


def test_a_running_job_ends_its_duration_after_its_start_counted_from_the_newest_event(
    specs: Specs, state: ClusterState
) -> None:
    problem, origins = lower(specs, state)
    assert origins.now == 1772445600  # 10:00, when the youngest job was made
    assert (of(problem, "a-trained").times.duration, of(problem, "a-trained").times.ends_in) == (6 * 3600, 2 * 3600)
    assert of(problem, "c-unknown").times.ends_in is None
    assert (of(problem, "short").times.duration, of(problem, "short").times.ends_in) == (3600, None)


def test_a_job_that_overruns_has_no_known_end(specs: Specs, state: ClusterState) -> None:
    late = {**JOB, "metadata": {"name": "later", "namespace": "team", "creationTimestamp": "2026-03-02T12:00:00Z"}}
    problem, _ = lower(specs, replace(state, jobs=(*state.jobs, late)))
    assert [of(problem, name).times.ends_in for name in ("a-trained", "b-tuned")] == [None, None]


def test_without_a_state_nothing_is_late_and_no_node_closes(specs: Specs) -> None:
    problem, origins = lower(specs)
    assert origins.now is None
    assert not any(gang.times.overdue or gang.times.ends_in is not None for gang in problem.gangs)
    assert all(node.maintenance_in is None for node in problem.nodes)


@pytest.mark.parametrize(("hours", "overdue"), [(13, True), (14, False), (15, False)])
def test_a_job_is_overdue_when_it_waited_longer_than_the_patience(
    specs: Specs, state: ClusterState, hours: int, overdue: bool
) -> None:
    problem, _ = lower(patient(specs, hours * 3600), state)  # it came 14 hours ago
    assert of(problem, "large").times.overdue is overdue
    assert not of(problem, "a-trained").times.overdue


def test_a_job_that_was_promised_a_start_is_overdue_until_it_runs(specs: Specs, state: ClusterState) -> None:
    jobs = tuple(_promised(job) if job["metadata"]["name"] in ("large", "a-trained") else job for job in state.jobs)
    problem, origins = lower(specs, replace(state, jobs=jobs))
    assert of(problem, "large").times.overdue
    assert not of(problem, "a-trained").times.overdue
    assert origins.starts.reserved[("team", "large", "Job")] == "2026-03-02T12:00:00Z"


def test_a_job_that_the_plan_in_force_has_begun_is_promised_and_knows_its_places(
    specs: Specs, state: ClusterState
) -> None:
    """Nodes and roles that are gone are no places. A job that runs, or of which nothing has begun, is not promised."""
    gangs = tuple(_doubled(gang) if gang.document.name == "c-unknown" else gang for gang in specs.gangs)
    places = {"worker": {"gpu-1": 1, "gpu-3": 1, "gone": 4}, "other": {"gpu-0": 1}}
    in_force = {("team", name, "Job"): places for name in ("c-unknown", "large", "a-trained")}
    halved = replace(specs, gangs=gangs)
    problem, origins = lower(halved, replace(state, former_places=in_force))
    half = of(problem, "c-unknown")
    assert (half.times.promised, half.times.overdue, origins.starts.reserved) == (True, True, {})
    assert {problem.nodes[p.node].name: p.pods for p in half.former} == {"gpu-1": 1, "gpu-3": 1}
    assert of(problem, "large").former == half.former
    assert not of(problem, "large").times.promised
    assert not of(problem, "a-trained").times.promised
    assert not of(lower(halved, state)[0], "c-unknown").times.promised


def _doubled(gang: GangSpec) -> GangSpec:
    """Of two pods, both of which it needs."""
    return replace(gang, minimum=2, roles=(replace(gang.roles[0], replicas=2, minimum=2),))


def _promised(job: Any) -> dict[str, Any]:
    return {**job, "metadata": {**job["metadata"], "annotations": {STARTS_AT_ANNOTATION: "2026-03-02T12:00:00Z"}}}


# ---- what is said of it


def compiled(state: ClusterState) -> Outcome:
    return compile_repository(Repository.from_directory(CASE / "repo"), state=state)


def decided(outcome: Outcome, name: str) -> JobDecision:
    return next(decided for decided in outcome.decisions if decided.gang.document.name == name)


def test_the_start_is_told_to_machines_to_people_and_to_the_cluster(state: ClusterState) -> None:
    outcome = compiled(state)
    large = decided(outcome, "large")
    assert data.gang_entry(large)["startsAt"] == "2026-03-02T12:00:00Z"
    line = "room is reserved for it: expected to start about 2026-03-02T12:00:00Z after team/b-tuned"
    assert line in " ".join(text.plan_text(outcome).split())
    assert line in " ".join(explanation_text(outcome, large).split())
    annotations = {
        m.object["metadata"]["name"]: m.object["metadata"].get("annotations", {})
        for m in manifests(outcome)
        if m.wave == 5
    }
    assert {name for name, said in annotations.items() if STARTS_AT_ANNOTATION in said} == {"large"}


def test_a_promise_is_kept_in_the_cluster_as_long_as_the_job_waits(state: ClusterState) -> None:
    jobs = tuple(_promised(job) if job["metadata"]["name"] in ("on-old", "tiny") else job for job in state.jobs)
    outcome = compiled(replace(state, jobs=jobs))
    assert decided(outcome, "on-old").start.reserved == "2026-03-02T12:00:00Z"
    assert (decided(outcome, "tiny").action, decided(outcome, "tiny").start.reserved) == ("start", None)


# ---- maintenance


def test_a_window_counts_until_it_is_over(state: ClusterState) -> None:
    pool = node("old", maintenance_windows=((100, 200), (400, 500)))

    def closes(now: int) -> int | None:
        job = {
            **JOB,
            "metadata": {
                "name": "x",
                "namespace": "team",
                "creationTimestamp": f"1970-01-01T00:{now // 60:02}:{now % 60:02}Z",
            },
        }
        problem, _ = lower(build(nodes=(pool,)), ClusterState.from_objects([job]))
        return problem.nodes[0].maintenance_in

    assert [closes(now) for now in (40, 100, 199, 200, 450, 500)] == [60, 0, 0, 200, 0, None]


def test_windows_belong_to_every_node_of_a_pool(specs: Specs, state: ClusterState) -> None:
    problem, _ = lower(specs, state)
    assert {node.name: node.maintenance_in for node in problem.nodes if node.maintenance_in is not None} == {
        "old-0": 2 * 3600
    }


# ---- kept domains


def busy_pod(at: str) -> dict[str, Any]:
    return pod("busy-worker-0", at, job="busy", spec={"containers": []})


def tree(*domains: QueueSpec, running: str | None = None) -> Problem:
    """Four domains of one node each under a spine, and a job of queue "stranger" on one of them."""
    nodes = tuple(node(f"n{n}") for n in range(4))
    leaves = tuple(hypernode(f"s{n}", 1, nodes=(f"n{n}",), tier_name="supernode") for n in range(4))
    job = gang("busy", role("worker", 1), queue="stranger")
    made = build(
        nodes=nodes,
        gangs=(job,),
        hypernodes=(*leaves, hypernode("spine", 2, hypernodes=("s0", "s1", "s2", "s3"))),
        queues=(queue("stranger"), *domains),
    )
    problem, _ = lower(made, ClusterState.from_objects([busy_pod(running)]) if running else None)
    return problem


def kept(problem: Problem, name: str) -> list[str]:
    (found,) = [queue.dedicated_domains for queue in problem.queues if queue.name == name]
    return [problem.hypernodes[h].name for h in found]


def test_the_emptiest_domains_are_kept_for_a_queue() -> None:
    assert kept(tree(queue("a", dedicated_domains=(2, "1")), running="n0"), "a") == ["s1", "s2"]


def test_a_queue_keeps_the_domains_in_which_it_runs() -> None:
    assert kept(tree(replace(queue("top"), dedicated_domains=(1, "supernode")), running="n2"), "top") == ["s0"]
    own = tree(queue("x"), running="n2")
    assert kept(own, "x") == []
    mine = build(
        nodes=(node("n0"), node("n1")),
        gangs=(gang("busy", role("worker", 1), queue="child"),),
        hypernodes=(hypernode("s0", 1, nodes=("n0",)), hypernode("s1", 1, nodes=("n1",))),
        queues=(queue("child", "top"), queue("top", dedicated_domains=(1, "1"))),
    )
    assert kept(lower(mine, ClusterState.from_objects([busy_pod("n1")]))[0], "top") == ["s1"]


def test_queues_keep_domains_that_do_not_overlap_and_no_more_than_there_are() -> None:
    problem = tree(
        queue("a", dedicated_domains=(3, "1")),
        queue("b", dedicated_domains=(2, "1")),
        queue("c", dedicated_domains=(1, "2")),
    )
    assert (kept(problem, "a"), kept(problem, "b"), kept(problem, "c")) == (["s0", "s1", "s2"], ["s3"], [])


def test_the_cluster_says_how_patient_it_is() -> None:
    assert read_specs(repository(declared.cluster(patience="36h"))).cluster.patience == 36 * 3600
    assert ClusterSpec(document("Cluster", "x"), "x").patience == 24 * 3600


def test_a_volcano_jobs_own_estimate_is_its_duration_unless_the_annotation_says_another() -> None:
    told = {"gangplan.dev/expected-duration": "2h"}
    jobs = [declared.job(name, annotations=notes, runningEstimate="1h30m") for name, notes in (("a", {}), ("b", told))]
    assert [gang.times.expected_duration for gang in read_specs(repository(*jobs)).gangs] == [5400, 7200]
