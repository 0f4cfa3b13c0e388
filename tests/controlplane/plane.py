"""A real control plane with a real Volcano on loopback ports: kube-apiserver, etcd, controllers, webhooks, scheduler,
and kwok for nodes."""

from __future__ import annotations

import atexit
import functools
import json
import re
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self, TypeVar

import yaml

from tests.controlplane import quiet_user, webhooks
from tests.controlplane.build import build, create_atomically, locked
from tests.controlplane.commands import AUDIT_LOG, AUDIT_POLICY, Ports, component_commands
from tests.controlplane.follow import SCHEDULER_CONF_KEY, ConfigMapFollower
from tests.controlplane.prepared import copy_data, first_objects, prepared_folder, type_files, without_descriptions
from tests.controlplane.processes import Process, ProcessGuard
from tests.controlplane.rest import PATIENCE, ApiError, Client, Json, kubeconfig
from tests.controlplane.stalls import StallWatch

T = TypeVar("T")

# Token users are fixed when the API server starts. "gangplan" has no rights of its own: what it may do comes from our
# ClusterRole. "guest" never gets any.
USERS: Final[Mapping[str, Sequence[str]]] = {"admin": ("system:masters",), "gangplan": (), "guest": ()}
CAPACITY: Final[Mapping[str, str]] = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
_STAGES_FILE: Final = Path(__file__).parent / "stages" / "own.yaml"
_TYPES: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_NODE_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LOST_LABEL: Final = "gangplan.test/lost"
_SLOW_WATCHERS: Final = ("kube-controller-manager", "kwok", "volcano-controller-manager")
"""Components that take long to see that the API server is back."""
SHORTEST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 0.5
"""Seconds between two looks at the cluster."""


class NotSeenError(Exception):
    """What a test waited for did not come; the text says what was seen last."""


