"""What is changed by hand comes back, what is committed takes effect, and nothing is deleted on the strength of an
error."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from compiler.kubernetes import DIGEST_ANNOTATION
from tests.controlplane import ApiError, ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    QUEUES_PATH,
    SCHEDULER,
    TEST_USER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
    clean_cluster,
    job_phase,
    node_pool,
    queue,
    role,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
STATUS = "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-status"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SCHEDULER_CONF = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"


def config_map(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


class Kept:
    """A cluster that a reconciler keeps at a small repository."""

    def __init__(self, plane: ControlPlane, repository: GitRepository, reconciler: ReconcilerProcess) -> None:
        self.plane, self.repository, self.reconciler = plane, repository, reconciler

    def api(self, method: str, path: str, body: Any = None) -> Any:
        return self.plane.api(method, path, body)

    def wait(self, look: Callable[[], Any], until: Callable[[Any], object] = bool, what: str = "") -> Any:
        return self.plane.wait_until(look, until, what=what)

    def commit(self) -> str:
        """Commit, and wait until that commit is in force with everything applied."""
        commit = self.repository.commit()
        self.wait(
            self.reconciler.read_status,
            lambda seen: seen["commit"] == commit and self.holds("Applied"),
            what=f"commit {commit} in force",
        )
        return commit

    def holds(self, condition: str) -> bool:
        return bool(self.reconciler.condition(condition)["status"] == "True")

    def allow_pruning(self, commit: str) -> None:
        self.api("PATCH", STATUS, {"metadata": {"annotations": {"gangplan.dev/allow-prune": commit}}})

    def missing(self, path: str) -> bool:
        try:
            self.api("GET", path)
        except ApiError as error:
            return error.status == 404
        return False


@pytest.fixture(scope="module")
def kept(installed: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    folder: Path = tmp_path_factory.mktemp("kept")
    add_gpu_nodes(installed, 2, gpus=8)
    repository = GitRepository(folder / "repo")
    repository.write_file(
        "cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 2), queue("team", gpus=16, weight=3)
    )
    repository.write_file("jobs/steady.yaml", volcano_job("steady", role("worker", 4, gpus=1), queue="team"))
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"mode": "fast"},
    }
    repository.write_file("jobs/settings.yaml", settings)
    repository.commit()
    with ReconcilerProcess(installed, repository, folder / "one") as reconciler:
        wait_for_phase(installed, "steady")
        yield Kept(installed, repository, reconciler)
    clean_cluster(installed)


def test_what_is_changed_by_hand_is_put_back(kept: Kept) -> None:
    kept.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 77}})
    kept.wait(
        lambda: kept.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"],
        lambda seen: seen == 3,
        what="the queue's weight",
    )

    kept.api("PATCH", f"{VOLCANO_JOBS_PATH}/steady", {"metadata": {"annotations": {"gangplan.dev/placement": "{}"}}})
    kept.wait(
        lambda: kept.api("GET", f"{VOLCANO_JOBS_PATH}/steady")["metadata"]["annotations"]["gangplan.dev/placement"],
        lambda seen: seen != "{}",
    )
    kept.api("PATCH", f"{VOLCANO_JOBS_PATH}/steady", {"spec": {"minAvailable": 1}})
    kept.wait(
        lambda: kept.api("GET", f"{VOLCANO_JOBS_PATH}/steady")["spec"]["minAvailable"],
        lambda seen: seen == 4,
        what="the job's minAvailable",
    )

    kept.api("PATCH", f"{CONFIGMAPS}/settings", {"data": {"mode": "slow", "extra": "not ours"}})
    data = kept.wait(
        lambda: kept.api("GET", f"{CONFIGMAPS}/settings")["data"],
        lambda seen: seen["mode"] == "fast",
        what="the ConfigMap's data",
    )
    assert data["extra"] == "not ours", "a field that gangplan never set is left to whoever did"
    assert job_phase(kept.plane, "steady") == "Running"


def test_the_same_amount_in_another_spelling_is_no_drift(kept: Kept) -> None:
    kept.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"capability": {"nvidia.com/gpu": "16000m"}}})
    before = kept.api("GET", f"{QUEUES_PATH}/team")["metadata"]["generation"]
    kept.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 78}})
    kept.wait(
        lambda: kept.api("GET", f"{QUEUES_PATH}/team")["metadata"]["generation"],
        lambda seen: seen >= before + 2,
        what="a correction of the weight",
    )
    changes = [line["change"] for line in kept.reconciler.log_lines() if line["message"] == "change"]
    assert not [change for change in changes if "capability" in change]


def test_a_deleted_object_returns(kept: Kept) -> None:
    """Volcano's job controller now and then loses a job that is made anew at once; after five minutes it is made once
    more."""
    for path in (f"{CONFIGMAPS}/settings", f"{VOLCANO_JOBS_PATH}/steady"):
        gone = kept.api("GET", path)["metadata"]["uid"]
        kept.api("DELETE", path)
        kept.wait(
            lambda path=path: kept.api("GET", path)["metadata"]["uid"],  # type: ignore[misc]
            lambda seen, gone=gone: seen != gone,  # type: ignore[misc]
            what=f"{path} to return",
        )
    kept.plane.wait_until(
        lambda: job_phase(kept.plane, "steady"),
        lambda seen: seen == "Running",
        timeout=480,
        what="the job to run again",
    )


def test_a_broken_commit_is_reported_and_changes_nothing_until_it_is_reverted(kept: Kept) -> None:
    good = kept.commit()
    kept.repository.write_file("jobs/steady.yaml", "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n\tmetadata: {}\n")
    bad = kept.repository.commit("break it")
    said = kept.wait(
        lambda: kept.reconciler.condition("Compiled"),
        lambda seen: seen["reason"] == "CommitRejected",
        what="the rejection",
    )
    assert bad in said["message"]
    status = kept.reconciler.read_status()
    assert status["commit"] == good
    assert any(line.startswith("jobs/steady.yaml:3:1: error GP") for line in status["diagnostics"])
    kept.wait(  # Events are written outside the loop
        lambda: kept.api("GET", "/api/v1/namespaces/gangplan-system/events")["items"],
        lambda seen: any(event["reason"] == "CommitRejected" and bad in event["message"] for event in seen),
        what="the Event",
    )
    assert job_phase(kept.plane, "steady") == "Running", "the job whose file broke lives on"
    kept.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 79}})
    kept.wait(
        lambda: kept.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"],
        lambda seen: seen == 3,
        what="drift to be put back meanwhile",
    )
    kept.repository.run_git("revert", "--no-edit", "HEAD")
    kept.commit()
    assert kept.holds("Compiled")


def test_what_leaves_the_repository_is_pruned_if_it_is_ours_and_not_protected(kept: Kept) -> None:
    def config(name: str, **annotations: str) -> dict[str, Any]:
        meta = {
            "name": name,
            "namespace": "default",
            "annotations": {f"gangplan.dev/{key}": value for key, value in annotations.items()},
        }
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"key": "value"}}

    kept.repository.write_file("jobs/two.yaml", config("leaves"), config("stays", prune="disabled"))
    kept.api(
        "POST",
        CONFIGMAPS,
        {
            "metadata": {
                "name": "foreign",
                "labels": {"app.kubernetes.io/managed-by": "gangplan", "gangplan.dev/cluster": "test"},
            }
        },
    )
    kept.commit()
    kept.repository.remove_file("jobs/two.yaml")
    kept.commit()
    kept.wait(lambda: kept.missing(f"{CONFIGMAPS}/leaves"), what="the ConfigMap to go")
    assert not kept.missing(f"{CONFIGMAPS}/stays")
    assert not kept.missing(f"{CONFIGMAPS}/foreign"), "labels make nothing ours, only the inventory does"
    assert any(row["object"].endswith("stays") for row in kept.reconciler.read_status()["held"])


def test_what_existed_before_is_released_when_it_leaves_the_repository(kept: Kept) -> None:
    """S3: a queue and a ConfigMap of somebody else's, joined without a conflict, were deleted with their data."""
    theirs = {"metadata": {"name": "theirs", "labels": {"app": "theirs"}}, "data": {"mode": "theirs", "keep": "me"}}
    kept.api("POST", f"{CONFIGMAPS}?fieldManager=helm", theirs)
    kept.api("POST", f"{CONFIGMAPS}?fieldManager=helm", {"metadata": {"name": "taken"}, "data": {"mode": "theirs"}})
    kept.api("POST", f"{QUEUES_PATH}?fieldManager=helm", queue("older", gpus=4))
    joined = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "default"}}
    adopted = {"name": "taken", "namespace": "default", "annotations": {"gangplan.dev/adopt": "true"}}
    taken = {**joined, "metadata": adopted, "data": {"mode": "ours"}}
    made = {**joined, "metadata": {"name": "made", "namespace": "default"}}
    kept.repository.write_file("jobs/old.yaml", {**joined, "data": {"extra": "ours"}}, taken, made)
    kept.repository.write_file("cluster-specs/test/older.yaml", queue("older", gpus=4))
    kept.commit()
    assert kept.api("GET", f"{CONFIGMAPS}/theirs")["data"]["extra"] == "ours"
    kept.repository.remove_file("jobs/old.yaml")
    kept.repository.remove_file("cluster-specs/test/older.yaml")
    kept.commit()
    kept.wait(lambda: kept.missing(f"{CONFIGMAPS}/made"), what="the ConfigMap that gangplan made to go")
    for path in (f"{CONFIGMAPS}/theirs", f"{CONFIGMAPS}/taken", f"{QUEUES_PATH}/older"):
        released = kept.wait(
            lambda path=path: kept.api("GET", path),  # type: ignore[misc]
            lambda seen: all(entry["manager"] != "gangplan" for entry in seen["metadata"]["managedFields"]),
            what=f"{path} to be released",
        )
        assert "gangplan" not in str({**released["metadata"], "managedFields": ()})
        assert "deletionTimestamp" not in released["metadata"]
    assert kept.api("GET", f"{CONFIGMAPS}/theirs")["data"] == theirs["data"]
    assert kept.api("GET", f"{CONFIGMAPS}/taken")["data"] == {"mode": "ours"}, "its only key is not torn out"
    assert kept.api("GET", f"{QUEUES_PATH}/older")["spec"]["capability"] == {"nvidia.com/gpu": 4}


