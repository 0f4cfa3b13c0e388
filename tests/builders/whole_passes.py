"""Whole passes of a reconciler on an API server of one dictionary: its watches show that, compiles are made in place,
and the job controller and the scheduler do their work between passes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from compiler.kubernetes import CLUSTER_LABEL, HOSTNAME_LABEL, is_gated, labels_of, uid_of
from compiler.repository.tree import Repository
from reconciler.assembly import build_parts
from reconciler.cluster.objects import Object, group_kind_of, ref_of
from reconciler.cluster.watch import Informer
from reconciler.git.mirror import BranchHead
from reconciler.loop import reconcile_once
from reconciler.planning.compile.process import (
    NO_REQUEST,
    CompileRequest,
    compile_request,
    decode_request,
    encode_request,
)
from reconciler.planning.snapshot import Snapshot
from reconciler.report.status import Report
from reconciler.requests.part import Requests
from reconciler.settings import Settings
from tests.builders.compiles import CLUSTER, JOB, OTHER, node
from tests.builders.fake_cluster import FakeCluster
from tests.builders.planning import Clone

PODS = "/api/v1/namespaces/default/pods/"
TREE = Repository({"cluster-specs/test/cluster.yaml": CLUSTER, "jobs/a.yaml": JOB, "jobs/b.yaml": OTHER}, {}, ())


@dataclass
class CompiledInPlace:
    """Stands in for the child process. What a compile raises ends the pass that began it."""

    answer: Snapshot | None = None

    @property
    def is_busy(self) -> bool:
        return self.answer is not None

    def start_compile(self, request: CompileRequest) -> None:
        sent = encode_request(replace(request, executor="local"), NO_REQUEST)
        self.answer = compile_request(decode_request(sent, NO_REQUEST))

    def send_state(self, request: CompileRequest) -> None:
        pass

    def take_result(self) -> Snapshot | None:
        answer, self.answer = self.answer, None
        return answer


def shown_at_once(informer: Informer) -> None:
    """In place of `Informer.start`: a test feeds it."""
    informer.health.record_list(0.0)
    informer._ready.set()


@dataclass
class Passes:
    """shown: Ref.key -> what the watches show in place of an object."""

    folder: Path
    cluster: FakeCluster = field(default_factory=FakeCluster)
    shown: dict[str, Object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = Settings(str(self.folder), "main", "test", "gangplan-system", self.folder / "data")
        self.parts = build_parts(settings, self.cluster.client(), "me")
        clone = Clone(BranchHead("c0ffee", TREE))
        branch = replace(self.parts.planning.branch, poller=cast("Any", clone), mirror=cast("Any", clone))
        self.parts.planning.branch, self.parts.planning.compiler = branch, cast("Any", CompiledInPlace())
        self.parts.requests._latest = Requests()
        for name in ("gpu-0", "gpu-1", "gpu-2"):
            self.cluster.put(f"/api/v1/nodes/{name}", node(name))

    def run(self, passes: int = 1) -> Report:
        """Make passes, each with what the watches show by then and with the answers of a dry run; the last report."""
        for _ in range(passes):
            self.parts.planning.worker_state.rested_at = 0.0
            self._show()
            report = reconcile_once(self.parts)
            if (dry_run := self.parts.planning.candidacy.dry_run) is not None:
                dry_run.ended.wait()
            self._work()
        return report

    def _show(self) -> None:
        watches = self.parts.hands.watches
        if not watches.informers:
            watches.start()
        for informer in watches.informers.values():
            kind = group_kind_of(informer.resource.api_version, informer.resource.kind)
            found = [item for item in list(self.cluster.objects.values()) if ref_of(item).group_kind == kind]
            ours = (item for item in found if not informer.selector or labels_of(item).get(CLUSTER_LABEL))
            items = [json.loads(json.dumps(self.shown.get(ref_of(item).key, item))) for item in ours]
            cache = informer._cache
            cache.replace_objects(items, str(self.cluster.version))

    def _work(self) -> None:
        """Volcano makes the pods of its jobs and binds those that have their nodes."""
        for item in list(self.cluster.objects.values()):
            if ref_of(item).group_kind == "Job.batch.volcano.sh" and "status" not in item:
                item["status"] = {"state": {"phase": "Pending"}}
                self._make_pods(item)
        for path, item in list(self.cluster.objects.items()):
            hostname = (item.get("spec") or {}).get("nodeSelector", {}).get(HOSTNAME_LABEL)
            if path.startswith(PODS) and hostname and not is_gated(item) and "nodeName" not in item["spec"]:
                self.cluster.version += 1
                metadata = {**item["metadata"], "resourceVersion": str(self.cluster.version)}
                spec, status = {**item["spec"], "nodeName": hostname}, {"phase": "Running", "conditions": []}
                self.cluster.objects[path] = {**item, "metadata": metadata, "spec": spec, "status": status}

    def _make_pods(self, job: Object) -> None:
        ref = ref_of(job)
        owner = {"apiVersion": ref.api_version, "kind": "Job", "name": ref.name, "uid": uid_of(job), "controller": True}
        for task in job["spec"]["tasks"]:
            for at in range(task["replicas"]):
                labels = {"volcano.sh/task-spec": task["name"], "volcano.sh/task-index": str(at)}
                name = f"{ref.name}-{task['name']}-{at}"
                metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]}
                pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": "Pending"}}
                self.cluster.put(f"{PODS}{name}", {**pod, "spec": json.loads(json.dumps(task["template"]["spec"]))})
