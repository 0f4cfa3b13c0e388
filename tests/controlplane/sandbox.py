"""The keeper of `gangplan sandbox up`: starts the control plane, the nodes that a repository declares and a reconciler,
then follows the working tree. Everything ends with this process, and it ends with `up` where that does not stay.

    python -m tests.controlplane.sandbox FOLDER REPO PORT [CLUSTER]
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from compiler.reading import read_specs
from compiler.reading.clusters import NO_CLUSTER_CODES
from compiler.repository.paths import CLUSTERS_FOLDER, ROOT_FILES, ROOT_FOLDERS
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import Specs
from compiler.specs.node_spec import NodeSpec
from reconciler.cli.sandbox import READY, STAY, Sandbox, running_sandbox, start_time, write_sandbox
from reconciler.settings import DataFolderInUse, lock_data_folder
from tests.controlplane.build import BuildError, build, print_progress
from tests.controlplane.plane import ControlPlane, NotSeenError
from tests.controlplane.rest import ApiError, Json

PERIOD: Final = 0.3
"""Seconds between two looks at the working tree."""
PLAN_SECONDS: Final = 90.0
"""How long `up` waits for the first plan."""
ROOT: Final = Path(__file__).parents[2]
IDENTITY: Final = {
    f"GIT_{who}_{what}": "gangplan-sandbox" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
CONFIGMAP: Final = ("volcano-system", "volcano-scheduler-configmap")
"""Where Volcano's chart keeps the scheduler's configuration, for a repository that holds none."""


class SandboxError(Exception):
    """The sandbox cannot start, or cannot follow a change; the text says why."""


class Source:
    """A git repository with a commit for each state of a working tree, which is only read. It begins with the history
    of that tree where it has one: jobs are as old as their commits."""

    def __init__(self, repo: Path, folder: Path) -> None:
        self.folder, self._repo = folder, repo
        own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self._environment = own | IDENTITY | {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(repo)}
        subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", folder], check=True, env=own)
        read = [f"/{name}/" for name in ROOT_FOLDERS] + [f"/{name}" for name in ROOT_FILES]
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "exclude").write_text("\n".join(["/*", *(f"!{name}" for name in read)]) + "\n")
        self._tree = self._head = ""
        with suppress(SandboxError):
            self._git("fetch", "--quiet", str(repo), "HEAD")
            self._head = self._git("rev-parse", "FETCH_HEAD")

    def commit(self) -> bool:
        """Commit the working tree where it changed; whether it did."""
        self._git("add", "--all")
        tree = self._git("write-tree")
        if tree == self._tree:
            return False
        parent = ["-p", self._head] if self._head else []
        self._head = self._git("commit-tree", tree, *parent, "-m", "The working tree")
        self._git("update-ref", "refs/heads/main", self._head)
        self._tree = tree
        return True

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self._repo, env=self._environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SandboxError(f"git {arguments[0]} failed in {self._repo}: {done.stderr.strip()}")
        return done.stdout.strip()


def node_object(spec: NodeSpec) -> Json:
    """The Node that kwok plays, with the capacity that the repository declares."""
    amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in spec.allocatable.items()}
    resources = {"pods": "1000", **amounts}
    labels = {"kubernetes.io/hostname": spec.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in spec.taints]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {**labels, **spec.labels},
        },
        "spec": {"taints": taints, **({"unschedulable": True} if spec.unschedulable else {})},
        "status": {"capacity": resources, "allocatable": resources},
    }


class Machines:
    """The nodes and namespaces of the cluster, as the repository declares them."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._nodes: dict[str, Json] = {}
        self._namespaces = {"default", "volcano-system"}

    def follow(self, specs: Specs) -> None:
        """Create, change and delete nodes; create namespaces. A folder of the cluster with an error changes nothing:
        its nodes may be those that cannot be read."""
        for name in {document.namespace or "default" for document in specs.documents} - self._namespaces:
            self._create_namespace(name)
        if any(
            each.severity == "error" and each.position.file.startswith(CLUSTERS_FOLDER) for each in specs.diagnostics
        ):
            return
        wanted = {spec.name: node_object(spec) for spec in specs.nodes}
        for name in self._nodes.keys() - wanted.keys():
            self._plane.remove_node(name)
            del self._nodes[name]
        for name, node in wanted.items():
            if name not in self._nodes:
                self._plane.api("POST", "/api/v1/nodes", node)
            elif node != self._nodes[name]:
                self._change(name, node)
            self._nodes[name] = node

    def _create_namespace(self, name: str) -> None:
        with suppress(ApiError):  # it may be there
            self._plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        self._namespaces.add(name)

    def _change(self, name: str, node: Json) -> None:
        path = f"/api/v1/nodes/{name}"
        former = dict.fromkeys(self._nodes[name]["metadata"]["labels"])
        labels = {**former, **node["metadata"]["labels"]}
        spec = {"unschedulable": None, **node["spec"]}
        self._plane.api("PATCH", path, {"metadata": {"labels": labels}, "spec": spec})
        self._plane.api("PATCH", f"{path}/status", {"status": node["status"]})