class ControlPlane:
    """One cluster. `with ControlPlane() as cluster:` starts it (5 s when built) and ends every process of it, whatever
    happens.

    Without `work` all files are in a temporary folder that goes with it.
    """

    def __init__(self, work: Path | None = None, *, users: Mapping[str, Sequence[str]] = USERS) -> None:
        self._given_folder = work
        self._users = {**users, quiet_user.USER: ()}
        self._guard: ProcessGuard | None = None
        self._processes: dict[str, Process] = {}
        self._followers: list[ConfigMapFollower] = []
        self._stalls: StallWatch | None = None
        self._clients: dict[str, Client] = {}
        self._work_folder: Path | None = None
        self._metrics_url = ""

    # --- life

    def start(self) -> None:
        """Build what is missing, start every component, and return when jobs can be submitted."""
        cache = build()
        self._work_folder = self._given_folder or Path(tempfile.mkdtemp(prefix="gangplan-controlplane-"))
        atexit.register(self.stop)
        try:
            ports = Ports.pick()
            self._metrics_url = f"http://127.0.0.1:{ports.scheduler}/metrics"
            self._write_files(cache, ports)
            self._guard = ProcessGuard(*([] if self._given_folder else [self.work_folder]))
            for name, command in component_commands(cache, self.work_folder, ports).items():
                self._processes[name] = self._process(name, command)
            self._stalls = StallWatch(self._running_pids)
            self._stalls.start()
            self._start_components(cache, ports)
        except BaseException as error:
            for title, text in self.failure_sections(5):
                error.add_note(f"--- {title}:\n{text}")
            self.stop()
            raise

    def stop(self) -> None:
        """End everything at once. Safe to call twice."""
        atexit.unregister(self.stop)
        for follower in self._followers:
            follower.stop()
        if self._stalls is not None:
            self._stalls.stop()
        for client in self._clients.values():
            client.close()
        for process in reversed(self._processes.values()):
            process.kill(self._guard)
        if self._guard is not None:
            self._guard.close()
        if self._work_folder is not None and self._given_folder is None:
            shutil.rmtree(self._work_folder, ignore_errors=True)
        self._followers, self._processes, self._guard, self._work_folder = [], {}, None, None
        self._stalls = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- files

    @property
    def work_folder(self) -> Path:
        """The folder of this cluster's files."""
        if self._work_folder is None:
            raise RuntimeError("the control plane does not run")
        return self._work_folder

    @property
    def _etcd_folder(self) -> Path:
        return self.work_folder / "etcd"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.kubeconfig_for("admin")

    def kubeconfig_for(self, user: str) -> Path:
        """The kubeconfig of one of the users that the cluster was started with."""
        if user not in self._users:
            raise KeyError(f"no user {user!r}; this cluster knows {', '.join(self._users)}")
        return self.work_folder / f"{user}.kubeconfig"

    @property
    def scheduler_conf(self) -> Path:
        """The scheduler's configuration file, alone in its folder. Replace it, do not write into it: the scheduler
        reads on every event."""
        return self.work_folder / "scheduler-conf" / SCHEDULER_CONF_KEY

    @property
    def scheduler_metrics(self) -> str:
        """The address of the scheduler's metrics."""
        return self._metrics_url

    def audited_requests(self) -> list[Json]:
        """What the user "gangplan" has requested so far, as the API server's audit has it."""
        return [json.loads(line) for line in (self.work_folder / AUDIT_LOG).read_text().splitlines()]

    def logs(self, component: str, lines: int | None = None) -> str:
        """What a component has written: all, or the last lines."""
        return self._processes[component].tail(lines)

    def failure_sections(self, lines: int) -> list[tuple[str, str]]:
        """Title and text of what is to be known of this cluster where something failed: so many lines of each log, and
        whether the machine let the components run."""
        logs = [(f"log of {name}", process.tail(lines)) for name, process in self._processes.items()]
        return logs if self._stalls is None else [*logs, ("processors and stalls", self._stalls.report())]

    # --- components

    @property
    def components(self) -> tuple[str, ...]:
        """The components' names, in the order of starting."""
        return tuple(self._processes)

    def pid(self, component: str) -> int | None:
        """The pid of a component, None while it is down."""
        return self._processes[component].pid

    def _running_pids(self) -> dict[str, int]:
        processes = list(self._processes.items())  # tests add some meanwhile
        return {name: pid for name, process in processes if (pid := process.pid) is not None}

    def kill(self, component: str) -> None:
        """End one component with SIGKILL."""
        self._processes[component].kill(self._guard)

    def restart(self, component: str) -> None:
        """Start a component again, on the same ports and files; it is killed first if it runs. Returns at once."""
        self.kill(component)
        self._processes[component].start(self._guard)

    def restart_api_server(self) -> None:
        """Start the API server (again), and then what must hear of it soon: with each restart kwok's watches come back
        later (nodes were ready after 24 and 74 s, and lost their leases meanwhile), and Volcano's controllers may
        stall. The nodes' leases go: a kwok that begins waits until those of the one before it end, and the nodes count
        as lost by then."""
        self.restart("kube-apiserver")
        self.wait_until(lambda: self.api("GET", "/readyz"), what="the API server")
        self.kill("kwok")
        self.wait_until(lambda: self.api("DELETE", _NODE_LEASES), what="the deletion of the nodes' leases")
        for name in _SLOW_WATCHERS:
            self.restart(name)

    def add_component(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start one more program next to the cluster, with variables of its own; it ends with the cluster."""
        self._processes[name] = self._process(name, command, environment)
        self.restart(name)

    def remove_component(self, name: str) -> None:
        """End what add_component started, if it did."""
        if name in self._processes:
            self.kill(name)
            del self._processes[name]

    def _process(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
    ) -> Process:
        # The processor is scarce where several planes run, memory is not: Go collects garbage a quarter as often.
        collector = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
        usual = {"HOME": str(self.work_folder), "PATH": "/usr/bin:/bin", **collector}
        return Process(name, command, self.work_folder / "logs" / f"{name}.log", {**usual, **environment})

    def scheduling_cycles(self) -> int:
        """How many cycles Volcano's scheduler has gone through since it started."""
        with urllib.request.urlopen(self._metrics_url, timeout=PATIENCE) as answer:  # noqa: S310  - our own address
            text = answer.read().decode()
        found = re.search(r"^volcano_e2e_scheduling_latency_milliseconds_count (\d+)", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def follow_scheduler_configmap(self, namespace: str, name: str, **renamed: str) -> None:
        """From now on play kubelet: key volcano-scheduler.conf of that ConfigMap reaches the scheduler's file within
        a second of a change. renamed: words of it by which the file says something else, as for a scheduler that does
        not know them."""
        aside = self.work_folder / f"{namespace}.{name}.conf"
        follower = ConfigMapFollower(self._clients["admin"], namespace, name, self.scheduler_conf, aside, renamed)
        follower.start()
        self._followers.append(follower)

    def stop_following(self) -> None:
        """End what follow_scheduler_configmap began, once the files are as the ConfigMaps say: its looks, two a second,
        are work for the API server that a kubelet does not make."""
        for follower in self._followers:
            follower.stop()
            follower.copy_once()
        self._followers = []

    # --- the API

    def api(
        self, method: str, path: str, body: Json | None = None, content_type: str | None = None, *, user: str = "admin"
    ) -> Json:
        """One call. A str body goes as it is (give its content_type, e.g. application/yaml); a PATCH is a merge patch,
        or a JSON patch if the body is a list, or what content_type says. Raises ApiError."""
        return self._clients[user](method, path, body, content_type)

    def wait_until(
        self,
        look: Callable[[], T],
        until: Callable[[T], object] = bool,
        *,
        timeout: float = 300.0,
        what: str = "",
        pause: float | None = None,
    ) -> T:
        """Look again and again until `until(look())` holds, and return what was seen. An ApiError or a refused
        connection counts as not yet. Raises NotSeenError at the deadline, or at once when a component has ended by
        itself. pause: seconds between two looks; without it they become rarer, since the looks of the tests were most
        of the API server's work."""
        deadline, rest = time.monotonic() + timeout, pause or SHORTEST_PAUSE
        while True:
            seen: object
            try:
                state = look()
                if until(state):
                    return state
                seen = state
            except (ApiError, OSError) as error:
                seen = error
            self._check_processes()
            if time.monotonic() > deadline:
                raise NotSeenError(
                    f"{what or 'what was waited for'} did not come within {timeout:g} s; last seen: {str(seen)[:4000]}"
                )
            time.sleep(rest)
            if pause is None:
                rest = min(1.2 * rest, LONGEST_PAUSE)

    # --- nodes

    def add_nodes(
        self,
        names: Iterable[str],
        *,
        capacity: Mapping[str, str | int] = CAPACITY,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        wait: bool = True,
    ) -> list[str]:
        """Make kwok nodes, all alike, and (unless wait=False) return when they are ready and free of the not-ready
        taint."""
        added = list(names)
        resources = {key: str(value) for key, value in capacity.items()}
        for name in added:
            node = {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "annotations": {"kwok.x-k8s.io/node": "fake"},
                    "labels": {
                        "kubernetes.io/hostname": name,
                        "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": "amd64",
                        **(labels or {}),
                    },
                },
                "spec": {"taints": [dict(taint) for taint in taints]},
                "status": {"capacity": resources, "allocatable": resources},
            }
            self.api("POST", "/api/v1/nodes", node)
        if wait:
            wanted = set(added)
            self.wait_until(
                self._ready_nodes,
                wanted.issubset,
                timeout=300 + len(added) / 5,
                what=f"readiness of {len(added)} nodes",
            )
        return added

    def remove_node(self, name: str) -> None:
        """Delete a Node object. Its pods stay until kube-controller-manager collects them, most of a minute later; so
        it is in real clusters."""
        self.api("DELETE", f"/api/v1/nodes/{name}")

    def fail_node(self, name: str) -> None:
        """Make a node's readiness Unknown, as when its kubelet is gone; the node controller then taints it
        unreachable."""
        self.api("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {_LOST_LABEL: "true"}}})
        self.wait_until(self._ready_nodes, lambda ready: name not in ready, what=f"loss of node {name}")

    def recover_node(self, name: str) -> None:
        """Undo fail_node."""
        self.api("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": {_LOST_LABEL: None}}})
        self.wait_until(self._ready_nodes, lambda ready: name in ready, what=f"recovery of node {name}")

    def _ready_nodes(self) -> set[str]:
        ready = set()
        for node in self.api("GET", "/api/v1/nodes")["items"]:
            conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
            taints = {taint["key"] for taint in node["spec"].get("taints", [])}
            if conditions.get("Ready") == "True" and not taints & {
                "node.kubernetes.io/not-ready",
                "node.kubernetes.io/unreachable",
            }:
                ready.add(node["metadata"]["name"])
        return ready

    # --- the steps of starting

    def _write_files(self, cache: Path, ports: Ports) -> None:
        # In a given folder an earlier cluster may have left its state.
        shutil.rmtree(self._etcd_folder, ignore_errors=True)
        for folder in ("logs", "keys", "scheduler-conf"):
            shutil.rmtree(self.work_folder / folder, ignore_errors=True)
            (self.work_folder / folder).mkdir(parents=True)
        subprocess.run([cache / "bin" / "certs", self.work_folder / "keys"], check=True)
        shutil.copyfile(cache / "volcano" / SCHEDULER_CONF_KEY, self.scheduler_conf)
        stages = [_skip_lost_nodes(file.read_text()) for file in sorted((cache / "stages").iterdir())]
        (self.work_folder / "stages.yaml").write_text("\n---\n".join([*stages, _STAGES_FILE.read_text()]))
        tokens = []
        ca = self.work_folder / "keys" / "ca.crt"
        for user, groups in self._users.items():
            token = secrets.token_hex(16)
            tokens.append(f'{token},{user},{user},"{",".join(groups)}"\n')
            self.kubeconfig_for(user).write_text(kubeconfig(ports.api, ca, user, token))
            self._clients[user] = Client(ports.api, ca, token)
        (self.work_folder / "tokens.csv").write_text("".join(tokens))
        (self.work_folder / "audit-policy.yaml").write_text(AUDIT_POLICY)

    def _start_components(self, cache: Path, ports: Ports) -> None:
        prepared = prepared_folder(cache)
        if not prepared.exists():
            with locked(cache / "lock"):
                if not prepared.exists():
                    self._prepare(cache, prepared)
        copy_data(prepared, self._etcd_folder)
        self._start_api_server()
        for configuration in webhooks.webhook_configurations(ports.webhooks, self.work_folder / "keys" / "ca.crt"):
            plural = configuration["kind"].lower() + "s"
            self.api("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}", configuration)
        # Informers that find no resource back off for seconds, so the types come first.
        self.wait_until_types_are_served()
        for name, process in self._processes.items():
            if process.pid is None:
                self.restart(name)
        self.wait_until(lambda: self.api("GET", "/api/v1/namespaces/default"), what="namespace default")
        queue = functools.partial(self.api, "GET", "/apis/scheduling.volcano.sh/v1beta1/queues/default")
        self.wait_until(
            queue, lambda found: found.get("status", {}).get("state") == "Open", what="the open queue default"
        )
        self.wait_until(
            self._admission_answer,
            lambda said: "validatejob.volcano.sh" in said and "denied" in said and "queue with state" not in said,
            what="webhooks that know the open queue",
        )

    def _start_api_server(self) -> None:
        for name in ("etcd", "kube-apiserver"):
            self.restart(name)
        self.wait_until(lambda: self.api("GET", "/readyz"), lambda said: said == "ok", what="a ready API server")

    def _prepare(self, cache: Path, target: Path) -> None:
        """Keep what every cluster begins with for each later start."""
        self._start_api_server()
        for path, body in first_objects():
            self.api("POST", path, body)
        for file in type_files(cache):
            self.create_type(file)
        self.wait_until_types_are_served()
        for name in ("kube-apiserver", "etcd"):
            self._processes[name].end(self._guard)
        create_atomically(target, lambda aside: copy_data(self._etcd_folder, aside))
        shutil.rmtree(self._etcd_folder)

    def create_type(self, file: Path) -> str:
        """Create the CustomResourceDefinition of a file; its name. Without the descriptions, which are more than half
        of it: the API server reads and writes all of a type half a dozen times before it serves it."""
        definition = yaml.load(file.read_text(), yaml.CSafeLoader)
        self.api("POST", _TYPES, without_descriptions(definition))
        return str(definition["metadata"]["name"])

    def remove_types(self, names: Collection[str]) -> None:
        """Delete these CustomResourceDefinitions with all their objects, and wait until they are gone."""
        for name in names:
            self.api("DELETE", f"{_TYPES}/{name}")
        self.wait_until(
            self._type_names, lambda seen: not set(names).intersection(seen), what="custom resource definitions to go"
        )

    def wait_until_types_are_served(self) -> None:
        """Return when the API server serves every custom resource that was defined. Each is looked at by itself, until
        it is served: a list of all is megabytes."""
        for name in self._type_names():
            self.wait_until(functools.partial(self._is_served, name), what=f"type {name}, served")

    def _type_names(self) -> list[str]:
        """By their metadata alone."""
        accepted = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        return [each["metadata"]["name"] for each in self._clients["admin"]("GET", _TYPES, accepts=accepted)["items"]]

    def _is_served(self, name: str) -> bool:
        conditions = self.api("GET", f"{_TYPES}/{name}").get("status", {}).get("conditions") or []
        return any((each["type"], each["status"]) == ("Established", "True") for each in conditions)

    def _admission_answer(self) -> str:
        """What admission says to a job that nobody may have; it is never created."""
        job: Json = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "never"},
            "spec": {"minAvailable": 2},
        }
        job["spec"]["tasks"] = [
            {"name": "a", "replicas": 1, "template": {"spec": {"containers": [{"name": "a", "image": "a"}]}}}
        ]
        try:
            self.api("POST", "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs?dryRun=All", job)
        except ApiError as error:
            return str(error)
        return "accepted"

    def _check_processes(self) -> None:
        for process in self._processes.values():
            if process.exit_code is not None:
                raise NotSeenError(
                    f"{process.name} ended with exit code {process.exit_code}; the end of its log:\n{process.tail()}"
                )


def _skip_lost_nodes(stage: str) -> str:
    """kwok's own stages make every node ready again at once; let them pass over those that fail_node has marked."""
    if "kind: Node" not in stage:
        return stage
    head, found, rest = stage.partition("    matchExpressions:\n")
    if not found:
        raise ValueError("a stage of kwok's for nodes has no matchExpressions")
    return f"{head}{found}    - {{key: '.metadata.labels[\"{_LOST_LABEL}\"]', operator: DoesNotExist}}\n{rest}"
