"""Who writes, and what: a leader that is stopped in the middle of its writes wakes as nobody, a gangplan of another
name does not start, a commit with an object that is refused changes nothing."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.controlplane import ApiError, ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    QUEUES_PATH,
    SCHEDULER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    ReconcilerProcess,
    add_gpu_nodes,
    is_answered_with,
    job_phase,
    node_pool,
    only_where,
    queue,
    role,
    volcano_job,
)

pytestmark = pytest.mark.e2e

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
JOBS = 120
LEFT_OUT = 6
"""Each may be pruned twice, where it was on the wire as well: that many deletions are not held yet."""


def job_names(plane: ControlPlane) -> set[str]:
    return {item["metadata"]["name"] for item in plane.api("GET", VOLCANO_JOBS_PATH)["items"]}


def write_jobs(repository: GitRepository, first: int) -> str:
    """Commit the jobs from this number on; none of them finds room."""
    jobs = (volcano_job(f"job-{at:03}", role("worker", 1, gpus=8), queue="team") for at in range(first, JOBS))
    repository.write_file("jobs/all.yaml", *jobs)
    return repository.commit()


def test_a_leader_that_is_stopped_inside_a_wave_wakes_and_writes_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """Seen once: a leader stopped inside a wave woke and wrote on."""
    repository = GitRepository(tmp_path / "repo")
    specs = "cluster-specs/test/cluster.yaml"
    repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1, gpus=4), queue("team"))
    repository.commit()
    one = ReconcilerProcess(plane, repository, tmp_path / "one")
    two = ReconcilerProcess(plane, repository, tmp_path / "two")
    with one:
        plane.wait_until(lambda: plane.api("GET", f"{QUEUES_PATH}/team"), what="the first commit in force")
        with two:
            write_jobs(repository, 0)
            plane.wait_until(lambda: job_names(plane), what="the first jobs", pause=0.02)
            assert one.process is not None
            one.process.send_signal(signal.SIGSTOP)
            stopped_at = len(job_names(plane))
            commit = write_jobs(repository, LEFT_OUT)
            expected = {f"job-{at:03}" for at in range(LEFT_OUT, JOBS)}
            plane.wait_until(lambda: job_names(plane), lambda seen: seen == expected, what="the newer commit")
            plane.wait_until(lambda: two.read_status()["commit"], lambda seen: seen == commit, what="its status")
            one.process.send_signal(signal.SIGCONT)
            plane.wait_until(
                lambda: [line for line in one.log_lines() if line["message"] == "stopped writing"],
                what="the first leader to see that it is none",
            )
            what = "what was on the wire when it was stopped to be taken away"
            plane.wait_until(lambda: job_names(plane), lambda seen: seen == expected, what=what)
            assert stopped_at < JOBS, "it was stopped too late to prove anything"
            own = plane.api("GET", "/api/v1/namespaces/gangplan-system/configmaps")["items"]
            rows = str([item["data"] for item in own if "-objects-" in item["metadata"]["name"]])
            assert all(name in rows for name in expected)


def test_a_gangplan_of_another_name_does_not_start_and_names_the_first(plane: ControlPlane, tmp_path: Path) -> None:
    """Seen once: two gangplans on one cluster."""
    repository = GitRepository(tmp_path / "repo")
    for cluster in ("test", "other"):
        pool = node_pool("gpu", 1).replace("name: gpu", f"name: {cluster}-gpu", 1)
        specs = CLUSTER.replace("name: test", f"name: {cluster}")
        repository.write_file(f"cluster-specs/{cluster}/cluster.yaml", specs, SCHEDULER, pool, queue("team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        plane.wait_until(lambda: plane.api("GET", f"{QUEUES_PATH}/team"), what="the first commit in force")
        with ReconcilerProcess(plane, repository, tmp_path / "two", cluster="other") as second:
            assert second.process is not None
            assert second.process.wait(180) == 1
            assert "--cluster test --namespace gangplan-system" in second.log.read_text()


POLICIES = "/apis/admissionregistration.k8s.io/v1"
RULE = {
    "apiGroups": ["batch.volcano.sh"],
    "apiVersions": ["*"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["jobs"],
}
POLICY = {
    "metadata": {"name": "no-bad-jobs"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": "object.metadata.name != 'bad'", "message": "this one is bad"}],
    },
}
BINDING = {"metadata": {"name": "no-bad-jobs"}, "spec": {"policyName": "no-bad-jobs", "validationActions": ["Deny"]}}


def refuse_bad_jobs(plane: ControlPlane) -> None:
    """From now on admission refuses jobs named "bad"."""
    plane.api("POST", f"{POLICIES}/validatingadmissionpolicies", POLICY)
    plane.api("POST", f"{POLICIES}/validatingadmissionpolicybindings", BINDING)

    def is_refused() -> bool:
        try:
            plane.api("POST", f"{VOLCANO_JOBS_PATH}?dryRun=All", volcano_job("bad", role("worker", 1)))
        except ApiError as error:
            return "this one is bad" in str(error)
        return False

    plane.wait_until(is_refused, what="the policy in force")


def test_a_commit_with_a_refused_object_changes_nothing_until_it_is_mended(plane: ControlPlane, tmp_path: Path) -> None:
    """Seen once: a commit was applied in part, and the status said it was fine."""
    refuse_bad_jobs(plane)
    repository = GitRepository(tmp_path / "repo")
    specs = "cluster-specs/test/cluster.yaml"
    repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"))
    first = repository.commit()
    try:
        with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
            plane.wait_until(lambda: plane.api("GET", f"{QUEUES_PATH}/team"), what="the first commit in force")
            repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"), queue("more"))
            repository.write_file("jobs/good.yaml", volcano_job("good", role("worker", 1), queue="more"))
            repository.write_file("jobs/bad.yaml", volcano_job("bad", role("worker", 1), queue="more"))
            repository.commit()
            plane.wait_until(
                lambda: reconciler.condition("Accepted"), lambda seen: seen["status"] == "False", what="the refusal"
            )
            status = reconciler.read_status()
            assert status["commit"] == first
            assert any(
                line.startswith("jobs/bad.yaml:1:1: error GP505: ") and "this one is bad" in line
                for line in status["diagnostics"]
            )
            assert [row["object"] for row in status["held"]] == ["Job default/bad"]
            assert not job_names(plane)
            assert "more" not in {item["metadata"]["name"] for item in plane.api("GET", QUEUES_PATH)["items"]}
            repository.remove_file("jobs/bad.yaml")
            repository.commit()
            plane.wait_until(lambda: job_names(plane), lambda seen: seen == {"good"}, what="the mended commit")
            plane.wait_until(
                lambda: reconciler.condition("Accepted"), lambda seen: seen["status"] == "True", what="its acceptance"
            )
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            plane.api("DELETE", f"{POLICIES}/{kind}/no-bad-jobs")


CONFIGMAPS_PATH = "/api/v1/namespaces/default/configmaps"


def config_map(name: str) -> str:
    return f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}, namespace: default}}, data: {{a: b}}}}\n"


def test_a_policy_that_answers_403_holds_the_commit_as_one_that_answers_422(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Any 403 but a webhook's was taken for a missing right, and the commit applied in part."""
    repository = GitRepository(tmp_path / "repo")
    specs = "cluster-specs/test/cluster.yaml"
    repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"))
    first = repository.commit()
    bad = {"metadata": {"name": "bad"}}
    attempt = partial(plane.api, "POST", f"{CONFIGMAPS_PATH}?dryRun=All", bad)
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(lambda: plane.api("GET", f"{QUEUES_PATH}/team"), what="the first commit in force")
        with only_where(plane, "object.metadata.name != 'bad'", "CREATE", "configmaps", attempt, reason="Forbidden"):
            repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"), queue("more"))
            repository.write_file("jobs/good.yaml", volcano_job("good", role("worker", 1), queue="more"))
            repository.write_file("jobs/settings.yaml", config_map("fine"), config_map("bad"))
            repository.commit()

            def refusals() -> int:
                return sum(line["message"] == "commit refused" for line in reconciler.log_lines())

            for times in (1, 2):
                plane.wait_until(refusals, lambda seen: seen >= times, what="the refusal")  # noqa: B023
                plane.wait_until(
                    lambda: reconciler.condition("Accepted"), lambda seen: seen["status"] == "False", what="its telling"
                )
                status = reconciler.read_status()
                assert status["commit"] == first
                assert any(
                    line.startswith("jobs/settings.yaml:3:1: error GP505: ") and "not yet" in line
                    for line in status["diagnostics"]
                ), status["diagnostics"]
                assert [row["object"] for row in status["held"]] == ["ConfigMap default/bad"]
                for kind in ("Accepted", "Applied"):
                    assert reconciler.condition(kind)["reason"] == "CommitRefused"
                assert not job_names(plane)
                made = {item["metadata"]["name"] for item in plane.api("GET", CONFIGMAPS_PATH)["items"]}
                assert made.isdisjoint({"fine", "bad"})
                assert "more" not in {item["metadata"]["name"] for item in plane.api("GET", QUEUES_PATH)["items"]}
            plane.wait_until(
                lambda: plane.api("GET", "/api/v1/namespaces/gangplan-system/events")["items"],
                lambda seen: any(each["reason"] == "CommitRefused" and "not yet" in each["message"] for each in seen),
                what="an Event",
            )
        plane.wait_until(lambda: job_names(plane), lambda seen: seen == {"good"}, what="the commit")
        plane.api("GET", f"{CONFIGMAPS_PATH}/bad")


