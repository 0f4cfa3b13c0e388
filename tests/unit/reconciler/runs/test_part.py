"""A run that is over is recorded once, with what was seen of it, and is never made again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.emit.manifest import Manifest
from compiler.kubernetes import DIGEST_ANNOTATION, PLACEMENT_ANNOTATION, uid_of
from compiler.run_kinds import RUN_KINDS, end_of_run
from compiler.syntax.runs import run_digest
from reconciler.changes.diff import Change, classify_change
from reconciler.changes.planned import PlannedRuns
from reconciler.changes.results import ChangeResult
from reconciler.cluster.objects import FIELD_MANAGER, Object, ref_of
from reconciler.inventory.shards import Table, row_text
from reconciler.inventory.store import Inventory, InventoryEntry, _as_row
from reconciler.observation.observe import Observation, Seen
from reconciler.observation.pods import POD_GROUP
from reconciler.runs.part import RunsPart, former_flows
from reconciler.runs.run_record import final_record
from reconciler.timings import TIMINGS
from tests.builders.live import VOLCANO, live, live_pod, with_metadata

RAY: Object = {
    **live("ray.io/v1", "RayJob", "train"),
    "spec": {"entrypoint": "python train.py", "ttlSecondsAfterFinished": 10},
}
DIGEST = run_digest(RAY)
MANIFEST = Manifest(4, RAY, "jobs/ray.yaml:1", DIGEST)
LIVE = {**with_metadata(RAY, annotations={DIGEST_ANNOTATION: DIGEST}), "status": {"jobDeploymentStatus": "Complete"}}
RUNNING = {**LIVE, "status": {"jobDeploymentStatus": "Running"}}
KEY = ref_of(RAY).key


def planned(manifest: Manifest) -> PlannedRuns:
    return PlannedRuns({ref_of(manifest.object).key: manifest})


def started(item: Object, **more: Any) -> InventoryEntry:
    return InventoryEntry(ref_of(item), uid_of(item), started=True, **more)


RUNS = planned(MANIFEST)


@pytest.fixture
def part() -> RunsPart:
    """Of a server that has none of the objects any more."""
    return RunsPart(lambda ref: None, lambda: 0.0, lambda: None)


def seen(*objects: Object, entries: tuple[InventoryEntry, ...] = (started(RAY),)) -> Seen:
    return looking_at(Inventory(Table({entry.ref.key: entry for entry in entries})), *objects)


def looking_at(inventory: Inventory, *objects: Object, is_leading: bool = True) -> Seen:
    found = {ref_of(item).key: item for item in objects}
    kinds = {"RayJob.ray.io", "FooJob.example.org", "Job.batch.volcano.sh", POD_GROUP, "Pod"}
    return Seen(0.0, 0.0, is_leading, Observation(found, frozenset(kinds)), inventory)


def action(manifest: Manifest, live: Object | None, finished: str | None = None) -> str:
    """What is done about this run, empty for nothing."""
    change = classify_change(manifest, live, finished_digest=finished, has_started=True, is_update_refused=False)
    return change.action if change else ""


def test_a_job_of_a_kind_that_passes_through_runs_once(part: RunsPart) -> None:
    """S16: a RayJob ends, and its time to live takes it away."""
    now = seen()
    part.record_deletions(now, RUNS, [(LIVE, True)])
    run = now.inventory.runs[KEY]
    assert (run.digest, run.phase) == (DIGEST, "Completed")
    assert action(MANIFEST, None, run.digest) == ""
    assert action(replace(MANIFEST, run_digest="sha256:other"), None, run.digest) == "create"


def test_one_that_is_deleted_before_its_end_is_made_again(part: RunsPart) -> None:
    now = seen()
    part.record_deletions(now, RUNS, [(RUNNING, True)])
    assert now.inventory.runs == {}
    assert now.inventory.entries[KEY].uid == ""


def test_what_was_seen_to_go_is_told_again_to_an_inventory_that_is_read_again(part: RunsPart) -> None:
    """A gang deleted by hand, before the pass that saw it lost its write of the inventory, counted as finished."""
    for new in ([(RUNNING, True)], [], []):
        now = seen()
        part.record_deletions(now, RUNS, new)
        assert now.inventory.entries[KEY].uid == ""
    now.inventory.entries.mark_written()
    part.record_deletions(now, RUNS, [])
    now = seen()
    part.record_deletions(now, RUNS, [])
    assert now.inventory.entries[KEY].uid == "train", "it is stored, and told no more"


def test_the_new_run_of_a_job_that_was_deleted_for_it_just_before_a_stop_is_made(part: RunsPart) -> None:
    """The next process, which saw no object and an entry that had started, took the new run for one that is over."""
    now = seen(entries=(started(RAY, run="sha256:former"),))
    assert part.record_unobserved_ends(now, RUNS) == {}
    assert now.inventory.runs[KEY].digest == "sha256:former"
    assert action(MANIFEST, None, "sha256:former") == "create"


@pytest.mark.parametrize(("live", "done"), [(RUNNING, "held"), (LIVE, "replace")])
def test_a_changed_specification_of_a_running_one_waits_for_the_end(live: Object, done: str) -> None:
    changed = replace(MANIFEST, object={**RAY, "spec": {"entrypoint": "python other.py"}}, run_digest="sha256:other")
    assert action(changed, live) == done


def test_a_record_is_made_once_and_keeps_the_former_runs(part: RunsPart) -> None:
    now = seen(LIVE)
    part.record_ends(now, RUNS)
    first = now.inventory.runs[KEY]
    part.record_ends(looking_at(now.inventory, LIVE, live_pod("late", LIVE, "n9")), RUNS)
    assert now.inventory.runs[KEY] is first
    again = with_metadata(LIVE, uid="v", annotations={DIGEST_ANNOTATION: "sha256:other"})
    part.record_ends(looking_at(now.inventory, again), RUNS)
    assert now.inventory.runs[KEY].digest == "sha256:other"
    assert [run["digest"] for run in now.inventory.runs[KEY].details["former"]] == [DIGEST]


def test_how_often_a_lost_job_is_made_again_is_counted(part: RunsPart) -> None:
    """Volcano's issue 5973: nothing happens to it any more, for ever."""
    lost, bare = (live(VOLCANO, "Job", name) for name in ("train", "b"))
    wanted = [(ref_of(each), Manifest(4, each, "", pods=int(each is lost))) for each in (lost, bare)]
    now = seen(lost, bare)
    replaced = [ChangeResult(Change("replace", ref, manifest, manifest.object), "done") for ref, manifest in wanted]
    times = (0.0, TIMINGS.runs.lost, 5 * TIMINGS.runs.lost)
    clock = iter([at for at in times for _ in replaced])
    part = replace(part, clock=lambda: next(clock))
    for at in times:
        part.observe_lost_jobs(replace(now, now=at), wanted)
        part.record_results(replaced)
        assert [*part.lost_jobs.repeats] == ([ref_of(lost).key] if at > TIMINGS.runs.lost else [])


