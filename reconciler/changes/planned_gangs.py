"""What the plan says of one gang: a value that the parts share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reconciler.cluster.objects import Ref


@dataclass(frozen=True, slots=True)
class PlannedGang:
    """A job as planned.

    pods: role -> node name -> pods, roles in the job's order. dependent_roles: whose pods appear only after other roles
    run. evicted_for: the jobs ("namespace/name") for which pods beyond `pods` have to go. device_numbers: role -> node
    -> the cards on which its new pods fit, the highest first. starts_at: of a waiting job that room is reserved for.
    has_helpers: its controller may run pods that say no role. held: it waits, and is not created. written_pods: role ->
    pods, of a service that may have more. bound: whether the plan binds its pods. succeeded_pods: role -> pods that
    ended well, not among `pods`.
    """

    job: Ref
    decision: str
    pods: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    queue: str = ""
    domains: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    dependent_roles: frozenset[str] = frozenset()
    evicted_for: tuple[str, ...] = ()
    device_numbers: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    starts_at: str | None = None
    has_helpers: bool = False
    held: bool = False
    written_pods: Mapping[str, int] = field(default_factory=dict)
    bound: bool = True
    succeeded_pods: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.job.namespace}/{self.job.name}"

    @property
    def may_run_pods(self) -> bool:
        """Whether it is not to wait, or is a service that may have more pods than are written."""
        return self.decision != "wait" or bool(self.written_pods)

    def pods_by_place(self) -> dict[tuple[str, str], int]:
        """(Role, node name) -> pods."""
        return {(role, node): pods for role, by_node in self.pods.items() for node, pods in by_node.items()}