@contextlib.contextmanager
def dead_webhook(plane: ControlPlane, plural: str, seconds: int, attempt: Callable[[], object]) -> Iterator[None]:
    """A webhook for changes of queues (say) that takes connections and never answers.

    attempt: makes such a change, so that the API server is seen to ask the webhook.
    """

    with socket.create_server(("127.0.0.1", 0)) as listener:
        rule = {"apiGroups": ["scheduling.volcano.sh"], "apiVersions": ["*"], "operations": ["UPDATE"]}
        hook = {
            "name": "dead.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{listener.getsockname()[1]}/"},
            "rules": [{**rule, "resources": [plural]}],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": seconds,
        }
        plane.api("POST", WEBHOOKS, {"metadata": {"name": "dead"}, "webhooks": [hook]})
        try:
            plane.wait_until(lambda: is_answered_with("dead.example.com", attempt), what="the webhook to be asked")
            yield
        finally:
            plane.api("DELETE", f"{WEBHOOKS}/dead")


def test_a_webhook_that_never_answers_is_told_and_holds_up_only_what_it_is_asked_about(
    plane: ControlPlane, tmp_path: Path
) -> None:
    repository = GitRepository(tmp_path / "repo")
    specs = "cluster-specs/test/cluster.yaml"
    repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"))
    add_gpu_nodes(plane, 1, gpus=8)
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(lambda: plane.api("GET", f"{QUEUES_PATH}/team"), what="the first commit in force")
        change = {"metadata": {"labels": {"asked": "yes"}}}
        with dead_webhook(plane, "queues", 4, lambda: plane.api("PATCH", f"{QUEUES_PATH}/team?dryRun=All", change)):
            repository.write_file(specs, CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team", weight=7))
            repository.write_file("jobs/good.yaml", volcano_job("good", role("worker", 1)))
            repository.commit()
            told = plane.wait_until(
                lambda: reconciler.condition("Accepted"), lambda seen: seen["status"] == "False", what="the delay"
            )
            assert told["reason"] == "Unanswered"
            assert "Queue team" in told["message"]
            plane.wait_until(lambda: job_phase(plane, "good") == "Running", what="the job of the same commit to run")
            applied = plane.wait_until(
                lambda: reconciler.condition("Applied"),
                lambda seen: "dead.example.com" in seen["message"],
                what="the failed write",
            )
            assert applied["status"] == "False"
            assert reconciler.condition("Accepted")["status"] == "True"
        plane.wait_until(
            lambda: plane.api("GET", f"{QUEUES_PATH}/team")["spec"]["weight"] == 7, what="the queue to be written"
        )
