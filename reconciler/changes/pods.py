"""Gate lifts and evictions, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.kubernetes import HOSTNAME_LABEL, SCHEDULING_GATE, TASK_PRIORITY_ANNOTATION, annotations_of, uid_of
from reconciler.cluster.objects import Object


@dataclass(frozen=True, slots=True)
class GateLift:
    """Give `pod` the node and take the gate away. task_priority: Volcano is to place the pods of the gang with a higher
    one before it (`_with_task_priorities`)."""

    pod: Object
    node: str
    hostname: str
    task_priority: int | None = None

    def json_patch(self) -> list[dict[str, Any]]:
        """Return one JSON patch, refused by the server unless it is still this pod with exactly these gates and
        selectors."""
        gates = self.pod["spec"]["schedulingGates"]
        others = [gate for gate in gates if gate.get("name") != SCHEDULING_GATE]
        return [
            {"op": "test", "path": "/metadata/uid", "value": uid_of(self.pod)},
            {"op": "test", "path": "/spec/schedulingGates", "value": gates},
            *self._selector_patch(),
            *self._task_priority_patch(),
            {"op": "replace", "path": "/spec/schedulingGates", "value": others}
            if others
            else {"op": "remove", "path": "/spec/schedulingGates"},
        ]

    def may_hold_for(self, pod: Object) -> bool:
        """Return whether the tests of the patch hold for what the pod is now; else it is never made."""
        now, then = pod["spec"], self.pod["spec"]
        is_selected = not then.get("nodeSelector") or now.get("nodeSelector") == then["nodeSelector"]
        return bool(now.get("schedulingGates") == then["schedulingGates"] and is_selected)

    def lifted(self, pod: Object) -> Object:
        spec = pod["spec"]
        selector = {**(spec.get("nodeSelector") or {}), HOSTNAME_LABEL: self.hostname}
        gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != SCHEDULING_GATE]
        return {**pod, "spec": {**spec, "nodeSelector": selector, "schedulingGates": gates}}

    def _selector_patch(self) -> list[dict[str, Any]]:
        selector = self.pod["spec"].get("nodeSelector")
        if not selector:
            return [{"op": "add", "path": "/spec/nodeSelector", "value": {HOSTNAME_LABEL: self.hostname}}]
        path = f"/spec/nodeSelector/{escape_json_pointer(HOSTNAME_LABEL)}"
        return [
            {"op": "test", "path": "/spec/nodeSelector", "value": selector},
            {"op": "add", "path": path, "value": self.hostname},
        ]

    def _task_priority_patch(self) -> list[dict[str, Any]]:
        if self.task_priority is None:
            return []
        value = str(self.task_priority)
        if not annotations_of(self.pod):
            return [{"op": "add", "path": "/metadata/annotations", "value": {TASK_PRIORITY_ANNOTATION: value}}]
        path = f"/metadata/annotations/{escape_json_pointer(TASK_PRIORITY_ANNOTATION)}"
        return [{"op": "add", "path": path, "value": value}]


def escape_json_pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that is to go, and its Event. breaks: uid of the job whose gang it breaks, if the plan did not mean it.
    is_at_version: not if the pod has changed since, as when it was bound."""

    pod: Object
    reason: str
    message: str
    breaks: str = ""
    is_at_version: bool = False

    @property
    def preconditions(self) -> dict[str, str]:
        """Return what must hold of the pod for the server to evict it."""
        version = {"resourceVersion": str(self.pod["metadata"]["resourceVersion"])} if self.is_at_version else {}
        return {"uid": uid_of(self.pod), **version}
