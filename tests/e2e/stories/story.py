"""What the stories are told with: a git repository, jobs as people write them, and a reconciler as a process of its own
that can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ruamel.yaml import YAML

from compiler.kubernetes import MANAGED_BY_LABEL
from compiler.rights import DEFAULT_KINDS, KindInUse
from reconciler.cluster.rights import NAME, NAMESPACE, admission_objects, plural_of, rbac_objects
from tests.builders import declared
from tests.builders.beside import beside
from tests.controlplane import ApiError, ControlPlane

ROOT = Path(__file__).parents[3]
SUBJECT = Path(os.environ.get("GANGPLAN_UNDER_TEST", ROOT))
"""The checkout whose reconciler is tested: this one, or an older one that the tests must fail on."""
VOLCANO_JOBS_PATH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUES_PATH = "/apis/scheduling.volcano.sh/v1beta1/queues"
HOSTNAME = "kubernetes.io/hostname"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
TEST_USER = "gangplan"
"""The user of the test bed that stands for the reconciler's service account."""
PLACEMENT_GATE = "gangplan.dev/placement"
Object = dict[str, Any]

SCHEDULER = beside(__file__)["scheduler"]
EVICTING = SCHEDULER.replace("[enqueue, allocate, backfill]", "[allocate, gangpreempt, gangreclaim, backfill]").replace(
    "proportion", "capacity"
)
CLUSTER = """\
apiVersion: gangplan.dev/v1alpha1
kind: Cluster
metadata: {name: test}
spec: {binding: gated}
"""


def node_pool(name: str, count: int, *, gpus: int = 8, cpu: int = 64, supernode: int = 0) -> str:
    """Nodes name-0 .. as gangplan names them, in supernodes of so many nodes (0: outside the topology)."""
    topology = f"  topology: [{{name: {name}-sn, size: {supernode}}}]\n" if supernode else ""
    capacity = f'{{cpu: "{cpu}", memory: 512Gi, pods: 110, nvidia.com/gpu: {gpus}}}'
    return (
        f"apiVersion: gangplan.dev/v1alpha1\nkind: NodePool\nmetadata: {{name: {name}}}\n"
        f"spec:\n  count: {count}\n  capacity: {capacity}\n{topology}"
    )


def queue(name: str, gpus: int | None = None, weight: int = 1) -> Object:
    limits: Object = {} if gpus is None else {"capability": {declared.GPU: gpus}}
    return declared.queue(name, weight=weight, reclaimable=True, **limits)


def role(name: str, replicas: int, *, gpus: int = 0, cpu: str = "1", run_for: str = "", **task: Any) -> Object:
    """A task of a Volcano Job; its pods end after `run_for` (a test bed's annotation), or run for ever."""
    resources: Object = {"requests": {"cpu": cpu}, **({"limits": {"nvidia.com/gpu": gpus}} if gpus else {})}
    if gpus:
        resources["requests"]["nvidia.com/gpu"] = gpus
    meta = {"annotations": {"gangplan.test/run-for": run_for}} if run_for else {}
    pod = {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "none", "resources": resources}]}
    return {"name": name, "replicas": replicas, "template": {"metadata": meta, "spec": pod}, **task}


def volcano_job(name: str, *roles: Object, queue: str = "default", minimum: int | None = None, **spec: Any) -> Object:
    least = sum(each["replicas"] for each in roles) if minimum is None else minimum
    about: Object = {"schedulerName": "volcano", "queue": queue, "minAvailable": least, "tasks": list(roles), **spec}
    return declared.declared("Job", name, about, namespace="default")


class GitRepository:
    """A git repository of the user's, with a work tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.run_git("init", "--quiet", "--initial-branch=main")

    def run_git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.com", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *identity, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def write_file(self, path: str, *content: str | Object) -> None:
        """Each piece is one YAML document."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            "---\n".join(piece if isinstance(piece, str) else json.dumps(piece) + "\n" for piece in content)
        )

    def remove_file(self, path: str) -> None:
        (self.folder / path).unlink()

    def commit(self, message: str = "change") -> str:
        """The new commit's id."""
        self.run_git("add", "--all")
        self.run_git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.run_git("rev-parse", "HEAD")