def test_a_queue_that_leaves_the_repository_waits_for_the_jobs_of_others_in_it(kept: Kept) -> None:
    """Volcano deletes a queue in which jobs run or wait."""
    kept.repository.write_file("cluster-specs/test/lent.yaml", queue("lent"))
    kept.repository.write_file("jobs/ours.yaml", volcano_job("ours", role("w", 1), queue="lent"))
    kept.commit()
    kept.api("POST", VOLCANO_JOBS_PATH, volcano_job("theirs", role("w", 1), queue="lent"))
    for name in ("ours", "theirs"):
        kept.wait(lambda name=name: job_phase(kept.plane, name) == "Running", what=f"{name} to run")  # type: ignore[misc]
    kept.repository.remove_file("jobs/ours.yaml")
    kept.repository.remove_file("cluster-specs/test/lent.yaml")
    kept.commit()
    kept.wait(lambda: kept.missing(f"{VOLCANO_JOBS_PATH}/ours"), what="the job to go")
    told = kept.wait(lambda: kept.reconciler.condition("PruneHeld"), lambda seen: seen["status"] == "True")
    assert "theirs" in told["message"]
    (row,) = (row for row in kept.reconciler.read_status()["held"] if row["object"] == "Queue lent")
    assert "theirs" in row["reason"]
    kept.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 80}})
    kept.wait(lambda: kept.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"] == 3, what="some passes")
    assert not kept.missing(f"{QUEUES_PATH}/lent")
    assert job_phase(kept.plane, "theirs") == "Running"
    kept.api("DELETE", f"{VOLCANO_JOBS_PATH}/theirs")
    kept.wait(lambda: kept.missing(f"{QUEUES_PATH}/lent"), what="the queue to go")
    kept.wait(lambda: not any("lent" in row["object"] for row in kept.reconciler.read_status()["held"]))


def test_a_repository_that_is_suddenly_empty_deletes_nothing(kept: Kept) -> None:
    before = kept.commit()
    kept.repository.run_git("rm", "-r", "-q", "--", "jobs", "cluster-specs")
    kept.repository.commit("remove everything")
    kept.wait(
        lambda: kept.reconciler.condition("Compiled")["reason"],
        lambda seen: seen == "CommitRejected",
        what="the rejection",
    )
    assert kept.reconciler.read_status()["commit"] == before
    assert not kept.missing(f"{VOLCANO_JOBS_PATH}/steady")
    kept.repository.run_git("revert", "--no-edit", "HEAD")
    kept.commit()


def test_more_deletions_than_the_limit_are_held_until_the_commit_is_allowed(kept: Kept) -> None:
    kept.repository.write_file("jobs/many.yaml", *(config_map(f"many-{at}") for at in range(11)))
    kept.commit()
    kept.repository.remove_file("jobs/many.yaml")
    commit = kept.commit()
    allow = f"gangplan.dev/allow-prune: {commit}"
    held = kept.wait(
        lambda: [row for row in kept.reconciler.read_status()["held"] if allow in row["reason"]],
        what="the pruning to be held",
    )
    assert len(held) == 11
    assert not kept.missing(f"{CONFIGMAPS}/many-0")
    kept.allow_pruning(commit)
    kept.wait(lambda: all(kept.missing(f"{CONFIGMAPS}/many-{at}") for at in range(11)), what="all of them to go")


def test_running_gangs_are_not_deleted_without_a_question(kept: Kept) -> None:
    """S14. Six of them are fewer objects than may go: what counts is what dies."""
    names = [f"runs-{at}" for at in range(6)]
    kept.repository.write_file(
        "jobs/runs.yaml", *(volcano_job(name, role("w", 1, gpus=1), queue="team") for name in names)
    )
    kept.commit()

    def phases() -> list[str]:
        return [job_phase(kept.plane, name) for name in names]

    kept.wait(phases, lambda seen: set(seen) == {"Running"}, what="all gangs to run")
    kept.repository.remove_file("jobs/runs.yaml")
    commit = kept.commit()
    held = kept.wait(
        lambda: [row for row in kept.reconciler.read_status()["held"] if "running jobs would be del" in row["reason"]],
        what="the pruning to be held",
    )
    assert len(held) == 6
    assert set(phases()) == {"Running"}
    kept.allow_pruning(commit)
    kept.wait(lambda: all(kept.missing(f"{VOLCANO_JOBS_PATH}/{name}") for name in names), what="all of them to go")


def test_what_is_over_runs_anew_although_deletions_are_held_and_never_again_by_a_hand(kept: Kept) -> None:
    """Deletions over the limit held new runs of jobs of which nothing runs; and another digest, written into a finished
    job by hand, made it run once more."""
    once = f"{VOLCANO_JOBS_PATH}/once"
    kept.repository.write_file("jobs/many.yaml", *(config_map(f"more-{at}") for at in range(11)))
    kept.repository.write_file("jobs/once.yaml", volcano_job("once", role("w", 1, run_for="1s"), queue="team"))
    kept.commit()
    kept.wait(lambda: job_phase(kept.plane, "once"), lambda seen: seen == "Completed", what="the first run")
    first = kept.api("GET", once)["metadata"]["uid"]
    kept.repository.remove_file("jobs/many.yaml")
    again = volcano_job("once", role("w", 1, cpu="2", run_for="1s"), queue="team")
    kept.repository.write_file("jobs/once.yaml", again)
    commit = kept.commit()
    kept.wait(lambda: kept.api("GET", once)["metadata"]["uid"], lambda seen: seen != first, what="the new run")
    assert kept.holds("PruneHeld")
    kept.wait(lambda: job_phase(kept.plane, "once"), lambda seen: seen == "Completed", what="its end")
    second = kept.api("GET", once)["metadata"]["uid"]
    kept.api("PATCH", once, {"metadata": {"annotations": {DIGEST_ANNOTATION: "sha256:else"}}})
    kept.allow_pruning(commit)
    kept.wait(lambda: all(kept.missing(f"{CONFIGMAPS}/more-{at}") for at in range(11)), what="all of them to go")
    kept.repository.write_file("jobs/many.yaml", config_map("settled"))
    kept.commit()
    assert kept.api("GET", once)["metadata"]["uid"] == second
    for name in ("many", "once"):
        kept.repository.remove_file(f"jobs/{name}.yaml")
    kept.commit()


def test_a_namespace_goes_only_by_an_annotation_and_holds_up_nothing_else(kept: Kept) -> None:
    """It took running jobs of others with it, without a question."""
    rule = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["*"]}
    metadata = {"metadata": {"name": "namespaces-of-a-story"}}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TEST_USER}
    role_ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **metadata["metadata"]}
    kept.api("POST", f"{RBAC}/clusterroles", {**metadata, "rules": [rule]})
    kept.api("POST", f"{RBAC}/clusterrolebindings", {**metadata, "subjects": [subject], "roleRef": role_ref})
    lab = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}
    kept.repository.write_file("jobs/lab.yaml", lab, config_map("beside"))
    kept.commit()
    kept.repository.remove_file("jobs/lab.yaml")
    commit = kept.commit()
    kept.wait(lambda: kept.missing(f"{CONFIGMAPS}/beside"), what="the ConfigMap to go")
    said = kept.wait(lambda: kept.reconciler.condition("PruneHeld"), lambda seen: seen["status"] == "True")
    assert "everything in it is deleted too" in said["message"]
    assert "deletionTimestamp" not in kept.api("GET", "/api/v1/namespaces/lab")["metadata"]
    kept.allow_pruning(commit)
    kept.wait(lambda: kept.missing("/api/v1/namespaces/lab"), what="the namespace to go")


