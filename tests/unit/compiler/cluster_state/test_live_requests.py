"""Pods count as what they ask for, and not as their template says (a webhook, a LimitRange, a RuntimeClass)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.waves import manifest_texts
from compiler.kubernetes import DIGEST_ANNOTATION, SCHEDULING_GATE, Object
from compiler.outcome import JobDecision, Outcome
from compiler.pipeline import compile_repository, lowered_problem
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from compiler.syntax.runs import run_digest
from compiler.views.explanation import explanation_text
from solver.problem import Problem
from tests.builders import declared
from tests.builders.beside import beside
from tests.builders.cluster_objects import volcano_job_pod
from tests.builders.declared import yaml_of

JOB = beside(__file__)["job"]


def tree(pods: int = 8, cpu: int = 8, *, nodes: int = 4, limit: int = 1000, more: str = "") -> Repository:
    job = JOB.replace("NAME", "j").replace("PODS", str(pods)).replace("CPU", str(cpu))
    pool = declared.node_pool(nodes, capacity={"cpu": 100})
    cluster = yaml_of(declared.cluster(binding="gated"), pool, declared.queue("q", capability={"cpu": limit}))
    return Repository({"cluster-specs/t/a.yaml": cluster.encode(), "jobs/j.yaml": f"{job}{more}".encode()})


def pod(number: int, cpu: int, node: str = "", **spec: Any) -> Object:
    """Of job j: with a gate, or on the node."""
    gated, phase = ({}, "Running") if node else ({"schedulingGates": [{"name": SCHEDULING_GATE}]}, "Pending")
    more: Object = {"requests": {"cpu": str(cpu)}, "spec": {**gated, **spec}, "phase": phase, "namespace": "x"}
    return volcano_job_pod(f"j-w-{number}", "j", node=node, **more)


def gated(*cpus: int) -> list[Object]:
    return [pod(number, cpu) for number, cpu in enumerate(cpus)]


def running(node: str, *cpus: int, first: int = 20) -> list[Object]:
    return [pod(number, cpu, node) for number, cpu in enumerate(cpus, first)]


def compiled(files: Repository, objects: Sequence[Object]) -> Outcome:
    outcome = compile_repository(files, state=ClusterState.from_objects(objects))
    assert outcome.ok
    assert not outcome.error_count
    return outcome


def decided(files: Repository, objects: Sequence[Object]) -> JobDecision:
    return compiled(files, objects).decisions[0]


def most_per_node(decision: JobDecision) -> int:
    return max(decision.pods["w"].values())


def test_pods_that_a_webhook_made_larger_go_to_as_many_nodes_as_they_need() -> None:
    """Two of 48 cpu fit on a node, where the template says that all eight of 8 do: planned so for ever."""
    without = decided(tree(), [])
    assert (without.action, most_per_node(without)) == ("start", 8)
    outcome = compiled(tree(), gated(*[48] * 8))
    (found,) = outcome.decisions
    assert (found.action, most_per_node(found), len(found.pods["w"])) == ("start", 2, 4)
    (said,) = (each for each in outcome.diagnostics if each.code == "GP528")
    assert (
        said.message == "8 pods ask for other than the template of role w: the plan counts 48 cpu instead of 8 for each"
    )
    assert (said.severity, said.position.file, said.position.line) == ("info", "jobs/j.yaml", 8)
    assert "the template asks for 8 cpu" in explanation_text(outcome, found)


def test_the_template_stays_as_it_is_written() -> None:
    before, after = (compiled(tree(), pods) for pods in ([], gated(*[48] * 8)))
    templates = [
        [m.object["spec"]["tasks"][0]["template"] for m, _ in manifest_texts(one) if m.object["kind"] == "Job"]
        for one in (before, after)
    ]
    assert templates[0] == templates[1]
    assert templates[0][0]["spec"]["containers"][0]["resources"] == {"requests": {"cpu": 8}}


@pytest.mark.parametrize(
    "spec",
    [
        {"initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "40"}}}]},
        {"initContainers": [{"resources": {"requests": {"cpu": "48"}}}]},
        {"overhead": {"cpu": "40"}},
        {"containers": [{"resources": {"limits": {"cpu": "48"}}}]},
    ],
)
def test_sidecars_init_containers_overhead_and_defaulted_limits_count(spec: dict[str, Any]) -> None:
    assert most_per_node(decided(tree(), [pod(number, 8, **spec) for number in range(8)])) == 2


def test_a_gang_that_does_not_fit_with_what_its_pods_ask_waits_for_that() -> None:
    found = decided(tree(nodes=3), gated(*[48] * 8))
    assert found.action == "wait"
    assert found.reasons[0].message == "the job asks for 384 cpu; the whole cluster, empty, has 300"
    assert ("pods of Job x/j", None) in [(each.object, each.position) for each in found.reasons[0].sources]
    found = decided(tree(nodes=3), [*gated(*[48] * 6), *gated(120)])
    assert "a pod asks for 120 cpu" in found.reasons[0].message


def test_pods_that_ask_for_more_than_their_queue_may_have_wait_for_the_queue() -> None:
    assert decided(tree(limit=300), gated(*[8] * 8)).action == "start"
    found = decided(tree(limit=300), gated(*[48] * 8))
    assert found.action == "wait"
    assert "queue q" in found.reasons[0].message
    assert "384" in found.reasons[0].message


def test_pods_that_ask_for_less_than_their_template_fit_where_it_would_not() -> None:
    assert decided(tree(pods=4, cpu=48, nodes=1), []).action == "wait"
    found = decided(tree(pods=4, cpu=48, nodes=1), gated(*[24] * 4))
    assert (found.action, most_per_node(found)) == ("start", 4)


def test_pods_to_place_count_as_the_largest_that_waits_and_those_not_yet_made_as_well() -> None:
    assert most_per_node(decided(tree(), gated(8, 48, 24))) == 2


def free_cpu(problem: Problem, node: int) -> int:
    """What the node has free next to the running pods, in cores."""
    at, held = problem.resources.index("cpu"), 0
    for gang in problem.gangs:
        held += sum(p.pods * gang.roles[p.role].request[at] for p in gang.running if p.node == node)
    return (problem.nodes[node].free[at] - held) // 1000


@pytest.mark.parametrize(
    ("pods", "free", "counted"),
    [
        ([*running("n-0", 48, 48), *gated(*[48] * 6)], 4, 48),
        ([*running("n-0", 8, 8, 8), *gated(*[48] * 5)], 76, 48),  # made before the webhook came
        ([*running("n-0", 48, 8), *gated(*[8] * 6)], 44, 8),
        ([*running("n-0", 48, 16), *gated(24, 32)], 36, 32),
        ([*running("n-0", 48, 40)], 12, 48),  # the others are yet to be made
        ([*running("n-0", 4, 4)], 92, 8),
        ([*running("n-0", *[4] * 8)], 68, 4),
        ([*running("n-0", *[4] * 7, 10)], 62, 4),
        ([*running("n-0", *[10] * 9)], 10, 10),  # one more than its replicas belongs to nobody
    ],
)
def test_a_node_holds_exactly_what_its_pods_ask(pods: list[Object], free: int, counted: int) -> None:
    files, state = tree(), ClusterState.from_objects(pods)
    problem = lowered_problem(files, read_specs(files), state)
    assert free_cpu(problem, 0) == free
    assert problem.gangs[0].roles[0].request[problem.resources.index("cpu")] == counted * 1000
    assert compile_repository(files, state=state).ok


def test_a_gang_is_completed_beside_smaller_pods_of_its_own() -> None:
    """76 cpu are free next to the three that run: one of 48 more; two on each of two other nodes."""
    found = decided(tree(nodes=3), [*running("n-0", 8, 8, 8), *gated(*[48] * 5)])
    assert (found.action, dict(found.pods["w"])) == ("start", {"n-0": 4, "n-1": 2, "n-2": 2})
    assert decided(tree(nodes=2), [*running("n-0", 8, 8, 8), *gated(*[48] * 5)]).action == "wait"


def test_the_pods_of_another_job_find_the_room_that_the_running_ones_leave() -> None:
    other = "---\n" + JOB.replace("NAME", "other").replace("PODS", "1").replace("CPU", "60")
    for cpu, action in ((4, "start"), (10, "wait")):
        outcome = compiled(tree(nodes=1, more=other), running("n-0", *[cpu] * 8))
        assert [each.action for each in outcome.decisions if each.name == "x/other"] == [action]


def test_what_a_queue_has_left_is_counted_by_what_the_pods_ask() -> None:
    other = "---\n" + JOB.replace("NAME", "other").replace("PODS", "1").replace("CPU", "60")
    for cpu, action in ((4, "start"), (10, "wait")):
        outcome = compiled(tree(limit=100, more=other), running("n-0", *[cpu] * 8))
        assert [each.action for each in outcome.decisions if each.name == "x/other"] == [action]


def test_pods_of_a_job_whose_text_was_changed_say_nothing_of_the_next_ones() -> None:
    """Or else a change that lets a job fit would be shown as one that does not."""
    files = tree(pods=4, cpu=8, nodes=1)
    document = read_specs(files).gangs[0].document.data
    for text, most in ((document, 0), ({**document, "spec": {}}, 4)):
        metadata = {**document["metadata"], "annotations": {DIGEST_ANNOTATION: f"{run_digest(text)}#2"}}
        found = decided(files, [{**document, "metadata": metadata}, *gated(*[48] * 4)])
        assert (found.action, sum(found.pods.get("w", {}).values())) == ("start" if most else "wait", most)


def test_pods_that_ask_as_their_template_says_change_nothing() -> None:
    files, pods = tree(), [*running("n-0", 8, 8), *gated(*[8] * 6)]
    outcome = compiled(files, pods)
    assert outcome.specs.gangs == read_specs(files).gangs
    assert not [each for each in outcome.diagnostics if each.code == "GP528"]
    bare = [{**each, "spec": {**each["spec"], "containers": []}} for each in pods]
    assert compiled(files, bare).problem == outcome.problem, "a pod that names no container says nothing"
