"""Queues, those of namespaces (Volcano 1.16) too, are deleted or made again once nothing that stays is in or below."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from compiler.kubernetes import GROUP_NAME_ANNOTATION
from reconciler.changes.diff import Change
from reconciler.changes.results import Changes, PrunePlan
from reconciler.cluster.objects import Object, ref_of
from reconciler.observation.observe import Observation
from reconciler.ownership.queues import without_occupied_queues, without_occupied_replacements
from tests.builders.scripted_server import ScriptedAnswer, error_answer, served
from tests.builders.writing import Writing, creation, thing, volcano_job

SCHEDULING = "scheduling.volcano.sh/v1beta1"
QUEUES = f"/apis/{SCHEDULING}/queues"
NAMESPACE_QUEUES = f"/apis/{SCHEDULING}/namespaces/ml/namespacequeues"


def namespace_queue(name: str, parent: str | None = None, namespace: str = "ml", **metadata: Any) -> Object:
    made = thing("NamespaceQueue", name, api=SCHEDULING, namespace=namespace, uid=f"uid-{name}", **metadata)
    return {**made, "spec": {} if parent is None else {"parent": parent}}


def group(queue: str, phase: str = "Running", name: str = "pg", **metadata: Any) -> Object:
    made = thing("PodGroup", name, api=SCHEDULING, namespace="ml", uid=f"uid-{name}", **metadata)
    return {**made, "spec": {"queue": queue}, "status": {"phase": phase}}


def queued(queue: str, phase: str = "", **metadata: Any) -> Object:
    made = volcano_job("train", {"queue": queue}, namespace="ml", uid="uid-train", **metadata)
    return {**made, "status": {"state": {"phase": phase}}} if phase else made


def member(name: str, phase: str) -> Object:
    made = thing("Pod", name, namespace="ml", annotations={GROUP_NAME_ANNOTATION: "pg"})
    return {**made, "status": {"phase": phase}}


TRAIN, CHILD = namespace_queue("train", "cluster/science"), namespace_queue("child", "train")
SCIENCE = thing("Queue", "science", api=SCHEDULING, namespace="", uid="uid-science")
DEFAULT = thing("Queue", "default", api=SCHEDULING, namespace="", uid="uid-default")
TEAM = thing("Queue", "team", api=SCHEDULING, namespace="", uid="uid-team")
GROUP, OWNED = group("team"), group("team", ownerReferences=[{"uid": "uid-train"}])


def refuse_children_first(world: Writing) -> None:
    """The kind is served, and admission asks for the parent of a new object."""

    def answer(method: str, path: str, body: Any) -> ScriptedAnswer | None:
        if path == f"/apis/{SCHEDULING}":
            return served("NamespaceQueue")
        is_early = method == "PATCH" and f"{QUEUES}/science" not in world.cluster.objects
        if is_early and body["kind"] == "NamespaceQueue":
            return error_answer(403, 'admission webhook "x" denied the request: queue science is not found')
        return None

    world.cluster.before = answer


def observation(items: Iterable[Object]) -> Observation:
    return Observation({ref_of(item).key: item for item in items}, frozenset())


def reasons(leaving: Object, *seen: Object, also: tuple[Object, ...] = ()) -> list[str]:
    """Why the deletion of an object is held, when others go as well."""
    changes = tuple(Change("prune", ref_of(item), live=item) for item in (leaving, *also))
    plan = without_occupied_queues(observation((leaving, *also, *seen)), PrunePlan(changes=changes))
    assert {each.ref for each in (*plan.changes, *plan.held_changes)} == {each.ref for each in changes}
    return [each.reason for each in plan.held_changes if each.ref == ref_of(leaving)]


@pytest.mark.parametrize(
    ("seen", "going", "is_held"),
    [
        ((GROUP,), (), True),
        ((group("team", "Inqueue"),), (), True),
        ((group("team", "Pending"),), (), True),
        ((queued("team"),), (), True),
        ((GROUP, member("one", "Succeeded"), member("two", "Running")), (), True),
        ((queued("team", "Running"), OWNED), (), True),  # suspended, say
        ((), (), False),
        ((group("other"),), (), False),
        ((group("team", "Completed"),), (), False),
        ((queued("team", "Completed"),), (), False),
        ((GROUP, member("one", "Succeeded"), member("two", "Failed")), (), False),
        ((OWNED,), (queued("team", "Running"),), False),
        ((OWNED,), (queued("team", "Running", deletionTimestamp="2026"),), False),
    ],
)
def test_what_runs_or_waits_in_a_queue_and_stays_holds_its_deletion(
    seen: tuple[Object, ...], going: tuple[Object, ...], is_held: bool
) -> None:
    """Seen once: a queue that left the repository was deleted while a job of somebody else ran or waited in it: Volcano
    lets it."""
    found = reasons(TEAM, *seen, also=going)
    assert len(found) == is_held
    for reason in found:
        assert reason.startswith("it left the repository, and is deleted when what is in it has gone: ")
        assert "ml/" in reason


def test_many_are_counted() -> None:
    (reason,) = reasons(TEAM, *(group("team", name=f"pg-{at}") for at in range(5)))
    assert reason.endswith("PodGroup ml/pg-2 and 2 more")


@pytest.mark.parametrize(
    ("seen", "is_held"),
    [
        ((), False),
        ((group("namespace/train"),), True),
        ((group("namespace/train", "Pending"),), True),
        ((group("namespace/train", deletionTimestamp="2026"),), True),  # until it is gone: the webhook counts it
        ((queued("namespace/train"),), True),
        ((queued("namespace/train", deletionTimestamp="2026"),), True),
        ((group("namespace/train", "Completed"),), False),
        ((group("train"),), False),  # of the cluster's queue of that name
        ((group("other/train"),), False),
        ((namespace_queue("below", "train"),), True),
        ((namespace_queue("below", "train", deletionTimestamp="2026"),), True),
        ((namespace_queue("below", "train", namespace="other"),), False),
        ((namespace_queue("below", "cluster/train"),), False),
    ],
)
def test_a_queue_of_a_namespace_is_drained_before_it_is_deleted(seen: tuple[Object, ...], is_held: bool) -> None:
    assert bool(reasons(TRAIN, *seen)) == is_held


def test_what_goes_in_the_same_commit_counts_until_it_is_gone() -> None:
    job = queued("namespace/train")
    (reason,) = reasons(TRAIN, also=(job,))
    assert reason.endswith("is deleted when what is in it has gone: Job ml/train")
    (reason,) = reasons(TRAIN, also=(CHILD,))
    assert reason.endswith("is deleted when the queues below it have gone: NamespaceQueue ml/child")
    assert reasons(CHILD, also=(TRAIN,)) == []


def test_a_queue_of_the_cluster_stays_while_queues_of_namespaces_are_below_it() -> None:
    assert reasons(SCIENCE, TRAIN)
    assert reasons(SCIENCE, also=(TRAIN,))
    assert reasons(SCIENCE, CHILD) == []
    assert reasons(DEFAULT, namespace_queue("alone")), "without a parent it is below default"


def test_a_replacement_waits_for_the_same() -> None:
    change = Change("replace", ref_of(TRAIN), live=TRAIN)
    other = Change("replace", ref_of(queued("namespace/train")), live=queued("namespace/train"))
    for seen, held in (((group("namespace/train"),), True), ((CHILD,), True), ((), False)):
        changes = without_occupied_replacements(observation((TRAIN, *seen)), Changes(due=(change, other)))
        assert changes.due == ((other,) if held else (change, other))
        assert [each.action for each in changes.held] == ["held"] * held


def test_deletions_come_jobs_first_then_queues_of_namespaces_then_those_of_the_cluster() -> None:
    world = Writing()
    refuse_children_first(world)
    items = [world.cluster.put(f"{QUEUES}/science", SCIENCE), world.cluster.put(f"{NAMESPACE_QUEUES}/train", TRAIN)]
    items.append(world.put(volcano_job("train", {"queue": "namespace/train"})))
    changes = [Change("prune", ref_of(item), live=item) for item in items]
    world.writer.prune_objects(changes, world.inventory)
    deleted = [path.rsplit("/", 2)[1] for method, path in world.cluster.writes if method == "DELETE"]
    assert deleted == ["jobs", "namespacequeues", "queues"]


def test_parents_are_there_before_their_children_whatever_the_order_of_requests() -> None:
    world = Writing()
    refuse_children_first(world)
    results = world.apply(*(creation({**item, "metadata": _new(item)}) for item in (TRAIN, SCIENCE)))
    assert sorted((each.change.ref.name, each.outcome) for each in results) == [("science", "done"), ("train", "done")]


def _new(item: Object) -> Object:
    return {key: value for key, value in item["metadata"].items() if key != "uid"}