def test_an_object_deleted_soon_after_our_own_write_and_a_status_of_another_shape_are_put_right(kept: Kept) -> None:
    """The object stayed away, and the status ended every pass of the next process."""
    kept.api("PATCH", f"{CONFIGMAPS}/settings", {"data": {"mode": "slow"}})
    kept.wait(
        lambda: kept.api("GET", f"{CONFIGMAPS}/settings")["data"]["mode"], lambda seen: seen == "fast", what="our write"
    )
    kept.api("DELETE", f"{CONFIGMAPS}/settings")
    kept.wait(lambda: not kept.missing(f"{CONFIGMAPS}/settings"), what="it to return")
    kept.reconciler.send_signal(signal.SIGTERM)
    shape = {"commit": 7, "conditions": [{"type": "Applied"}], "gangs": 5}
    kept.api("PATCH", STATUS, {"data": {"status.json": json.dumps(shape)}})
    kept.reconciler.start()
    kept.wait(lambda: kept.reconciler.read_status()["gangs"], lambda seen: isinstance(seen, list), what="the status")


def test_a_rewritten_history_is_held(kept: Kept) -> None:
    old = kept.commit()
    kept.repository.run_git("commit", "--quiet", "--allow-empty", "--amend", "-m", "another past")
    fresh = kept.repository.run_git("rev-parse", "HEAD")
    said = kept.wait(
        lambda: kept.reconciler.condition("HistoryRewritten"),
        lambda seen: seen["status"] == "True",
        what="the rewritten history",
    )
    assert old in said["message"]
    assert fresh in said["message"]
    assert kept.reconciler.read_status()["commit"] == old
    assert f"gangplan.dev/allow-rewrite: {fresh}" in said["message"]
    kept.api("PATCH", STATUS, {"metadata": {"annotations": {"gangplan.dev/allow-rewrite": fresh}}})
    kept.wait(lambda: kept.reconciler.read_status()["commit"], lambda seen: seen == fresh, what="the new history")
    assert not kept.holds("HistoryRewritten")
    kept.wait(
        lambda: kept.api("GET", STATUS)["metadata"].get("annotations", {}),
        lambda seen: "gangplan.dev/allow-rewrite" not in seen,
        what="the permission to be used up",
    )
    later = kept.commit()
    kept.wait(lambda: kept.reconciler.read_status()["commit"], lambda seen: seen == later, what="a later commit")
    kept.repository.run_git("reset", "--quiet", "--hard", fresh)
    kept.wait(lambda: kept.holds("HistoryRewritten"), what="the way back to be held")
    assert kept.reconciler.read_status()["commit"] == later
    kept.repository.run_git("reset", "--quiet", "--hard", later)
    kept.wait(lambda: not kept.holds("HistoryRewritten"), what="nothing held any more")


