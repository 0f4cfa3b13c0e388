"""Services and lone pods: which of them are bound to the plan's nodes, by the Cluster; and which pods without a
scheduler binding gives to Volcano."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from compiler.fields.quantity import is_device
from compiler.kubernetes import HAMI_RESOURCES, VOLCANO_SCHEDULER
from compiler.specs.cluster_spec import ServiceBinding
from compiler.specs.gang_spec import GangSpec, RoleSpec, UnplannedPods

DEFAULT_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ServiceDraft:
    """A service before it is known whether it is bound. is_asked_for: it names Volcano, a queue or a gang."""

    gang: GangSpec
    is_asked_for: bool


def service_gang(draft: ServiceDraft, services: ServiceBinding) -> GangSpec | None:
    """Return the gang of a service, bound or not; None for one that is not planned."""
    gang = draft.gang
    is_foreign = any(map(_is_foreign, gang.roles))
    is_asked_for = draft.is_asked_for and not is_foreign
    if services == "on-request" and not is_asked_for:
        return None
    is_pinned = any(role.pod.node_name for role in gang.roles)
    takes_devices = services == "all" or (services == "devices" and asks_for_devices(gang))
    is_bound = is_asked_for or (takes_devices and not is_foreign and not is_pinned)
    return _bound(gang) if is_bound else unbound(gang)


def _is_foreign(role: RoleSpec) -> bool:
    """Return whether another scheduler than Kubernetes' own or Volcano has the pods: HAMi's webhook takes pods that
    request its resources and name none."""
    asks_hami = not role.pod.requests.keys().isdisjoint(HAMI_RESOURCES)
    others = (VOLCANO_SCHEDULER,) if asks_hami else ("", DEFAULT_SCHEDULER, VOLCANO_SCHEDULER)
    return role.pod.scheduler_name not in others


def asks_for_devices(gang: GangSpec) -> bool:
    return any(is_device(name) for role in gang.roles for name in role.pod.requests)


def unbound(gang: GangSpec) -> GangSpec:
    """Return the gang whose pods go where their scheduler puts them: nothing is written into it. Only Volcano counts
    pods in queues."""
    names = (gang.scheduling.scheduler_name, *(role.pod.scheduler_name for role in gang.roles))
    is_volcanos = VOLCANO_SCHEDULER in names
    return replace(
        gang.with_controller(marks_pods=False, pod_owners=(), written_pods={}).with_scheduling(
            is_bound=False, schedulable=False
        ),
        queue=gang.queue if is_volcanos else "",
        roles=gang.roles if is_volcanos else tuple(map(_without_hami, gang.roles)),
    )


def _without_hami(role: RoleSpec) -> RoleSpec:
    """Return the role with what its pods ask of nodes, which HAMi's resources are not."""
    requests = {name: amount for name, amount in role.pod.requests.items() if name not in HAMI_RESOURCES}
    return replace(role, pod=replace(role.pod, requests=requests))


def _bound(gang: GangSpec) -> GangSpec:
    return _for_volcano(gang).with_scheduling(schedulable=True, scheduler_name=VOLCANO_SCHEDULER)


def _for_volcano(gang: GangSpec) -> GangSpec:
    roles = tuple(replace(role, pod=replace(role.pod, scheduler_name=VOLCANO_SCHEDULER)) for role in gang.roles)
    return replace(gang.with_controller(writes_scheduler=True), roles=roles)


def with_scheduler(gang: GangSpec) -> GangSpec:
    """Return the job whose pods binding gives to Volcano where neither they nor the job name a scheduler. As it is
    where a role is another scheduler's, or where its pod template is not the job's own (of a TrainJob it is the
    runtime's)."""
    names = {role.pod.scheduler_name for role in gang.roles}
    is_own = all(role.new_template is None and not role.pod_documents for role in gang.roles)
    is_open = not gang.scheduling.scheduler_name and "" in names and names <= {"", VOLCANO_SCHEDULER}
    return _for_volcano(gang) if is_open and is_own else gang


def bound_and_unbound(gangs: Iterable[GangSpec]) -> tuple[tuple[GangSpec, ...], tuple[GangSpec, ...]]:
    found = tuple(gangs)
    bound, unbound = ([gang for gang in found if gang.scheduling.is_bound is wanted] for wanted in (True, False))
    return tuple(bound), tuple(unbound)


def unbound_pods(gang: GangSpec) -> Iterator[UnplannedPods]:
    """Yield the pods of a gang that is not bound, role by role."""
    document = gang.document
    for role in gang.roles:
        yield UnplannedPods(
            document,
            (*role.template_path, "spec") if role.template_path else role.path,
            role.replicas,
            role.pod,
            role.labels,
            gang.queue,
            on_each_node=(document.kind, document.group) == ("DaemonSet", "apps"),
            is_recurring=gang.scheduling.is_recurring,
            role=role.name,
        )
