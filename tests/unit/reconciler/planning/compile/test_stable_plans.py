"""Plan after plan of one cluster: what has begun is finished where it began, and only what is concerned moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any

import pytest

from compiler.kubernetes import DIGEST_ANNOTATION, HOSTNAME_LABEL, SCHEDULING_GATE, annotations_of, name_of
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.planning.compile.process import CompileRequest, compile_request
from reconciler.planning.fingerprint import fingerprint_of, state_objects
from reconciler.planning.snapshot import FormerPlan, Snapshot
from tests.builders import declared
from tests.builders.live import live_pod, with_metadata
from tests.builders.pods import node as bare_node

GPU, COUNT, GATE = "nvidia.com/gpu", 12, {"name": SCHEDULING_GATE}
REQUESTS = {"requests": {"cpu": "4", GPU: "1"}, "limits": {GPU: "1"}}
CONTAINER = {"name": "c", "image": "train", "resources": REQUESTS}
POD_SPEC: Mapping[str, Any] = {"schedulerName": "volcano", "restartPolicy": "Never", "containers": [CONTAINER]}
ALLOCATABLE = {"cpu": "96", "pods": "110", "memory": "1Ti", GPU: "8"}


def node(name: str, *, ready: bool = True) -> Object:
    made = bare_node(name, is_ready=ready)
    return {**made, "status": {**made["status"], "allocatable": ALLOCATABLE}}


def job(name: str) -> Object:
    more: Object = {"minAvailable": 8, "schedulerName": "volcano", "queue": "team"}
    return declared.job(name, 8, POD_SPEC, namespace="default", **more)


def pods(name: str, node_name: str, given: int) -> Iterable[Object]:
    """The eight pods of the job; the first of them have got the node."""
    role = {"volcano.sh/task-spec": "w"}
    for k in range(8):
        made = live_pod(f"{name}-w-{k}", with_metadata(job(name), uid=f"job-{name}"), labels=role, annotations=role)
        place = {"nodeSelector": {HOSTNAME_LABEL: node_name}} if k < given else {"schedulingGates": [GATE]}
        yield {**made, "spec": {**POD_SPEC, **place}, "status": {"phase": "Pending"}}


NAMES = [f"{i:02}" for i in range(COUNT)]
SPECS = declared.cluster(binding="gated"), declared.queue("team"), *(node(f"n{i}") for i in NAMES)
FILES = {
    "cluster-specs/test/all.yaml": declared.yaml_of(*SPECS).encode(),
    **{f"jobs/g{i}.yaml": json.dumps(job(f"g{i}")).encode() for i in NAMES},
}


def compiled(state: list[Object], in_force: Snapshot | None = None) -> Snapshot:
    gangs = in_force.gangs.values() if in_force else ()
    request = CompileRequest(
        "c0ffee",
        "test",
        FILES,
        {},
        state=state,
        executor="local",
        clock=1000,
        former=FormerPlan([((gang.job.namespace, gang.job.name, gang.job.kind), gang.pods) for gang in gangs]),
    )
    made = compile_request(request)
    assert made.ok, made.diagnostics
    assert compile_request(request).as_json() == made.as_json()
    return made


@cache
def first_plan() -> Snapshot:
    """Each gang on the node of its number."""
    return compiled([node(f"n{i}") for i in NAMES])


def live_jobs() -> Iterable[Object]:
    for manifest in first_plan().manifests:
        if manifest.run_digest:
            about = {"uid": f"job-{name_of(manifest.object)}", "creationTimestamp": "1970-01-01T00:10:00Z"}
            noted = {**annotations_of(manifest.object), DIGEST_ANNOTATION: manifest.run_digest}
            yield with_metadata(dict(manifest.object), annotations=noted, **about)


def seen(given: Mapping[str, int], lost: Iterable[str] = (), gated: Iterable[str] = ()) -> list[Object]:
    """given: number of a gang -> its pods that have got their node. lost: nodes that are not ready. gated: gangs that
    have pods, and none with a node."""
    nodes = [node(f"n{i}", ready=i not in lost) for i in NAMES]
    there = {**dict.fromkeys(gated, 0), **given}
    return [*nodes, *live_jobs(), *(pod for i, number in there.items() for pod in pods(f"g{i}", f"n{i}", number))]


def places(plan: Snapshot) -> dict[str, dict[str, int]]:
    """Gang -> node -> pods."""
    return {gang.job.name: {node: n for (_, node), n in gang.pods_by_place().items()} for gang in plan.gangs.values()}


def moved(before: Snapshot, after: Snapshot) -> dict[str, dict[str, int]]:
    old = places(before)
    return {name: at for name, at in places(after).items() if at != old[name]}


BEGUN = dict.fromkeys(NAMES[:5], 8)
SCATTERED = dict.fromkeys(("00", "03", "05", "09"), 8)


@pytest.mark.parametrize(
    "state",  # made in the test: it rests on a plan, and each process collects all tests
    [
        pytest.param(partial(seen, BEGUN), id="five begun"),
        pytest.param(partial(seen, BEGUN, lost=["03"]), id="a node with running pods is lost"),
        pytest.param(partial(seen, SCATTERED), id="begun out of order"),
        pytest.param(partial(seen, SCATTERED, lost=["03"]), id="out of order, a node is lost"),
        pytest.param(partial(seen, {**BEGUN, "06": 3}), id="half given"),
        pytest.param(partial(seen, {**BEGUN, "06": 3}, lost=["03"]), id="half given, a node is lost"),
        pytest.param(partial(seen, {**BEGUN, "06": 3, "08": 1, "11": 7}), id="three half given"),
        pytest.param(partial(seen, BEGUN, gated=["07", "08", "10"]), id="gated pods"),
    ],
)
def test_nobody_moves(state: Callable[[], list[Object]]) -> None:
    assert moved(first_plan(), compiled(state(), first_plan())) == {}


def test_a_gang_whose_node_is_lost_takes_that_of_the_last_and_a_node_that_comes_back_moves_nobody() -> None:
    lost = compiled(seen(BEGUN, lost=["07"]), first_plan())
    assert moved(first_plan(), lost) == {"g07": {"n11": 8}, "g11": {}}
    assert moved(lost, compiled(seen(BEGUN), lost)) == {"g11": {"n07": 8}}


def test_a_half_given_gang_whose_node_is_lost_is_finished_first_and_moves_alone() -> None:
    """Nothing is free for its missing pods but what the last gang was to get."""
    plan = compiled(seen({**BEGUN, "06": 3}, lost=["06"]), first_plan())
    assert moved(first_plan(), plan) == {"g06": {"n06": 3, "n11": 5}, "g11": {}}


def test_a_younger_gang_that_has_begun_is_finished_before_older_ones() -> None:
    """Its five missing pods and four of the six others have room on five nodes."""
    plan = compiled(seen({**BEGUN, "11": 3}, lost=["06", "11"]), first_plan())
    after = places(plan)
    assert after["g11"].keys() == {"n11", "n10"}
    assert (after["g06"], after["g09"], after["g10"]) == ({"n09": 8}, {}, {})
    assert moved(first_plan(), plan).keys() == {"g06", "g09", "g10", "g11"}


# ---- a webhook makes pods larger than their template


KEY = "Job.batch.volcano.sh/default/g00"
SIDECAR = {"name": "proxy", "image": "proxy", "resources": {"requests": {"cpu": "36"}}}


def larger(given: int, *, with_sidecar: bool = True) -> Observation:
    """The job with its pods, of which so many have a node."""
    containers = [CONTAINER, *([SIDECAR] if with_sidecar else [])]
    there = ({**item, "spec": {**item["spec"], "containers": containers}} for item in pods("g00", "n00", given))
    items = [*(node(f"n{i}") for i in NAMES), with_metadata(job("g00"), uid="job-g00"), *there]
    return Observation({ref_of(item).key: item for item in items}, frozenset())


def restrictions(observation: Observation, snapshot: Snapshot) -> str:
    return fingerprint_of(observation, snapshot, frozenset()).restrictions


def test_pods_that_a_webhook_made_larger_are_planned_anew_and_once() -> None:
    anew, before = compiled(state_objects(larger(0))), first_plan()
    assert sorted(before.gangs[KEY].pods["w"].values()) == [8]
    usual = restrictions(larger(0, with_sidecar=False), before)
    assert restrictions(larger(0), before) != usual, "the plan counts 4 cpu for a pod, and each asks for 40"
    assert anew.requests[KEY] == [{"cpu": 40_000, GPU: 1, "pods": 1}]
    assert sorted(anew.gangs[KEY].pods["w"].values()) == [1] * 8, "the seven other GPUs of a node need 28 of its 96 cpu"
    assert restrictions(larger(0), anew) == restrictions(larger(2), anew) == usual
    assert [each["severity"] for each in anew.diagnostics if each["code"] == "GP528"] == ["info"]
