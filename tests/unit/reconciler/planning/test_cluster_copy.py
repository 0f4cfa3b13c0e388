"""The plan in force outlives the data folder: its copy in the cluster."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from compiler.emit.manifest import Manifest
from compiler.repository.tree import Repository
from reconciler.cluster.client import Retry
from reconciler.git.mirror import BranchHead
from reconciler.planning.cluster_copy import CHUNK, KeptPlan, PlanCopy
from reconciler.planning.snapshot import Snapshot
from reconciler.timings import TIMINGS
from tests.builders.fake_cluster import FakeCluster, stored_sizes
from tests.builders.planning import EMPTY, PlanningWorld
from tests.builders.scripted_server import error_answer
from tests.builders.threads import no_new_thread

INTERVAL, FAILURE_PAUSE = TIMINGS.plan_copy.interval, TIMINGS.plan_copy.failure_pause
COMMIT = "c0ffee" * 6 + "c0ff"
TREE = Repository({"jobs/a.yaml": b"kind: Job\n", "cluster-specs/test/c.yaml": b"\xff"}, {"jobs/a.yaml": 7})
GOOD = Snapshot(COMMIT, True, plan={"digest": "sha256:1", "gangs": []}, moments=(100, 200))

KEPT = KeptPlan(GOOD, TREE)


def copy_in(cluster: FakeCluster) -> PlanCopy:
    return PlanCopy(cluster.client(), "gangplan-system", "test")


def test_what_was_kept_is_read_whatever_its_size(cluster: FakeCluster) -> None:
    noise = random.Random(1).randbytes(2 * CHUNK).hex()  # noqa: S311 (it only must not be compressible)
    large = replace(GOOD, manifests=(Manifest(4, {"data": noise}, "x:1"),))
    assert copy_in(cluster).read() is None
    for snapshot in (GOOD, large, GOOD):
        copy_in(cluster).write(KeptPlan(snapshot, TREE))
        assert copy_in(cluster).read() == KeptPlan(snapshot, TREE)
    assert max(stored_sizes(cluster.objects).values()) < 1 << 20


def test_what_is_too_large_is_kept_without_its_files(cluster: FakeCluster) -> None:
    tree = Repository({"jobs/a.yaml": random.Random(1).randbytes(CHUNK)})  # noqa: S311
    copy = copy_in(cluster)
    copy.max_chunks = 1
    copy.write(KeptPlan(GOOD, tree))
    assert copy_in(cluster).read() == KeptPlan(GOOD, None)


def test_a_writer_that_is_killed_leaves_the_former_copy(cluster: FakeCluster) -> None:
    copy_in(cluster).write(KEPT)
    writer = copy_in(cluster)
    writer.read()
    for limit in range(2):
        most = len(cluster.writes) + limit

        def cut(method: str, path: str, body: Any, most: int = most) -> Any:
            return error_answer(500, "cut") if method != "GET" and len(cluster.writes) > most else None

        cluster.before = cut
        with pytest.raises(Retry, match="cut"):
            writer.write(KeptPlan(replace(GOOD, commit="another"), TREE))
        assert copy_in(cluster).read() == KEPT


def test_a_copy_that_is_damaged_or_newer_than_we_know_is_none(cluster: FakeCluster) -> None:
    """Seen once: a plan that is kept, or a status, that holds `null` ended every pass."""
    copy_in(cluster).write(KEPT)
    path = next(path for path in cluster.objects if path.endswith("-plan"))
    head = cluster.objects[path]
    newer, endless = (
        json.dumps({**json.loads(head["data"]["plan.json"]), name: number})
        for name, number in (("version", 9), ("chunks", 10**15))
    )
    for text in (newer, endless, "{", "null", '{"version": 1}', "[" * 100_000):
        cluster.objects[path] = {**head, "data": {"plan.json": text}}
        assert copy_in(cluster).read() is None
    for version in (1, 9):
        with pytest.raises(ValueError, match=f"format {version}.*this gangplan knows"):
            Snapshot.from_json(json.dumps({"version": version}))


def is_written(cluster: FakeCluster, copy: PlanCopy, now: float, kept: KeptPlan = KEPT) -> bool:
    """Whether something is sent where the copy is offered this plan."""
    before = len(cluster.writes)
    copy.offer(kept, now)
    copy.wait()
    return len(cluster.writes) > before


def test_a_new_commit_is_kept_at_once_and_a_new_plan_of_it_not_too_often(cluster: FakeCluster) -> None:
    copy = copy_in(cluster)
    one, two = (KeptPlan(replace(GOOD, plan={"digest": digest}), TREE) for digest in "12")
    another = KeptPlan(replace(two.snapshot, commit="another"), TREE)
    offers = [(one, 0.0), (one, 10.0), (two, 10.0), (two, 10 + INTERVAL), (two, 10 + 9 * INTERVAL)]
    written = [is_written(cluster, copy, now, kept) for kept, now in (*offers, (another, 10 + 9 * INTERVAL))]
    assert written == [True, False, False, True, False, True], "an idle cluster is not written"


@pytest.mark.parametrize("part", ["-plan", "-plan-a-0"])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_copy_that_was_deleted_or_changed_by_hand_is_written_again(
    cluster: FakeCluster, part: str, is_deleted: bool
) -> None:
    """It stayed away until the next commit: a restart without a git server then had no plan."""
    copy = copy_in(cluster)
    is_written(cluster, copy, 0.0)
    for _ in range(2):
        copy.recheck()
    assert not is_written(cluster, copy, 60.0), "it is whole"
    path = next(path for path in cluster.objects if path.endswith(part))
    found = cluster.objects.pop(path)
    if not is_deleted:
        cluster.objects[path] = {**found, "data": {"plan.json": "{}"}, "binaryData": {}}
    for _ in range(2):
        copy.recheck()
    assert is_written(cluster, copy, 120.0)
    assert copy_in(cluster).read() == KEPT


def test_a_copy_that_is_refused_is_not_tried_with_each_pass(cluster: FakeCluster) -> None:
    """Seen once: a copy of the plan that the server refuses was written again with each pass."""
    copy = copy_in(cluster)
    cluster.before = lambda method, path, body: error_answer(403, "no right") if method != "GET" else None
    tries = [is_written(cluster, copy, 100 + after) for after in (0, 0.3, 1, FAILURE_PAUSE, 1 + FAILURE_PAUSE)]
    assert tries == [True, False, False, True, False]
    cluster.recover()
    assert is_written(cluster, copy, 100 + 2 * FAILURE_PAUSE)
    assert copy_in(cluster).read() == KEPT


# ---- a lost data folder


def world_on(cluster: FakeCluster, head: BranchHead) -> PlanningWorld:
    """A process without a plan, and with a fresh clone: it knows the head, and not the commit in force."""
    return PlanningWorld(None, head, COMMIT, follows=False, cluster=cluster)


REWRITTEN = BranchHead("f" * 40, EMPTY)


@pytest.mark.parametrize(
    "head", [REWRITTEN, BranchHead(problem="no route to the git server")], ids=["held rewrite", "no git server"]
)
def test_the_plan_in_force_survives_the_loss_of_the_data_folder(cluster: FakeCluster, head: BranchHead) -> None:
    """S15: "git rev-parse failed: Needed a single revision", no drift put back, no gate lifted."""
    copy_in(cluster).write(KEPT)
    world = world_on(cluster, head)
    world.part.take_up(world.inventory)
    target = world.look()
    assert (target.commit, target.snapshot, target.problems) == (COMMIT, GOOD, ())
    assert bool(target.rewrite_message) == bool(head.commit)
    (request,) = world.compiler.asked
    assert (request.commit, request.files, request.commit_dates) == (COMMIT, TREE.files, TREE.commit_dates)


def test_a_copy_of_another_commit_is_not_in_force(cluster: FakeCluster) -> None:
    """Seen once: two clusters of one repository, kept in turn with one `--data`: the plan of one, of a commit in force
    on both, was applied to the other after a restart, and what it does not hold was deleted there."""
    copy_in(cluster).write(KeptPlan(replace(GOOD, commit="another"), TREE))
    world = world_on(cluster, REWRITTEN)
    world.part.take_up(world.inventory)
    assert not world.part.revision


ALLOW_REWRITE = "gangplan.dev/allow-rewrite"


def test_a_rewrite_takes_effect_when_an_annotation_names_it(cluster: FakeCluster) -> None:
    """S31: it took a flag."""
    world = world_on(cluster, REWRITTEN)
    for value in ("", "e" * 40, "f" * 40):
        world.annotations = {ALLOW_REWRITE: value}
        target = world.part.follow(world.seen())
        assert (target.commit == "f" * 40) == (value == "f" * 40)
        assert bool(target.rewrite_message) == (value != "f" * 40)


def test_a_permission_to_rewrite_is_removed_once_another_commit_is_in_force(cluster: FakeCluster) -> None:
    """It stayed: a later force push back to the commit was followed, and a running job pruned."""
    copy_in(cluster).write(KEPT)
    world = world_on(cluster, REWRITTEN)
    world.part.take_up(world.inventory)
    world.annotations = {ALLOW_REWRITE: "f" * 40, "other": "stays"}
    world.part.keep_copy(world.inventory, 0.0)
    assert ALLOW_REWRITE in world.annotations, "not used yet"
    world.part.snapshot = replace(GOOD, commit="f" * 40)
    world.part.keep_copy(world.inventory, 0.0)
    assert ALLOW_REWRITE in world.annotations, "the inventory does not know the commit yet"
    world.inventory.bring_into_force("f" * 40)
    world.part.keep_copy(world.inventory, 0.0)
    assert world.annotations == {"other": "stays"}


def test_a_used_permission_to_rewrite_is_removed_after_a_restart(cluster: FakeCluster) -> None:
    copy_in(cluster).write(KEPT)
    world = world_on(cluster, REWRITTEN)
    world.part.take_up(world.inventory)
    world.annotations = {ALLOW_REWRITE: COMMIT}
    world.part.keep_copy(world.inventory, 0.0)
    assert world.annotations == {}


@pytest.mark.parametrize("error", [MemoryError(), ValueError("not what was expected")])
def test_a_copy_that_broke_down_is_made_later_and_counted(cluster: FakeCluster, error: Exception) -> None:
    """It counted as written: the plan was not in the cluster until another was made."""

    def fail(self: PlanCopy, plan: KeptPlan) -> None:
        raise error

    copy, copy_without_thread = copy_in(cluster), copy_in(cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlanCopy, "write", fail)
        assert not is_written(cluster, copy, 0.0)
    assert (copy.heartbeat.errors, copy.heartbeat.last_beat) == (1, None)
    with no_new_thread():
        copy_without_thread.offer(KEPT, 0.0)
    for each in (copy, copy_without_thread):
        assert not is_written(cluster, each, FAILURE_PAUSE - 1)
        assert is_written(cluster, each, FAILURE_PAUSE)
        assert each.read() == KEPT


def test_manifests_that_stay_are_the_former_ones_themselves() -> None:
    """Also where Python takes true for 1, what is written counts."""

    def item(name: str, value: object) -> Manifest:
        meta = {"name": name}
        return Manifest(1, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "x": value}, "f.yaml:1")

    former = Snapshot("one", True, manifests=(item("stays", 1), item("goes", 1), item("turns", 1)))
    later = Snapshot("two", True, manifests=(item("stays", 1), item("turns", True), item("new", 1)))
    kept = later.with_manifests_of(former)
    assert kept.as_json() == later.as_json()
    assert kept.manifests[0] is former.manifests[0]
    assert kept.manifests[1] is later.manifests[1]
