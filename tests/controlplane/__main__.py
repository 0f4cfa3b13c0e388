"""python -m tests.controlplane up | down | status | build: a control plane to try things on by hand.

Progress goes to stderr. `up` prints the line that points kubectl and gangplan at the cluster: eval "$(python -m
tests.controlplane up)".
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.controlplane.build import build, print_progress
from tests.controlplane.follow import ConfigMapFollower
from tests.controlplane.helm import helm
from tests.controlplane.operators import build_operators
from tests.controlplane.plane import CAPACITY, ControlPlane
from tests.controlplane.processes import ProcessId, is_alive, kill_group, process_id_of
from tests.controlplane.rest import from_kubeconfig

_CONFIGMAP: Final = (
    "volcano-system/volcano-scheduler-configmap"  # where Volcano's Helm chart keeps the scheduler's configuration
)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.controlplane", description="A real control plane with Volcano on this machine."
    )
    parser.add_argument("command", choices=["up", "down", "status", "build", "follow"])
    parser.add_argument(
        "--dir", type=Path, default=_default_folder(), help="where the cluster's files are (default: %(default)s)"
    )
    parser.add_argument("--nodes", type=int, default=4, help="up: how many nodes (default: %(default)s)")
    parser.add_argument("--gpus", type=int, default=8, help="up: GPUs of each node (default: %(default)s)")
    parser.add_argument(
        "--configmap",
        default=_CONFIGMAP,
        help="up: the ConfigMap that becomes the scheduler's file (default: %(default)s)",
    )
    options = parser.parse_args()
    folder: Path = options.dir.resolve()
    match options.command:
        case "up":
            return up(folder, options.nodes, options.gpus, options.configmap)
        case "down":
            return down(folder)
        case "status":
            return status(folder)
        case "follow":
            return follow(folder, options.configmap)
    print(build())
    build_operators()
    helm()
    return 0


def up(folder: Path, nodes: int, gpus: int, configmap: str) -> int:
    """Start a cluster that runs until `down`."""
    if any(is_alive(process) for process in _processes(folder)):
        print_progress(f"a control plane runs in {folder} already; `down` ends it")
        return 1
    build()
    folder.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    cluster = ControlPlane(folder, guard=False)
    cluster.start()
    try:
        cluster.add_nodes([f"node-{index:04}" for index in range(nodes)], capacity={**CAPACITY, "nvidia.com/gpu": gpus})
        with (folder / "logs" / "follow.log").open("ab") as log:
            command = [
                sys.executable,
                "-m",
                "tests.controlplane",
                "follow",
                "--dir",
                str(folder),
                "--configmap",
                configmap,
            ]
            kubelet = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        processes = [*cluster.release(), process_id_of("follow", kubelet.pid)]
    except BaseException:
        cluster.stop()
        raise
    _state_file(folder).write_text(
        json.dumps({"kubeconfig": str(cluster.kubeconfig), "processes": processes}, indent=2)
    )
    print_progress(
        f"ready in {time.monotonic() - begin:.1f} s with {nodes} nodes of {gpus} GPUs; logs in {folder / 'logs'}"
    )
    print(f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}")
    return 0


def down(folder: Path) -> int:
    """End what `up` started, and nothing else."""
    ended = [process.name for process in _processes(folder) if kill_group(process)]
    _state_file(folder).unlink(missing_ok=True)
    print_progress(f"ended {', '.join(ended)}" if ended else f"nothing runs in {folder}")
    return 0


def status(folder: Path) -> int:
    """Say what runs; 0 when all of it does."""
    processes = _processes(folder)
    for process in processes:
        print(f"{process.name:28}{'running' if is_alive(process) else 'gone':10}pid {process.pid}")
    if not processes:
        print(f"no control plane in {folder}")
    return 0 if processes and all(map(is_alive, processes)) else 1


def follow(folder: Path, configmap: str) -> int:
    """Kubelet's part for a cluster that `up` started; `up` runs this itself."""
    namespace, _, name = configmap.partition("/")
    client = from_kubeconfig(folder / "admin.kubeconfig")
    ConfigMapFollower(
        client, namespace, name, folder / "scheduler-conf" / "volcano-scheduler.conf", folder / "followed.conf"
    ).run()
    return 0


def _default_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "gangplan" / "controlplane"


def _state_file(folder: Path) -> Path:
    return folder / "state.json"


def _processes(folder: Path) -> list[ProcessId]:
    file = _state_file(folder)
    return [ProcessId(*each) for each in json.loads(file.read_text())["processes"]] if file.exists() else []


if __name__ == "__main__":
    sys.exit(main())