def test_no_job_is_lost_while_its_pod_group_is_uncertain(part: RunsPart) -> None:
    """Seen once: a PodGroup was deleted by hand before the pods were created, and the job waited for ever."""
    job = {**live(VOLCANO, "Job", "train"), "status": {"state": {"phase": "Pending"}}}
    wanted, late = [(ref_of(job), Manifest(4, job, "", pods=1))], 5 * TIMINGS.runs.lost
    certain = seen(job)
    stale = replace(certain, observation=replace(certain.observation, readable_kinds=frozenset({"Pod"})))
    for now, is_lost in ((certain, True), (stale, False)):
        for at in (0.0, late):
            part.observe_lost_jobs(replace(now, now=at), wanted)
        assert bool(part.lost_jobs.message(job, late)) == is_lost


FLOW = live("flow.volcano.sh/v1alpha1", "JobFlow", "nightly")


def test_the_end_of_a_flow_is_recorded_though_its_conditions_are_a_map(part: RunsPart) -> None:
    """One that was over ended every pass of the reconciler."""
    over = {"state": {"phase": "Succeed"}, "conditions": {"nightly-a": {"phase": "Completed"}}}
    now = seen({**with_metadata(FLOW, annotations={DIGEST_ANNOTATION: "d"}), "status": over}, entries=(started(FLOW),))
    part.record_ends(now, PlannedRuns())
    assert now.inventory.runs[ref_of(FLOW).key].phase == "Completed"


