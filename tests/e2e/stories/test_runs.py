"""A job runs once; the repository's own example is accepted as a whole; what people ask of the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.controlplane import ApiError, ControlPlane
from tests.e2e.stories.story import (
    CLUSTER,
    ROOT,
    SCHEDULER,
    VOLCANO_JOBS_PATH,
    GitRepository,
    Object,
    ReconcilerProcess,
    add_gpu_nodes,
    begin,
    job_pods,
    node_pool,
    queue,
    role,
    run_gangplan,
    volcano_job,
    wait_for_phase,
)

pytestmark = pytest.mark.e2e


NAMESPACES = "/api/v1/namespaces"
OWN_CONFIGMAPS = "/api/v1/namespaces/gangplan-system/configmaps"


def exists(plane: ControlPlane, job: str) -> bool:
    try:
        plane.api("GET", f"{VOLCANO_JOBS_PATH}/{job}")
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def test_a_finished_job_never_runs_again_and_a_changed_one_does(plane: ControlPlane, tmp_path: Path) -> None:
    repository = begin(plane, tmp_path, 1)
    repository.write_file(
        "jobs/short.yaml",
        volcano_job("short", role("worker", 2, gpus=1, run_for="1s"), queue="team", ttlSecondsAfterFinished=2),
    )
    repository.write_file("jobs/kept.yaml", volcano_job("kept", role("worker", 1, gpus=1, run_for="1s"), queue="team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        plane.wait_until(
            lambda: reconciler.read_status()["finished"], lambda seen: len(seen) == 2, what="both jobs to finish"
        )
        first = plane.api("GET", f"{VOLCANO_JOBS_PATH}/kept")["metadata"]["uid"]
        plane.wait_until(
            lambda: exists(plane, "short"), lambda seen: not seen, what="the finished job to be deleted after its time"
        )
        reconciler.kill()
        plane.api("DELETE", "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-status")
        reconciler.start()
        repository.write_file("jobs/more.yaml", volcano_job("more", role("worker", 4, gpus=1), queue="team"))
        commit = repository.commit()
        plane.wait_until(
            lambda: reconciler.read_status()["commit"], lambda seen: seen == commit, what="the next commit"
        )
        wait_for_phase(plane, "more")
        assert not exists(plane, "short")
        assert plane.api("GET", f"{VOLCANO_JOBS_PATH}/kept")["metadata"]["uid"] == first
        plane.wait_until(
            lambda: {gang["name"]: gang["decision"] for gang in reconciler.read_status()["gangs"]},
            lambda seen: seen == {"short": "done", "kept": "done", "more": "keep"},
            what="the status to say so",
        )

        repository.remove_file("jobs/more.yaml")
        repository.write_file(
            "jobs/kept.yaml", volcano_job("kept", role("worker", 2, gpus=1, run_for="1s"), queue="team")
        )
        repository.commit()
        plane.wait_until(
            lambda: plane.api("GET", f"{VOLCANO_JOBS_PATH}/kept")["metadata"]["uid"],
            lambda seen: seen != first,
            what="a new run of the changed job",
        )
        wait_for_phase(plane, "kept", "Completed")
        assert not exists(plane, "short")
        lose_the_inventory(plane, repository, reconciler)


def lose_the_inventory(plane: ControlPlane, repository: GitRepository, reconciler: ReconcilerProcess) -> None:
    """S9: with an empty inventory every job that was over and gone ran again. `short` is such a job."""
    reconciler.kill()
    for item in plane.api("GET", OWN_CONFIGMAPS)["items"]:
        name = item["metadata"]["name"]
        if any(part in name for part in ("-inventory", "-objects-", "-runs-")):
            plane.api("DELETE", f"{OWN_CONFIGMAPS}/{name}")
    reconciler.start()
    said = plane.wait_until(
        lambda: reconciler.condition("InventoryLost"), lambda seen: seen["status"] == "True", what="the loss to be said"
    )
    assert "Job default/short" in said["message"]
    assert not exists(plane, "short")
    allowed = {"gangplan.dev/allow-rebuild": repository.run_git("rev-parse", "HEAD")}
    plane.api("PATCH", f"{OWN_CONFIGMAPS}/gangplan-test-status", {"metadata": {"annotations": allowed}})
    plane.wait_until(lambda: exists(plane, "short"), what="the job to run again, as a person has asked for")
    plane.wait_until(lambda: reconciler.condition("Applied")["status"], lambda seen: seen == "True", what="all is well")


def test_a_changed_specification_waits_for_the_end_of_a_running_job_unless_told_otherwise(
    plane: ControlPlane, tmp_path: Path
) -> None:
    repository = begin(plane, tmp_path, 1, volcano_job("long", role("worker", 2, gpus=1), queue="team"))
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        wait_for_phase(plane, "long")
        first = plane.api("GET", f"{VOLCANO_JOBS_PATH}/long")["metadata"]["uid"]
        changed = volcano_job("long", role("worker", 2, gpus=2), queue="team")
        repository.write_file("jobs/long.yaml", changed)
        repository.commit()
        held = plane.wait_until(lambda: reconciler.read_status()["held"], what="the change to be held")
        assert "waits for the end" in held[0]["reason"]
        assert plane.api("GET", f"{VOLCANO_JOBS_PATH}/long")["metadata"]["uid"] == first
        changed["metadata"]["annotations"] = {"gangplan.dev/replace": "true"}
        repository.write_file("jobs/long.yaml", changed)
        repository.commit()
        plane.wait_until(
            lambda: plane.api("GET", f"{VOLCANO_JOBS_PATH}/long")["metadata"]["uid"],
            lambda seen: seen != first,
            what="the new run",
        )
        wait_for_phase(plane, "long")
        assert {
            pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in job_pods(plane, "long")
        } == {"2"}


def test_once_applies_and_ends_and_a_second_time_writes_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repo")
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, node_pool("gpu", 1), queue("team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one", "--once") as reconciler:
        assert reconciler.process is not None
        assert reconciler.process.wait(180) == 0
        assert any(line["message"] == "change" for line in reconciler.log_lines())
        reconciler.log.unlink()
        reconciler.start()
        assert reconciler.process.wait(180) == 0
        assert not [line for line in reconciler.log_lines() if line["message"] == "change"]


def test_snapshot_and_status_say_what_the_cluster_holds(plane: ControlPlane, tmp_path: Path) -> None:
    repository = begin(plane, tmp_path, 2)
    repository.write_file("jobs/runs.yaml", volcano_job("runs", role("worker", 6, gpus=1), queue="team"))
    repository.write_file("jobs/waits.yaml", volcano_job("waits", role("worker", 4, gpus=1), queue="team"))
    commit = repository.commit()
    access = ("--kubeconfig", str(plane.kubeconfig_for("gangplan")))
    with ReconcilerProcess(plane, repository, tmp_path / "one"):
        wait_for_phase(plane, "runs")
        said = run_gangplan("status", "--cluster", "test", *access)
        assert commit in said
        assert "default/waits" in said
        run_gangplan("snapshot", *access, "-o", str(tmp_path / "state.json"))
    plan = json.loads(
        run_gangplan("plan", "--repo", str(repository.folder), "--state", str(tmp_path / "state.json"), "-o", "json")
    )
    decisions = {gang["name"]: gang["decision"] for gang in plan["gangs"]}
    assert decisions == {"runs": "keep", "waits": "wait"}, "the decision can be replayed without the cluster"


@contextmanager
def new_namespaces(plane: ControlPlane, names: set[str]) -> Iterator[None]:
    """Namespaces that go at the end, with all that is in them."""
    for name in sorted(names):
        plane.api("POST", NAMESPACES, {"metadata": {"name": name}})
    try:
        yield
    finally:
        for name in sorted(names):
            plane.api("DELETE", f"{NAMESPACES}/{name}")
    plane.wait_until(
        lambda: {each["metadata"]["name"] for each in plane.api("GET", NAMESPACES)["items"]},
        names.isdisjoint,
        what="the namespaces to go",
    )


def test_every_manifest_of_the_repositorys_own_example_is_accepted(plane: ControlPlane, tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repo")
    for file in sorted((ROOT / "cluster-specs" / "demo").rglob("*.yaml")) + sorted((ROOT / "jobs").rglob("*.yaml")):
        repository.write_file(str(file.relative_to(ROOT)), file.read_text())
    repository.commit()
    spaces = {
        gang["namespace"]
        for gang in json.loads(run_gangplan("plan", "--repo", str(repository.folder), "-o", "json"))["gangs"]
    }
    with new_namespaces(plane, spaces - {"default"}):
        with ReconcilerProcess(plane, repository, tmp_path / "one", "--once", cluster="demo") as reconciler:
            assert reconciler.process is not None
            assert reconciler.process.wait(300) == 0
        found = plane.api("GET", "/api/v1/namespaces/gangplan-system/configmaps/gangplan-demo-status")
        assert json.loads(found["data"]["status.json"])["held"] == []
        jobs = plane.api("GET", "/apis/batch.volcano.sh/v1alpha1/jobs")["items"]
        assert len(jobs) >= 10
        assert len(plane.api("GET", "/apis/topology.volcano.sh/v1alpha1/hypernodes")["items"]) == 40


def test_jobs_that_only_wait_are_withheld_beyond_the_clusters_limit(plane: ControlPlane, tmp_path: Path) -> None:
    add_gpu_nodes(plane, 1, gpus=1)
    repository = GitRepository(tmp_path / "repo")
    cluster = CLUSTER.replace("binding: gated", "binding: gated, maxWaitingPods: 5")
    repository.write_file(
        "cluster-specs/test/cluster.yaml", cluster, SCHEDULER, node_pool("gpu", 1, gpus=1), queue("team")
    )
    for name in ("one", "two", "three"):
        repository.write_file(f"jobs/{name}.yaml", volcano_job(name, role("worker", 2, gpus=1), queue="team"))
    repository.commit()
    with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
        held = plane.wait_until(lambda: reconciler.read_status()["held"], what="a job to be withheld")
        assert len(held) == 1
        assert "as many waiting pods as it may (5)" in held[0]["reason"]
        plane.wait_until(
            lambda: [name for name in ("one", "two", "three") if exists(plane, name)],
            lambda seen: len(seen) == 2,
            what="the two others",
        )


def test_the_files_in_deploy_are_accepted(installed: ControlPlane) -> None:
    for thing in YAML(typ="safe").load_all((ROOT / "deploy" / "deployment.yaml").read_text()):
        api = thing["apiVersion"]
        root = f"/{'apis' if '/' in api else 'api'}/{api}"
        path = f"{root}/namespaces/gangplan-system/{thing['kind'].lower()}s"
        created = installed.api("POST", f"{path}?dryRun=All&fieldValidation=Strict", thing)
        assert created["metadata"]["uid"]


RAY_JOBS_PATH = "/apis/ray.io/v1/namespaces/default/rayjobs"
TYPES_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RAY_TYPE = "rayjobs.ray.io"
RBAC_PATH = "/apis/rbac.authorization.k8s.io/v1"


def serve_ray_jobs(plane: ControlPlane) -> None:
    """The kind of KubeRay, as far as a reconciler needs it, and the rights that `gangplan rbac` would print for it."""
    rbac = "rbac.authorization.k8s.io"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    names = {"plural": "rayjobs", "singular": "rayjob", "kind": "RayJob", "listKind": "RayJobList"}
    plane.api(
        "POST",
        TYPES_PATH,
        {
            "metadata": {"name": RAY_TYPE},
            "spec": {"group": "ray.io", "scope": "Namespaced", "names": names, "versions": [version]},
        },
    )
    rule = {
        "apiGroups": ["ray.io"],
        "resources": ["rayjobs"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    }
    plane.api("POST", f"{RBAC_PATH}/clusterroles", {"metadata": {"name": "ray"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "ray"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "ray"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "gangplan"}],
    }
    plane.api("POST", f"{RBAC_PATH}/clusterrolebindings", binding)
    plane.wait_until(lambda: plane.api("GET", RAY_JOBS_PATH)["kind"], what="RayJobs to be served")


def repository_with_a_ray_job(plane: ControlPlane, tmp_path: Path) -> GitRepository:
    """With a node, on a cluster that serves RayJobs."""
    add_gpu_nodes(plane, 1, gpus=4)
    serve_ray_jobs(plane)
    repository = GitRepository(tmp_path / "repo")
    pool = node_pool("gpu", 1, gpus=4)
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, pool, queue("team"))
    spec = {"entrypoint": "python train.py", "clusterSelector": {"ray.io/cluster": "shared"}}
    metadata = {"name": "ray", "namespace": "default"}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": metadata, "spec": spec}
    repository.write_file("jobs/ray.yaml", ray)
    repository.commit()
    return repository


def stop_serving_ray_jobs(plane: ControlPlane) -> None:
    for path in (f"{RBAC_PATH}/clusterrolebindings/ray", f"{RBAC_PATH}/clusterroles/ray"):
        plane.api("DELETE", path)
    plane.remove_types([RAY_TYPE])


def test_a_job_of_a_kind_that_passes_through_runs_once_and_again_when_asked(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """S16: a RayJob ends, is deleted, and stays away until an operator asks."""
    repository = repository_with_a_ray_job(plane, tmp_path)

    def uids() -> list[str]:
        return [item["metadata"]["uid"] for item in plane.api("GET", RAY_JOBS_PATH)["items"]]

    try:
        with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
            first = plane.wait_until(uids, what="the RayJob")
            done = {"status": {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}}
            plane.api("PATCH", f"{RAY_JOBS_PATH}/ray/status", done)
            plane.wait_until(lambda: reconciler.read_status()["finished"], what="its end to be recorded")
            plane.api("DELETE", f"{RAY_JOBS_PATH}/ray")
            repository.write_file("jobs/next.yaml", volcano_job("next", role("worker", 1, gpus=1), queue="team"))
            repository.commit()
            wait_for_phase(plane, "next")
            assert uids() == []
            where = ["--cluster", "test", "--kubeconfig", str(plane.kubeconfig_for("admin"))]
            assert "run 2" in run_gangplan("rerun", *where, "default/ray")
            (again,) = plane.wait_until(uids, what="the second run")
            assert again not in first
            run_gangplan("suspend", *where, "RayJob")
            plane.wait_until(lambda: "RayJob" in reconciler.read_status()["suspended"], what="the suspension")
            plane.api("DELETE", f"{RAY_JOBS_PATH}/ray")
            repository.remove_file("jobs/next.yaml")
            repository.commit()
            plane.wait_until(lambda: job_pods(plane, "next"), lambda seen: not seen, what="a later commit")
            assert uids() == []
            run_gangplan("resume", *where, "RayJob")
            plane.wait_until(uids, what="the RayJob, which had not finished")
    finally:
        stop_serving_ray_jobs(plane)


def test_a_job_that_loses_our_label_gets_it_back_and_is_neither_over_nor_made_again(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """Kinds that pass through are watched by the label, so the watch shows such a job as deleted."""
    repository = repository_with_a_ray_job(plane, tmp_path)

    def labels() -> Object:
        found: Object = plane.api("GET", f"{RAY_JOBS_PATH}/ray")["metadata"].get("labels", {})
        return found

    def take_label() -> None:
        plane.api("PATCH", f"{RAY_JOBS_PATH}/ray", {"metadata": {"labels": {"gangplan.dev/cluster": None}}})

    try:
        with ReconcilerProcess(plane, repository, tmp_path / "one") as reconciler:
            plane.wait_until(lambda: reconciler.condition("Applied")["status"] == "True", what="the RayJob")
            uid = plane.api("GET", f"{RAY_JOBS_PATH}/ray")["metadata"]["uid"]
            running = {"status": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}}
            plane.api("PATCH", f"{RAY_JOBS_PATH}/ray/status", running)
            take_label()
            plane.wait_until(lambda: "gangplan.dev/cluster" in labels(), what="the label to be put back")
            reconciler.kill()
            take_label()
            reconciler.start()
            plane.wait_until(lambda: "gangplan.dev/cluster" in labels(), what="the label after a restart")
            repository.write_file("jobs/next.yaml", volcano_job("next", role("worker", 1, gpus=1), queue="team"))
            repository.commit()
            wait_for_phase(plane, "next")
            plane.wait_until(lambda: reconciler.condition("Applied")["status"] == "True", what="all applied")
            status = reconciler.read_status()
            assert (status["finished"], status["held"]) == ({}, [])
            assert plane.api("GET", f"{RAY_JOBS_PATH}/ray")["metadata"]["uid"] == uid
    finally:
        stop_serving_ray_jobs(plane)
