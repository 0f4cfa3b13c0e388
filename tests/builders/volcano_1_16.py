"""A cluster of Volcano 1.16, what runs in it, and plans of it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from compiler.cluster_state.cluster_state import ClusterState
from compiler.emit.repaired_files import edited_by_repairs
from compiler.outcome import Outcome
from compiler.pipeline import compile_repository
from compiler.repository.tree import Repository
from tests.builders import declared
from tests.builders.cluster_objects import Object, pod


def cluster_1_16(pools: Mapping[str, str], plugin: str) -> str:
    """pools: name of a NodePool -> its spec, in flow style. plugin: the scheduler's last one."""
    own = "apiVersion: gangplan.dev/v1alpha1\nkind: "
    return "---\n".join(
        (
            f'{own}Cluster\nmetadata: {{name: test}}\nspec: {{volcano: "1.16"}}\n',
            *(f"{own}NodePool\nmetadata: {{name: {name}}}\nspec: {spec}\n" for name, spec in pools.items()),
            f"{own}SchedulerConfiguration\n"
            "metadata: {name: volcano-scheduler-configmap, namespace: volcano-system}\n"
            "spec:\n  actions: [enqueue, allocate]\n  tiers:\n"
            "  - plugins: [{name: priority}, {name: gang}, {name: predicates}, {name: capacity}, "
            f"{{name: {plugin}}}]\n",
        )
    )


def running_pod(name: str, node: str, gpus: int, annotations: Mapping[str, str]) -> Object:
    """A pod of no job of the repository."""
    requests = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    more: Object = {"namespace": "ml", "annotations": annotations}
    return pod(name, node, requests=requests, spec={"schedulerName": "volcano"}, **more)


def job(
    name: str, gpus: int = 2, pods: int = 1, *, queue: str = "a", minimum: int | None = None, namespace: str = "ml"
) -> str:
    """A Volcano Job; minimum: all of its pods where none is given."""
    least = pods if minimum is None else minimum
    spec = declared.pod_spec({"cpu": 1, "nvidia.com/gpu": gpus}, restartPolicy="Never")
    return json.dumps(declared.job(name, pods, spec, namespace=namespace, queue=queue, minAvailable=least))


def planned_1_16(
    *jobs: str, cluster: str, queues: str = "", state: list[Object] | None = None, error: str = ""
) -> Outcome:
    """error: the code that is reported, and no other error."""
    tree = tree_1_16(*jobs, cluster=cluster, queues=queues)
    outcome = compile_repository(tree, state=ClusterState.from_objects(state) if state else None)
    assert {each.code for each in outcome.diagnostics if each.severity == "error"} == ({error} if error else set())
    return outcome


def tree_1_16(*jobs: str, cluster: str, queues: str = "") -> Repository:
    files = {"cluster-specs/test/cluster.yaml": cluster, "cluster-specs/test/queues.yaml": queues}
    files |= {f"jobs/{number}.yaml": text for number, text in enumerate(jobs)}
    return Repository({path: text.encode() for path, text in files.items() if text})


def patched_1_16(outcome: Outcome, tree: Repository, code: str, state: list[Object] | None = None) -> Outcome:
    """What becomes of the one job of the repository with the patch of a repair."""
    (decision,) = outcome.decisions
    (files,) = (files for message, files in edited_by_repairs(outcome, decision, tree) if message.code == code)
    assert files is not None, f"{code} has no patch"
    return compile_repository(tree.with_files(files), state=ClusterState.from_objects(state) if state else None)


def actions(outcome: Outcome) -> dict[str, str]:
    return {decision.name.removeprefix("ml/"): decision.action for decision in outcome.decisions}
