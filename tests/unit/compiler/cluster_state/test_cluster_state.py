"""State files that no cluster wrote: one sentence each, never a traceback."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.cluster_state.cluster_state import StateError, load_state
from compiler.cluster_state.observed import observe_state
from compiler.kubernetes import SNAPSHOT_TIME_ANNOTATION
from compiler.pipeline import compile_repository
from compiler.reading import read_specs
from compiler.repository.tree import Repository
from tests.builders.beside import beside
from tests.builders.repositories import FILES

CASES = beside(__file__)


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **more}


def pod(**spec: Any) -> dict[str, Any]:
    return item("Pod", spec={"nodeName": "n-0", "containers": [{"name": "c", "image": "a"}], **spec})


@pytest.mark.parametrize(("items", "message"), CASES["an object of another shape is named"])
def test_an_object_of_another_shape_is_named(items: list[Any], message: str) -> None:
    with pytest.raises(StateError) as refused:
        load_state(json.dumps({"items": items}))
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("owner", "reason", "clock", "occupied"),
    [
        ("a", "EvictionByEvictionAPI", "2026-01-01T00:00:50Z", False),
        ("a", "EvictionByEvictionAPI", "2026-01-01T00:01:30Z", False),
        ("a", "EvictionByEvictionAPI", "2026-01-01T00:01:31Z", True),
        ("a", "DeletionByTaintManager", "2026-01-01T00:00:50Z", True),
        ("web", "EvictionByEvictionAPI", "2026-01-01T00:00:50Z", True),
    ],
)
def test_an_evicted_pod_of_a_gang_holds_no_room_until_it_has_outlived_its_grace(
    owner: str, reason: str, clock: str, occupied: bool
) -> None:
    """Or else a plan would take another victim while the first one ends. One that is no gang's was evicted for nobody:
    who was given its room would wait for it next to nodes that are free."""
    ending = pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    ending["metadata"]["ownerReferences"] = [{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": owner}]
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    ending["status"] = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}
    state = load_state(json.dumps({"items": [ending], "metadata": {"annotations": {SNAPSHOT_TIME_ANNOTATION: clock}}}))
    assert bool(observe_state(read_specs(Repository(FILES)), state).foreign.amounts) == occupied


@pytest.mark.parametrize("head", ['{"items":', "items:\n- {a: "], ids=["JSON", "YAML"])
def test_a_state_that_nests_without_end_is_refused(head: str) -> None:
    with pytest.raises(StateError, match="nests too deeply"):
        load_state(head + "[" * 200_000 + "]" * 200_000 + "}")


def test_fields_that_are_empty_or_that_nothing_reads_pass() -> None:
    odd = item("Workflow", spec={"containers": "many"}, status={"conditions": None})
    node = item("Node", metadata={"name": "n-0"}, spec={"taints": [{"key": "half"}]}, status=None)
    state = load_state(json.dumps({"items": [odd, node, item("Pod", spec=None, status=None)]}))
    assert [decided.action for decided in compile_repository(Repository(FILES), state=state).decisions] == ["start"]