def test_an_object_of_another_owner_is_taken_only_if_the_repository_says_so(kept: Kept) -> None:
    theirs = {"metadata": {"name": "shared"}, "data": {"mode": "theirs"}}
    kept.api("POST", f"{CONFIGMAPS}?fieldManager=their-tool", theirs)
    ours: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shared", "namespace": "default"},
        "data": {"mode": "ours"},
    }
    kept.repository.write_file("jobs/shared.yaml", ours)
    kept.repository.commit()
    held = kept.wait(
        lambda: kept.reconciler.read_status()["held"],
        lambda seen: any(row["object"].endswith("shared") for row in seen),
        what="the conflict",
    )
    (row,) = (row for row in held if row["object"].endswith("shared"))
    assert ".data.mode is held by their-tool" in row["reason"]
    assert kept.api("GET", f"{CONFIGMAPS}/shared")["data"] == {"mode": "theirs"}
    ours["metadata"]["annotations"] = {"gangplan.dev/adopt": "true"}
    kept.repository.write_file("jobs/shared.yaml", ours)
    kept.commit()
    assert kept.api("GET", f"{CONFIGMAPS}/shared")["data"] == {"mode": "ours"}


def test_two_writers_of_the_same_field_are_a_fight_and_the_other_is_named(kept: Kept) -> None:
    turns = count()

    def write_theirs() -> Any:
        time.sleep(0.3)
        path = f"{CONFIGMAPS}/settings?fieldManager=their-tool"
        kept.plane.api("PATCH", path, {"data": {"mode": f"theirs {next(turns)}"}})
        return kept.reconciler.condition("Fighting")

    said = kept.wait(write_theirs, lambda seen: seen["status"] == "True", what="the fight")
    assert "their-tool" in said["message"]
    assert "ConfigMap default/settings" in said["message"]
    kept.api("PATCH", f"{QUEUES_PATH}/team", {"spec": {"weight": 80}})
    kept.wait(
        lambda: kept.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"],
        lambda seen: seen == 3,
        what="other objects to be kept all the same",
    )


def test_the_scheduler_runs_with_the_configuration_from_the_repository(kept: Kept) -> None:
    text = kept.api("GET", SCHEDULER_CONF)["data"]["volcano-scheduler.conf"]
    assert "predicateErrorCacheEnable: false" in text
    kept.wait(kept.plane.scheduler_conf.read_text, lambda seen: seen == text, what="the file of the scheduler")
    assert "failed to find Action" not in kept.plane.logs("volcano-scheduler")