class ReconcilerProcess:
    """`gangplan reconcile` as a process, with the rights of deploy/ and no others."""

    def __init__(
        self, plane: ControlPlane, repository: GitRepository, folder: Path, *options: str, cluster: str = "test"
    ) -> None:
        self.plane, self.folder, self.log = plane, folder, folder / "reconciler.log"
        folder.mkdir(parents=True, exist_ok=True)
        where = ["--repo", str(repository.folder), "--cluster", cluster, "--data", str(folder / "data")]
        access = ["--kubeconfig", str(plane.kubeconfig_for("gangplan"))]
        self.command = [sys.executable, "-m", "reconciler", "reconcile", *where, *access, "--poll", "1", *options]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=SUBJECT, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(SUBJECT)}
            )
        return self

    def send_signal(self, number: int) -> int:
        """Send a signal and wait for the end; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(180)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if error is not None:
            error.add_note(f"the end of the reconciler's log:\n{self.log.read_text()[-6000:]}")

    def log_lines(self) -> list[Object]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def read_status(self) -> Object:
        found = self.plane.api("GET", "/api/v1/namespaces/gangplan-system/configmaps/gangplan-test-status")
        status: Object = json.loads(found["data"]["status.json"])
        return status

    def gang_status(self, name: str) -> Object:
        """What the status says of one job; nothing before the job is in a plan."""
        found: Object = next((each for each in self.read_status()["gangs"] if each["name"] == name), {})
        return found

    def waiting_codes(self, name: str) -> list[str]:
        """The codes of the reasons why a job waits."""
        return [reason.partition(":")[0] for reason in self.gang_status(name).get("reasons", ())]

    def condition(self, kind: str) -> Object:
        found: Object = next(each for each in self.read_status()["conditions"] if each["type"] == kind)
        return found


def begin(
    plane: ControlPlane, folder: Path, nodes: int, *jobs: Object, gpus: int = 4, supernode: int = 0
) -> GitRepository:
    """A cluster of GPU nodes, all alike, and a repository with these jobs."""
    add_gpu_nodes(plane, nodes, gpus=gpus)
    repository = GitRepository(folder / "repo")
    pool = node_pool("gpu", nodes, gpus=gpus, supernode=supernode)
    repository.write_file("cluster-specs/test/cluster.yaml", CLUSTER, SCHEDULER, pool, queue("team"))
    for job in jobs:
        repository.write_file(f"jobs/{job['metadata']['name']}.yaml", job)
    repository.commit()
    return repository


def run_gangplan(*arguments: str) -> str:
    """What the command says."""
    done = subprocess.run(
        [sys.executable, "-m", "reconciler", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout


def install_rights(plane: ControlPlane) -> None:
    """Apply the namespace, and the rights and policies of deploy/ for what the stories' repositories hold; given to the
    test bed's user, who has no rights of his own."""
    namespace = YAML(typ="safe").load((ROOT / "deploy" / "namespace.yaml").read_text())
    kinds = (*DEFAULT_KINDS, KindInUse("", "ConfigMap", "default"))
    for thing in (namespace, *rbac_objects(kinds), *admission_objects()):
        for subject in thing.get("subjects", ()):
            subject.clear()
            subject.update({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": TEST_USER})
        for condition in thing.get("spec", {}).get("matchConditions", ()):
            condition["expression"] = condition["expression"].replace(ACCOUNT, TEST_USER)
        api, plural = thing["apiVersion"], plural_of(thing["kind"])
        space = f"/namespaces/{thing['metadata']['namespace']}" if "namespace" in thing["metadata"] else ""
        plane.api("POST", f"/{'apis' if '/' in api else 'api'}/{api}{space}/{plural}", thing)


ADMISSION_PATH = "/apis/admissionregistration.k8s.io/v1"
POLICY_KINDS = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")


def is_answered_with(text: str, attempt: Callable[[], object]) -> bool:
    """Whether the API server answers the attempt with an error that holds the text."""
    try:
        attempt()
    except ApiError as error:
        return text in str(error)
    return False


@contextlib.contextmanager
def only_where(
    plane: ControlPlane,
    expression: str,
    operation: str,
    resource: str,
    attempt: Callable[[], object],
    reason: str = "Invalid",
) -> Iterator[None]:
    """Meanwhile the API server refuses this operation on a core resource where the expression does not hold.

    attempt: asks for what is refused, so that it is seen from when on until when. reason: Invalid is answered with 422,
    Forbidden with 403."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": [operation], "resources": [resource]}
    meta = {"metadata": {"name": "not-yet"}}
    validations = [{"expression": expression, "message": "not yet", "reason": reason}]
    policy = {**meta, "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}}
    binding = {**meta, "spec": {"policyName": "not-yet", "validationActions": ["Deny"]}}
    for kind, thing in zip(POLICY_KINDS, (policy, binding), strict=True):
        plane.api("POST", f"{ADMISSION_PATH}/{kind}", thing)

    def is_refused() -> bool:
        return is_answered_with("not yet", attempt)

    try:
        plane.wait_until(is_refused, what="the admission policy to be heard")
        yield
    finally:
        for kind in reversed(POLICY_KINDS):
            plane.api("DELETE", f"{ADMISSION_PATH}/{kind}/not-yet")
    plane.wait_until(lambda: not is_refused(), what="the admission policy to be gone")


def job_pods(plane: ControlPlane, job: str, namespace: str = "default") -> list[Object]:
    found: list[Object] = plane.api(
        "GET", f"/api/v1/namespaces/{namespace}/pods?labelSelector=volcano.sh/job-name={job}"
    )["items"]
    return found


def end_pods(plane: ControlPlane, job: str) -> None:
    """The pods of a job succeed now. So a test has looked at what it wants to see before the job ends, however slow the
    machine is."""
    for pod in job_pods(plane, job):
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
        plane.api("PATCH", path, {"status": {"phase": "Succeeded"}})


def job_phase(plane: ControlPlane, job: str) -> str:
    return str(plane.api("GET", f"{VOLCANO_JOBS_PATH}/{job}").get("status", {}).get("state", {}).get("phase", ""))


def wait_for_phase(plane: ControlPlane, job: str, phase: str = "Running") -> None:
    plane.wait_until(lambda: job_phase(plane, job), lambda seen: seen == phase, what=f"job {job} to be {phase}")


def is_gated(pod: Object) -> bool:
    return any(gate["name"] == PLACEMENT_GATE for gate in pod["spec"].get("schedulingGates") or ())


def planned_pods(plane: ControlPlane, job: str) -> dict[str, dict[str, int]]:
    """Role -> node -> pods, as the plan says on the job."""
    found: dict[str, dict[str, int]] = json.loads(
        plane.api("GET", f"{VOLCANO_JOBS_PATH}/{job}")["metadata"]["annotations"][PLACEMENT_GATE]
    )
    return found


def bound_pods(plane: ControlPlane, job: str) -> dict[str, dict[str, int]]:
    """Role -> node -> pods, as Volcano bound them."""
    found: dict[str, dict[str, int]] = {}
    for pod in job_pods(plane, job):
        counts = found.setdefault(pod["metadata"]["annotations"]["volcano.sh/task-spec"], {})
        node = pod["spec"].get("nodeName") or "nowhere"
        counts[node] = counts.get(node, 0) + 1
    return found


def clean_cluster(plane: ControlPlane) -> None:
    """Take away what a test left: jobs, pods, nodes, queues, priority classes, what the cluster knows of nodes, and the
    reconciler's own objects."""
    for job in plane.api("GET", VOLCANO_JOBS_PATH)["items"]:
        plane.api("DELETE", f"{VOLCANO_JOBS_PATH}/{job['metadata']['name']}")
    for pod in plane.api("GET", "/api/v1/namespaces/default/pods")["items"]:
        if not pod["metadata"].get("ownerReferences"):
            plane.api("DELETE", f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}?gracePeriodSeconds=0")
    plane.wait_until(
        lambda: plane.api("GET", "/api/v1/namespaces/default/pods")["items"],
        lambda seen: not seen,
        what="all pods to go",
    )
    for path in (
        "/api/v1/nodes",
        "/apis/topology.volcano.sh/v1alpha1/hypernodes",
        "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/gangplan-system/configmaps",
        "/api/v1/namespaces/volcano-system/configmaps",  # it bears our mark; the scheduler keeps the file that it has
        "/apis/coordination.k8s.io/v1/namespaces/gangplan-system/leases",
        f"/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector={MANAGED_BY_LABEL}%3Dgangplan",
    ):
        plane.api("DELETE", path)
    plane.wait_until(lambda: delete_queues(plane), lambda left: not left, what="all queues to go")


def delete_queues(plane: ControlPlane) -> set[str]:
    """Ask for the end of all queues but Volcano's own; those that were there. One below which others are, or in which
    jobs are, goes when these are gone."""
    names = {each["metadata"]["name"] for each in plane.api("GET", QUEUES_PATH)["items"]} - {"root", "default"}
    for name in names:
        with contextlib.suppress(ApiError):
            plane.api("DELETE", f"{QUEUES_PATH}/{name}")
    return names


def add_gpu_nodes(plane: ControlPlane, count: int, gpus: int) -> list[str]:
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return plane.add_nodes([f"gpu-{at}" for at in range(count)], capacity=capacity)
