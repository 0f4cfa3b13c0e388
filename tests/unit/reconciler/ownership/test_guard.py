"""Nothing is deleted on the strength of an error, and what dies with an object counts, of schedules too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compiler.kubernetes import name_of, uid_of
from reconciler.changes.diff import Change
from reconciler.changes.results import PrunePlan
from reconciler.cluster.objects import Object, Ref, ref_of
from reconciler.inventory.shards import Table
from reconciler.inventory.store import Inventory, InventoryEntry, Origin
from reconciler.ownership.guard import PruneSafety, Toll, deletion_digest, pods_of_all, prune_plan
from reconciler.timings import TIMINGS
from tests.builders.ownership import World
from tests.builders.scripted_server import served
from tests.builders.writing import LABELS, OURS, config_map, thing, volcano_job

GOOD = PruneSafety("c0ffee", has_compiled=True)


def ref(name: str) -> Ref:
    return Ref("v1", "ConfigMap", "default", name)


def live(name: str, uid: str = "", **annotations: str) -> Object:
    return config_map(name, uid=uid or name, annotations=annotations)


def wanted(*names: str) -> set[str]:
    return {ref(name).key for name in names}


def holding(*names: str, origin: Origin = "created") -> Inventory:
    return Inventory(Table({ref(name).key: InventoryEntry(ref(name), name, origin=origin) for name in names}))


def seen(*things: Object) -> dict[str, Object | None]:
    return {ref_of(each).key: each for each in things}


def plan_of(
    kept: set[str], inventory: Inventory, world: dict[str, Object | None], safety: PruneSafety = GOOD
) -> PrunePlan:
    return prune_plan(kept, inventory, world, {}, safety)


def test_only_what_the_inventory_holds_under_this_uid_is_pruned() -> None:
    world = seen(live("ours"), live("theirs"), live("again", uid="another"))
    found = plan_of(wanted("kept"), holding("kept", "ours", "again"), world)
    assert [change.ref.name for change in found.changes] == ["ours"]
    assert found.vanished_keys == ("ConfigMap/default/again",), "a namesake is somebody else's"


@pytest.mark.parametrize(
    "sight",
    [
        PruneSafety("c0ffee", has_compiled=False),
        PruneSafety("c0ffee", True, ("pods cannot be read", "jobs cannot be read")),
        PruneSafety("c0ffee", False, ("x",), frozenset({"c0ffee"})),
    ],
)
def test_an_error_is_never_an_empty_set(sight: PruneSafety) -> None:
    inventory = holding("kept", "ours", "gone")
    inventory.entries.update(holding("joined", origin="joined").entries)
    found = plan_of(wanted("kept"), inventory, {**seen(live("ours"), live("joined")), ref("gone").key: None}, sight)
    assert (found.changes, found.releases, found.vanished_keys) == ((), (), ())
    assert [change.ref.name for change in found.held_changes] == ["ours"]


def test_an_empty_repository_prunes_nothing_until_an_annotation_names_the_commit_or_the_deletions() -> None:
    """Seen once: a digest that released deletions released those of the same names later."""
    held = plan_of(set(), holding("ours"), seen(live("ours")))
    assert held.changes == ()
    digest = deletion_digest(held.held_changes)
    for name in ("gangplan.dev/allow-prune: c0ffee", f"gangplan.dev/allow-prune: {digest}"):
        assert name in held.held_changes[0].reason
    for allowed, count in (("c0ffee", 1), (digest, 1), ("another", 0)):
        safety = PruneSafety("c0ffee", True, allowed=frozenset({allowed}))
        assert len(plan_of(set(), holding("ours"), seen(live("ours")), safety).changes) == count
        two = plan_of(set(), holding("ours", "too"), seen(live("ours"), live("too")), safety)
        assert bool(two.changes) == (allowed == "c0ffee"), "a digest releases these deletions and no others"
    inventory = Inventory(Table({ref("ours").key: InventoryEntry(ref("ours"), "made since")}))
    safety = PruneSafety("c0ffee", True, allowed=frozenset({digest}))
    remade = seen(live("ours", "made since"))
    assert plan_of(set(), inventory, remade, safety).changes == (), "an annotation that was left standing"


LIMIT = TIMINGS.ownership.prune_limits[0]


@pytest.mark.parametrize(
    ("leaving", "known", "goes"), [(LIMIT, 11, True), (LIMIT + 1, 12, False), (20, 200, True), (21, 200, False)]
)
def test_more_deletions_than_the_limit_are_held(leaving: int, known: int, goes: bool) -> None:
    names = [f"o{at}" for at in range(known)]
    found = plan_of(wanted(*names[leaving:]), holding(*names), seen(*map(live, names)))
    assert len(found.changes) == (leaving if goes else 0)
    assert len(found.held_changes) == (0 if goes else leaving)


def test_what_was_deleted_within_the_hour_counts_and_a_released_deletion_does_not() -> None:
    """Seen once: what was deleted was noted with the inventory at the end of its pass: a process that was killed while
    it lifted gates after that let as much go again."""
    names = [f"o{at}" for at in range(8)]
    world = seen(live("kept"), *map(live, names))
    inventory = holding("kept", "more", "again", *names)
    recent = PruneSafety("c0ffee", True, recent=Toll(objects=4))
    held = plan_of(wanted("kept"), inventory, world, recent)
    assert "8 of 11 objects would be deleted after 4 within the last hour, the limit is 10" in held.obstacles
    assert plan_of(wanted("kept"), inventory, world).counts
    released = plan_of(wanted("kept"), inventory, world, replace(recent, allowed=frozenset({"c0ffee"})))
    assert (len(released.changes), released.counts) == (8, False)


def test_a_protected_object_stays_and_does_not_count() -> None:
    guarded = live("guarded", **{"gangplan.dev/prune": "disabled"})
    found = plan_of(wanted("kept"), holding("kept", "guarded", "ours"), seen(guarded, live("ours")))
    assert [change.ref.name for change in found.changes] == ["ours"]
    assert [change.ref.name for change in found.held_changes] == ["guarded"]
    assert found.obstacles == ()


# ---- what dies


def pod_with(gpus: int, phase: str = "Running") -> Object:
    resources = {"limits": {"nvidia.com/gpu": gpus, "cpu": "4", "volcano.sh/vgpu-memory": 9000}}
    return {"spec": {"containers": [{"resources": resources}]}, "status": {"phase": phase}, "metadata": {}}


def of_jobs(leaving: int, staying: int, pods: list[Object], safety: PruneSafety = GOOD, ended: int = 0) -> PrunePlan:
    """The plan where so many jobs are deleted, and so many of those that stay end for a new run."""
    jobs = {ref_of(each).key: each for each in (volcano_job(f"j{at}", uid=f"j{at}") for at in range(leaving + staying))}
    keys, entries = list(jobs), {key: InventoryEntry(ref_of(each), uid_of(each)) for key, each in jobs.items()}
    changes = [Change("replace", ref_of(jobs[key]), live=jobs[key]) for key in keys[leaving : leaving + ended]]
    pods_of = dict.fromkeys(keys, pods)
    return prune_plan(keys[leaving:], Inventory(Table(entries)), {**jobs}, pods_of, safety, changes)


@pytest.mark.parametrize(
    ("leaving", "staying", "pods", "reason"),
    [
        (7, 0, [pod_with(1)], "all 7 objects of kind Job would be deleted"),
        (7, 9, [pod_with(1)], "7 of 16 running jobs would be deleted, the limit is 5"),
        (2, 9, [pod_with(0)] * 30, "60 of 330 running pods would be deleted, the limit is 50"),
        (1, 9, [pod_with(8)] * 9, ""),
        (2, 9, [pod_with(8)] * 9, "144 of 792 devices in use would be deleted, the limit is 79"),
        (7, 9, [pod_with(8, "Succeeded")], ""),
    ],
)
def test_the_guard_counts_what_dies(leaving: int, staying: int, pods: list[Object], reason: str) -> None:
    """S14: seven running gangs of seven went without a question."""
    found = of_jobs(leaving, staying, pods)
    assert bool(found.changes) == (not reason)
    assert reason in found.obstacles or not (reason or found.obstacles)


def test_a_job_that_ends_for_a_new_run_counts_as_one_that_is_deleted() -> None:
    """A commit that replaces every running gang ended them all without a question."""
    running = [pod_with(8)]

    def ending(count: int, pods: list[Object], safety: PruneSafety = GOOD, leaving: int = 0) -> PrunePlan:
        return of_jobs(leaving, 20 - leaving, pods, safety, count)

    assert ending(5, running).excess == ()
    held = ending(6, running)
    assert held.excess[0] == "6 of 20 running jobs would be deleted, the limit is 5"
    assert "gangplan.dev/allow-prune: c0ffee" in held.excess[-1]
    assert ending(6, running, replace(GOOD, allowed=frozenset({"c0ffee"}))).excess == ()
    assert ending(20, []).excess == (), "what does not run does not die: the object comes again"
    both = ending(3, running, leaving=3)
    assert (both.changes, bool(both.excess)) == ((), True), "deletions and new runs are summed up"
    assert ending(2, running, replace(GOOD, recent=Toll(jobs=4))).excess
    doubted = ending(2, running, replace(GOOD, has_compiled=False), leaving=5)
    assert (doubted.excess, doubted.changes) == ((), ()), "what is not deleted anyway does not count"


def test_with_what_others_are_in_goes_only_by_an_annotation_and_holds_up_nothing_else() -> None:
    """A Namespace that left the repository took seven running jobs with it that gangplan had not made."""
    space = Ref("v1", "Namespace", "", "team")
    inventory = holding("kept", "ours")
    inventory.entries[space.key] = InventoryEntry(space, "1")
    world = {**seen(live("kept"), live("ours")), space.key: thing("Namespace", "team", namespace="", uid="1")}
    held = plan_of(wanted("kept"), inventory, world)
    assert ([change.ref.name for change in held.changes], held.excess) == (["ours"], ())
    assert ([change.ref for change in held.held_changes], held.waits_for_release) == ([space], True)
    digest = deletion_digest(held.held_changes)
    assert digest in held.held_changes[0].reason
    for allowed in (digest, "c0ffee"):
        released = plan_of(wanted("kept"), inventory, world, replace(GOOD, allowed=frozenset({allowed})))
        assert ({change.ref.name for change in released.changes}, released.held_changes) == ({"ours", "team"}, ())
    doubted = plan_of(wanted("kept"), inventory, world, replace(GOOD, has_compiled=False))
    assert (doubted.changes, doubted.waits_for_release) == ((), False)


def test_all_reasons_that_count_are_said() -> None:
    found = of_jobs(12, 0, [pod_with(8)] * 5)
    assert [text.partition(" would")[0] for text in found.obstacles[:-1]] == [
        "12 of 12 objects",
        "12 of 12 running jobs",
        "60 of 60 running pods",
        "480 of 480 devices in use",
        "all 12 objects of kind Job",
        "the repository is empty",
    ]


SPARK = "sparkoperator.k8s.io/v1beta2"
SCHEDULED = [
    ("argoproj.io/v1alpha1", "CronWorkflow", "workflows.argoproj.io/workflow"),
    (SPARK, "ScheduledSparkApplication", "sparkoperator.k8s.io/app-name"),
]


def put_pod_of_run(world: World, run: str, label: str, namespace: str = "default") -> None:
    pod = {**thing("Pod", f"{run}-0", namespace=namespace, labels={label: run}), "spec": {}}
    world.cluster.put(f"/api/v1/namespaces/{namespace}/pods/{run}-0", {**pod, "status": {"phase": "Running"}})


def put_served(world: World, api: str, kind: str, name: str) -> Object:
    """An object of ours of a kind that this cluster serves."""
    world.cluster.before = lambda _, path, __: served(kind) if path == f"/apis/{api}" else None
    item = thing(kind, name, api=api, labels=LABELS, managedFields=[OURS])
    made = world.cluster.put(f"/apis/{api}/namespaces/default/{kind.lower()}s/{name}", item)
    world.enter(made)
    return made


@pytest.mark.parametrize(("api", "kind", "label"), SCHEDULED)
def test_the_runs_of_a_cron_workflow_and_of_a_scheduled_spark_application_count_with_it(
    world: World, api: str, kind: str, label: str
) -> None:
    """Seven of them with a run each were deleted without a question; their runs are not watched."""
    made = []
    for at in range(7):
        made.append(put_served(world, api, kind, f"nightly-{at}"))
        put_pod_of_run(world, f"nightly-{at}-1700000000", label)
        put_pod_of_run(world, f"nightly-{at}-17000000600000", label)
    put_pod_of_run(world, "weekly-1", label)
    put_pod_of_run(world, "nightly-1-1700000000", label, "elsewhere")
    held = world.prune(world.look(made[0]))
    assert "6 of 7 running jobs would be deleted, the limit is 5" in held.excess
    world.prune(world.look(*made[:5]))
    world.prune(world.look(*made[:5]))
    assert (len(world.deleted()), world.inventory.deletions) == (2, [[1000, 2, 2, 4, 0]])


MAKERS = [
    (SPARK, "SparkApplication", "sparkoperator.k8s.io/app-name"),
    ("sparkoperator.k8s.io/v1alpha1", "SparkConnect", "sparkoperator.k8s.io/connect-name"),
    ("ray.io/v1", "RayCluster", "ray.io/cluster"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name"),
]


def item_of(api: str, kind: str, name: str, **metadata: Any) -> Object:
    made = thing(kind, name, api=api, **{"uid": f"uid of {name}", **metadata})
    return {**made, "spec": {}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(("api", "kind", "label"), MAKERS)
def test_what_an_operator_has_made_counts_by_its_label(api: str, kind: str, label: str) -> None:
    """Of a SparkApplication the guard saw the driver, and none of its executors: sixty could go without a question."""
    app = item_of(api, kind, "app")
    owner = {"apiVersion": api, "kind": kind, "name": "app", "uid": "uid of app", "controller": True}
    driver = item_of("v1", "Pod", "driver", ownerReferences=[owner])
    made = [item_of("v1", "Pod", f"executor-{at}", labels={label: "app"}) for at in range(3)]
    others = item_of("v1", "Pod", "other", labels={label: "other"}), item_of("v1", "Pod", "bare")
    elsewhere = item_of("v1", "Pod", "executor-9", labels={label: "app"}, namespace="elsewhere")
    key = ref_of(app).key
    entries, pods = {key: InventoryEntry(ref_of(app), uid_of(app))}, [driver, *made, *others, elsewhere]
    for known in ({key: [driver]}, {}):
        assert pods_of_all(entries, known, {key: app}, pods) == {key: [driver, *made]}


def test_pods_that_a_jobs_pods_have_made_count_with_it_and_with_what_made_the_job() -> None:
    """Seven CronJobs with a running Job each were deleted without a question."""
    cron, job = item_of("batch/v1", "CronJob", "cron"), item_of("batch/v1", "Job", "run")
    job["metadata"]["ownerReferences"] = [{**cron, **cron["metadata"]}]
    driver, executor = item_of("v1", "Pod", "driver"), item_of("v1", "Pod", "executor")
    driver["metadata"]["ownerReferences"] = [{**job, **job["metadata"]}]
    executor["metadata"]["ownerReferences"] = [{**driver, **driver["metadata"]}]
    key, of_cron = ref_of(job).key, InventoryEntry(ref_of(cron), uid_of(cron))
    found = pods_of_all({of_cron.ref.key: of_cron}, {key: [driver]}, {key: job}, [executor, driver])
    made = ["driver", "executor"]
    assert {name: sorted(map(name_of, pods)) for name, pods in found.items()} == {key: made, of_cron.ref.key: made}