@pytest.mark.parametrize(("owner", "flows", "former"), [("old", [], 1), ("old", [FLOW], 1), ("nightly", [FLOW], 0)])
def test_a_flow_is_made_again_when_the_former_ones_jobs_are_gone(owner: str, flows: list[Object], former: int) -> None:
    """Seen once: of a new run of a JobFlow Volcano takes the Jobs of the former one, where they are not collected yet,
    for its own: it would be over without a run."""
    job = live(VOLCANO, "Job", "nightly-a", with_metadata(FLOW, uid=owner))
    objects = {ref_of(item).key: item for item in (job, *flows)}
    for readable in (frozenset({ref_of(FLOW).group_kind}), frozenset[str]()):
        found = list(former_flows(Observation(objects, readable)))
        assert found == ([ref_of(FLOW).key] * former if readable else [])


TIMES = ("startTime", "completionTime")
FIELDS = ("phase", "state", "conditions", "taskStatusCount", "jobStatus", "status", "type", *TIMES)
WORDS = st.sampled_from((*FIELDS, "Completed", "True", "Failed", "Succeed", "lastTransitionTime"))
ANYTHING = st.recursive(
    st.none() | st.integers() | WORDS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(WORDS, part),
    max_leaves=6,
)


@given(st.sampled_from(sorted(RUN_KINDS)), ANYTHING | st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_whatever_a_status_holds_the_pass_goes_on(kind: str, status: object) -> None:
    """What raises here ends each pass, for all objects; kinds that pass through have no schema that we know."""
    name, _, group = kind.partition(".")
    item = {"apiVersion": f"{group}/v1", "kind": name, "metadata": {"name": "j"}, "status": status}
    end_of_run(item)
    final_record({}, item, [])


def applied(annotation: str) -> list[Object]:
    """managedFields of an object of which we have applied this annotation."""
    fields: Object = {"f:metadata": {"f:annotations": {f"f:{annotation}": {}}}}
    return [{"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields}]


@pytest.mark.parametrize("is_known", [True, False])
def test_a_finished_job_whose_digest_others_overwrite_is_not_run_again(part: RunsPart, is_known: bool) -> None:
    """With another digest it looked like a run of another specification, so that the planned one was made again."""
    ours = with_metadata(LIVE, managedFields=applied(DIGEST_ANNOTATION))
    others = with_metadata(LIVE, annotations={DIGEST_ANNOTATION: "sha256:else"}, managedFields=applied("other"))
    bare = with_metadata(others, managedFields=[])
    now = seen(ours)
    for shown in (ours, others, bare) if is_known else (others,):
        part.record_ends(looking_at(now.inventory, shown), RUNS)
    run = now.inventory.runs[KEY]
    assert (run.digest, "former" in run.details) == (DIGEST, False)


@pytest.mark.parametrize("has_started", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_a_job_terminated_before_its_first_pod_has_had_no_run(part: RunsPart, has_started: bool, gone: bool) -> None:
    """Volcano terminates a job whose pods a quota refuses fifteen times; it was recorded as over, and never ran."""
    status = {"state": {"phase": "Terminated"}, "conditions": [{"status": "Pending"}, {"status": "Terminated"}]}
    job = {**live(VOLCANO, "Job", "quoted", annotations={DIGEST_ANNOTATION: DIGEST}), "status": status}
    now = seen(*(() if gone else (job,)), entries=(replace(started(job), started=has_started),))
    part.record_deletions(now, RUNS, [(job, True)] if gone else [])
    part.record_ends(now, RUNS)
    assert (ref_of(job).key in now.inventory.runs) == has_started


@pytest.mark.parametrize(("phases", "is_over"), [(["Pending", "Terminated"], False), (["Running", "Terminated"], True)])
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_job_terminated_before_its_first_pod_has_had_no_run_where_the_inventory_is_lost(
    part: RunsPart, phases: list[str], is_over: bool, is_lost: bool
) -> None:
    """gangplan's namespace was deleted: the job was made again, counted as over meanwhile, and never ran."""
    status = {"state": {"phase": phases[-1]}, "conditions": [{"status": phase} for phase in phases]}
    job = {**live(VOLCANO, "Job", "quoted", annotations={DIGEST_ANNOTATION: DIGEST}), "status": status}
    now = looking_at(Inventory(is_lost=is_lost), job)
    part.record_ends(now, planned(Manifest(4, job, DIGEST)))
    assert (ref_of(job).key in now.inventory.runs) == (is_over or not is_lost), "another's may have had pods"


FOO: Object = {**live("example.org/v1", "FooJob", "foo"), "spec": {"ttlSecondsAfterFinished": 10}}


@pytest.mark.parametrize("way", ["is there", "is deleted", "was deleted unseen"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_run_of_a_kind_that_nobody_knows_is_made_once(part: RunsPart, way: str, marked: bool) -> None:
    """S16: it was made again each time that its time to live took it away. A former gangplan, to which it was a
    service, has not marked it."""
    manifest = Manifest(4, FOO, "jobs/foo.yaml:1", run_digest(FOO))
    runs, inventory = planned(manifest), seen(entries=(started(FOO),)).inventory
    there = with_metadata(FOO, annotations={DIGEST_ANNOTATION: manifest.run_digest} if marked else {})

    def look(*objects: Object, gone: tuple[Object, ...] = ()) -> None:
        now = looking_at(inventory, *objects)
        part.record_deletions(now, runs, [(item, True) for item in gone])
        part.record_ends(now, runs)
        part.record_unobserved_ends(now, runs)

    look({**there, "status": {"phase": "Running"}})
    assert inventory.runs == {}
    over = {**there, "status": {"phase": "Succeeded"}}
    look(*([over] if way == "is there" else []), gone=(over,) if way == "is deleted" else ())
    (run,) = inventory.runs.values()
    assert (run.digest, run.phase) == (manifest.run_digest, "Unknown" if "unseen" in way else "Completed")


TRAIN = live(VOLCANO, "Job", "train", annotations={DIGEST_ANNOTATION: "sha256:1"})
TRAIN_KEY = ref_of(TRAIN).key


def train_pod(name: str, code: int, owner: Object = TRAIN) -> Object:
    ended = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:05:00Z"}}
    return {
        **live_pod(name, owner, f"on-{name}"),
        "status": {"phase": "Failed", "containerStatuses": [{"state": ended}]},
    }


def after_losing(
    part: RunsPart, inventory: Inventory, *pods: Object, phase: str = "Running", is_leading: bool = True
) -> Inventory:
    """The inventory after a pass that sees these pods gone."""
    now = looking_at(inventory, {**TRAIN, "status": {"state": {"phase": phase}}}, is_leading=is_leading)
    part.record_deletions(now, RUNS, [(pod, True) for pod in pods])
    part.record_ends(now, RUNS)
    return inventory


def stored(inventory: Inventory) -> Inventory:
    """The inventory is written: as it is read again."""
    tables = inventory.entries, inventory.runs
    objects, runs = ([json.loads(row_text(_as_row(each))) for each in table.values()] for table in tables)
    read = Inventory.from_rows(objects, runs, {"commit": ""})
    for table in (inventory.entries, inventory.runs, read.entries, read.runs):
        table.mark_written()
    return read


def test_what_became_of_former_pods_outlives_the_process_and_is_counted_once(part: RunsPart) -> None:
    """Exit codes and nodes of pods that were made anew were lost, and evictions with the process."""
    inventory = stored(seen(entries=(started(TRAIN),)).inventory)
    after_losing(part, inventory, train_pod("unled", 1), is_leading=False)
    assert inventory.is_stored, "the one that leads tells it"
    after_losing(part, inventory, train_pod("a", 3))
    inventory = stored(after_losing(part, inventory))
    lost = after_losing(part, stored(inventory), train_pod("b", 4))
    assert lost.entries[TRAIN_KEY].record["nodes"] == ["on-a", "on-b"]
    inventory = stored(after_losing(part, inventory))
    assert inventory.entries[TRAIN_KEY].record["nodes"] == ["on-a", "on-b"], "told again to one that is read again"
    after_losing(part, inventory, train_pod("c", 4), phase="Failed")
    details = stored(inventory).runs[TRAIN_KEY].details
    assert (details["nodes"], details["exitCodes"]) == (["on-a", "on-b", "on-c"], {"": {"3": 1, "4": 2}})
    assert details["events"][""]["failed"] == [3, "2026-01-01T00:05:00Z", "2026-01-01T00:05:00Z"]
    inventory = stored(inventory)
    after_losing(part, inventory, train_pod("late", 9), phase="Failed")
    assert inventory.is_stored, "what goes after the end costs no write"


def test_the_pods_of_a_service_are_not_recorded(part: RunsPart) -> None:
    web = live("apps/v1", "Deployment", "web", annotations={PLACEMENT_ANNOTATION: "{}"})
    inventory = stored(seen(entries=(InventoryEntry(ref_of(web), "web"),)).inventory)
    part.record_deletions(looking_at(inventory, web), RUNS, [(train_pod("web-1", 0, web), True)])
    assert inventory.is_stored