class Keeper:
    """All of one sandbox."""

    def __init__(self, folder: Path, repo: Path, port: int, cluster: str | None) -> None:
        self.folder, self.repo, self.port, self.cluster = folder, repo, port, cluster
        self.plane = ControlPlane(folder / "control-plane")
        self.machines = Machines(self.plane)

    def run(self) -> None:
        """Start everything, report that, and follow the working tree until a signal comes."""
        write_sandbox(self.folder, Sandbox(os.getpid(), start_time(os.getpid()), str(self.repo)))
        specs = self._specs()
        source = Source(self.repo, self.folder / "source.git")
        source.commit()
        programs = build() / "bin"
        print_progress(
            f"starting the control plane with {len(specs.nodes)} nodes: 30 s, or some minutes on a busy machine"
        )
        with self.plane:
            self._start(source, specs)
            (self.folder / "bin").mkdir()
            (self.folder / "bin" / "kubectl").symlink_to(programs / "kubectl")
            started = running_sandbox(self.folder)
            assert started is not None
            kubeconfig, report = str(self.plane.kubeconfig), f"http://127.0.0.1:{self.port}/report"
            ready = replace(started, kubeconfig=kubeconfig, report=report, programs=str(self.folder / "bin"))
            write_sandbox(self.folder, ready)
            print(READY, flush=True)
            with (self.folder / "keeper.log").open("w") as log:  # nobody reads the pipe from here on
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            self._follow(source)

    def _specs(self) -> Specs:
        specs = read_specs(Repository.from_directory(self.repo), self.cluster)
        if fatal := next((each for each in specs.diagnostics if each.code in NO_CLUSTER_CODES), None):
            raise SandboxError(f"{fatal.code} {fatal.message}. Fix: {fatal.help or '--repo'}")
        return specs

    def _start(self, source: Source, specs: Specs) -> None:
        self.plane.api("POST", "/api/v1/namespaces", {"metadata": {"name": "gangplan-system"}})
        self.machines.follow(specs)
        scheduler = specs.scheduler
        place = CONFIGMAP if scheduler is None else (scheduler.namespace, scheduler.name)
        self.plane.follow_scheduler_configmap(*place)
        command = [sys.executable, "-m", "reconciler", "reconcile", "--repo", str(source.folder), "--poll", "0.3"]
        command += ["--cluster", specs.cluster.name, "--data", str(self.folder / "reconciler"), "--report"]
        command += ["--kubeconfig", str(self.plane.kubeconfig), "--listen", f"127.0.0.1:{self.port}"]
        command += ["--scheduler-metrics", self.plane.scheduler_metrics]
        self.plane.add_component("reconciler", command, {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)})
        print_progress("waiting for the first plan")
        try:
            self.plane.wait_until(self._is_page_served, timeout=PLAN_SECONDS, what="the report page")
        except NotSeenError:
            if self.plane.pid("reconciler") is None:
                raise
            print_progress("there is no plan yet. Fix: `gangplan check` shows what is wrong with the repository")

    def _is_page_served(self) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/report", timeout=10) as answer:
            return bool(answer.status == 200)

    def _follow(self, source: Source) -> None:
        is_behind, trouble = False, ""
        while True:
            time.sleep(PERIOD)
            try:
                is_behind = source.commit() or is_behind
                if is_behind:
                    self.machines.follow(self._specs())
                is_behind, trouble = False, ""
            except (ApiError, OSError, SandboxError) as error:
                if str(error) != trouble:
                    trouble = str(error)
                    print_progress(f"not followed yet: {trouble}")
            for name in self.plane.components:
                if self.plane.pid(name) is None:  # as a kubelet would
                    print_progress(f"{name} ended by itself; started again")
                    self.plane.restart(name)


def _end(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(0)


def _end_without_answer() -> None:
    if sys.stdin.readline() != f"{STAY}\n":
        os.kill(os.getpid(), signal.SIGTERM)


def main(folder: str, repo: str, port: str, cluster: str | None = None) -> int:
    """Run a sandbox; its files are in `folder`, and what an earlier one left there goes."""
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_without_answer, daemon=True).start()
    place = Path(folder)
    try:
        with lock_data_folder(place):
            for left in place.iterdir():
                if left.is_dir():
                    shutil.rmtree(left)
                elif left.name != "lock":
                    left.unlink()
            Keeper(place, Path(repo), int(port), cluster).run()
    except DataFolderInUse:
        print("error: another `gangplan sandbox up` is under way. Fix: wait for it, or gangplan sandbox down")
    except SandboxError as error:
        print(f"error: {error}")
    except (BuildError, NotSeenError, ApiError, OSError, subprocess.CalledProcessError) as error:
        print(f"error: {' '.join(str(error).split())}; logs are in {folder}")
    return 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
