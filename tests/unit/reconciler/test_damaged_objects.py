"""One damaged object holds up only itself: whatever is wrong with a live object, passes and compiles go on, nothing is
deleted or evicted for it, and it is named."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler.kubernetes import name_of
from reconciler.cluster.lease import Lease
from reconciler.cluster.objects import Object, name_of_key, ref_of
from reconciler.cluster.watch import Informer
from reconciler.observation.observe import Restrictions
from reconciler.report.status import Report
from reconciler.run import hold_out_culprit
from tests.builders.whole_passes import PODS, Passes, shown_at_once

VALUES = [None, 5, -1, True, "", "x", "²", "9" * 5000, [], [None], ["x"], {}, {"a": None}]
IDENTITY = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
ANNOTATIONS = ("volcano.sh/task-index", "volcano.sh/task-spec", "volcano.sh/node-vgpu-register", "gangplan.dev/digest")
ADDED = [
    *(("metadata", "annotations", name) for name in ANNOTATIONS),
    ("metadata", "labels"),
    ("metadata", "ownerReferences"),
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
    ("spec", "overhead"),
    ("status", "containerStatuses"),
]
GATES = ("spec", "schedulingGates")
"""Where a pod shows none there, or others, somebody removed its gate: for that it is evicted."""
MEMBER = {"type": "Node", "selector": {"exactMatch": {"name": "gpu-0"}}}
OF_VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
OTHERS: dict[str, Object] = {
    f"{OF_VOLCANO}/queues/default": {"spec": {"weight": 1}, "status": {"state": "Open"}},
    f"{OF_VOLCANO}/namespaces/default/podgroups/g": {"spec": {"queue": "team"}, "status": {"phase": "Inqueue"}},
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b": {"spec": {"selector": {"matchLabels": {"a": "b"}}}},
    "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/gpu-0": {"spec": {"cpuDetail": {"0": {"numa": 0}}}},
    "/apis/topology.volcano.sh/v1alpha1/hypernodes/h": {"spec": {"tier": 1, "members": [MEMBER]}},
}
_NOTHING = Restrictions()
KINDS = {
    "queues": "Queue",
    "podgroups": "PodGroup",
    "poddisruptionbudgets": "PodDisruptionBudget",
    "numatopologies": "Numatopology",
    "hypernodes": "HyperNode",
}


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Passes:
    monkeypatch.setattr(Informer, "start", shown_at_once)
    monkeypatch.setattr(Lease, "is_held", lambda _: True)
    made = Passes(tmp_path)
    for path, item in OTHERS.items():
        *_, plural, name = path.split("/")
        api, metadata = "/".join(path.split("/")[2:4]), {"name": name}
        scoped = {**metadata, "namespace": "default"} if "/namespaces/" in path else metadata
        made.cluster.put(path, {"apiVersion": api, "kind": KINDS[plural], "metadata": scoped, **item})
    return made


def paths_of(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything below."""
    if at and at not in IDENTITY:
        yield at
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in rows:
        yield from paths_of(below, (*at, key))


def damaged(dice: random.Random, item: Object) -> Object:
    """The object with one field that is something else."""
    made: Object = json.loads(json.dumps({**item, "metadata": {**item["metadata"], "managedFields": []}}))
    path = dice.choice([*(path for path in paths_of(made) if path[:-1][:2] != GATES), *ADDED])
    at: Any = made
    for step in path[:-1]:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[path[-1]] = dice.choice([value for value in VALUES if value] if path == GATES else VALUES)
    return made


def observed_message(report: Report) -> str:
    return next(each.message for each in report.conditions if each.type == "Observed")


