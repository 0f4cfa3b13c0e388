"""What one pass has seen: one observation of the cluster, and the inventory brought up to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from reconciler.cluster.objects import Object
from reconciler.inventory.store import Inventory
from reconciler.observation.observe import Observation


@dataclass(frozen=True, slots=True)
class Seen:
    """now: on the clock. wall_now: seconds since the epoch. is_leading: whether this replica held the lease when the
    pass began. leads_since: when it last began to lead, on the
    clock. doubts: Ref.key of a job -> why it is not known whether it is gone."""

    now: float
    wall_now: float
    is_leading: bool
    observation: Observation
    inventory: Inventory
    leads_since: float = 0.0
    doubts: Mapping[str, str] = field(default_factory=dict)

    @property
    def pods(self) -> Mapping[str, list[Object]]:
        """Ref.key of a live job -> its pods."""
        return self.observation.pods_by_job[0]

    @property
    def former_job_keys(self) -> set[str]:
        """Of jobs that are gone or were replaced, and still have pods."""
        return self.observation.pods_by_job[1]