@pytest.mark.parametrize("seed", range(6))
def test_whatever_one_object_says_passes_go_on_and_nothing_goes(passes: Passes, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  - not a secret
    passes.run(6)
    objects = [item for path, item in passes.cluster.objects.items() if "configmaps" not in path]
    before = {path for path in passes.cluster.objects if "configmaps" not in path}
    assert sum(bool(item["spec"].get("nodeName")) for item in objects if item["kind"] == "Pod") == 2
    for _ in range(8):
        victim = dice.choice(objects)
        passes.shown = {ref_of(victim).key: damaged(dice, victim)}
        passes.run(2)
    assert before <= passes.cluster.objects.keys()
    assert [path for _, path in passes.cluster.writes if path.endswith("/eviction")] == []
    passes.shown = {}
    assert observed_message(passes.run(2)) == ""


@pytest.mark.parametrize("is_bound", [False, True], ids=["gated", "bound"])
def test_a_pod_that_cannot_be_read_closes_its_node_or_holds_its_own_job(passes: Passes, is_bound: bool) -> None:
    passes.run(3 if is_bound else 2)
    spec = {"nodeName": "gpu-1"} if is_bound else {"schedulingGates": [{"name": "gangplan.dev/placement"}]}
    name = "odd" if is_bound else "train-worker-0"
    found = passes.cluster.objects.get(f"{PODS}{name}", {"metadata": {"name": name, "namespace": "default"}})
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "many"}}}
    odd = {"apiVersion": "v1", "kind": "Pod", **found, "spec": {**spec, "containers": [container]}}
    odd = passes.cluster.put(f"{PODS}{name}", odd)
    passes.shown = {ref_of(odd).key: odd}
    report = passes.run(2)
    assert f"Pod default/{name} cannot be read as a whole: " in observed_message(report)
    restrictions = passes.parts.pods.restrictions(passes.parts.hands.watches.observe(_NOTHING), None, {}, 0.0)
    assert restrictions.quarantined_nodes == (frozenset({"gpu-1"}) if is_bound else frozenset())
    held = {"Job.batch.volcano.sh/default/train": f"what its pod {name} asks for cannot be read"}
    assert restrictions.held_jobs == ({} if is_bound else held)


def raises_on(function: Callable[..., Any], at: int, holder: str) -> Callable[..., Any]:
    """The function, which fails on an object that has `odd` there."""

    def failing(*args: Any) -> Any:
        odd_item = args[at]
        if "odd" in ((odd_item.get("metadata") or {}).get(holder) or odd_item.get(holder) or ()):
            raise KeyError("odd")
        return function(*args)

    return failing


@pytest.mark.parametrize("holder", ["spec", "annotations"])
@pytest.mark.parametrize(
    ("function", "at", "victim"),
    [
        ("reconciler.observation.memory.has_ended", 0, "Pod/default/train-worker-0"),
        ("reconciler.observation.memory._node_digest", 0, "Node//gpu-0"),
        ("reconciler.runs.part.end_of_run", 0, "Job.batch.volcano.sh/default/train"),
        ("reconciler.changes.diff.field_differences", 1, "Job.batch.volcano.sh/default/train"),
        ("reconciler.planning.fingerprint._numa_layout", 0, "Numatopology.nodeinfo.volcano.sh//gpu-0"),
    ],
)
def test_an_object_on_which_a_pass_fails_is_held_out_and_the_rest_goes_on(
    passes: Passes, monkeypatch: pytest.MonkeyPatch, function: str, at: int, victim: str, holder: str
) -> None:
    module, _, name = function.rpartition(".")
    passes.run(6)
    found = next(item for item in passes.cluster.objects.values() if ref_of(item).key == victim)
    before = {path for path in passes.cluster.objects if "configmaps" not in path}
    odd: Object = json.loads(json.dumps(found))
    (odd if holder == "spec" else odd["metadata"]).setdefault(holder, {})["odd"] = "x"
    odd["metadata"]["resourceVersion"] = "9999"
    monkeypatch.setattr(sys.modules[module], name, raises_on(getattr(sys.modules[module], name), at, holder))
    passes.shown = {victim: odd}
    written = len(passes.cluster.writes)
    with pytest.raises(KeyError) as raised:
        passes.run()
    assert hold_out_culprit(passes.parts.hands, raised.value)
    try:
        passes.run()
    except KeyError as error:
        hold_out_culprit(passes.parts.hands, error)
    report = passes.run(3)
    assert f"{name_of_key(victim)} cannot be read as a whole: a pass failed on it (KeyE" in observed_message(report)
    assert before <= passes.cluster.objects.keys()
    assert [path for _, path in passes.cluster.writes[written:] if path.endswith((name_of(found), "/eviction"))] == []
    passes.shown = {}
    passes.parts.hands.watches.informers[victim.split("/")[0]].hold_out_nothing()
    assert observed_message(passes.run(2)) == ""
