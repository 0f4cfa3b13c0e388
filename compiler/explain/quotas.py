"""ResourceQuotas of the cluster and the repository without room for the pods that jobs of the plan have yet to get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from compiler.cluster_state.cluster_state import ClusterState
from compiler.cluster_state.pod_records import gang_identity, pods_of_roles, read_succeeded_pods
from compiler.diagnostics.diagnostic import Diagnostic, Severity, declare_rule
from compiler.fields.quantity import exact_amount
from compiler.fields.texts import short_list
from compiler.kubernetes import name_of, namespace_of, status_of
from compiler.lower.origins import Origins
from compiler.specs.cluster_spec import Specs
from compiler.specs.quotas import counts_pods, limited_amounts
from solver.plan import Decision, Plan
from solver.problem import Problem

FULL_QUOTA = declare_rule("GP527", "warning")
_RANKS = {"keep": 0, "start": 1, "wait": 2}


@dataclass(frozen=True, slots=True)
class _Limit:
    """A quota's limit on one resource."""

    quota: str
    spec: Mapping[str, Any]
    resource: str
    hard: int
    used: int


def quota_diagnostics(
    specs: Specs, origins: Origins, problem: Problem, plan: Plan, state: ClusterState | None
) -> Iterator[Diagnostic]:
    """One for each resource of a quota that has no room for all pods to come, at the first job that exceeds it."""
    state = state or ClusterState()
    live = {(namespace_of(quota), name_of(quota)): quota for quota in state.resource_quotas}
    declared = (found.data for found in specs.documents if found.kind == "ResourceQuota")
    pods = _PodsToCome(specs, origins, problem, plan, state)
    for key, quota in {**live, **{(namespace_of(each), name_of(each)): each for each in declared}}.items():
        jobs = pods.jobs_by_namespace.get(key[0], ())
        for limit in _limits(quota, status_of(live.get(key, {}))) if jobs else ():
            yield from _limit_diagnostics(limit, jobs, pods)


def _limits(quota: Any, status: Mapping[str, Any]) -> Iterator[_Limit]:
    """Yield the limits of a quota. status: of the live one."""
    spec = quota.get("spec") or {}
    used = {name: amount for name, _, amount in limited_amounts(status.get("used"))}
    for name, resource, amount in limited_amounts(spec.get("hard")):
        yield _Limit(name_of(quota), spec, resource, amount, used.get(name, 0))


def _limit_diagnostics(limit: _Limit, jobs: Sequence[int], pods: _PodsToCome) -> Iterator[Diagnostic]:
    """Jobs that fit take their part, in the order in which they are given."""
    total, over = limit.used, []
    for j in jobs:
        asked = pods.amount(j, limit)
        if total + asked > limit.hard and asked:
            over.append((j, asked, total - limit.used))
        else:
            total += asked
    if not over:
        return
    first, asked, taken = over[0]
    waits = pods.waits(first)
    document, resource = pods.origins.gangs[first].document, limit.resource
    used, hard = (exact_amount(resource, amount) for amount in (limit.used, limit.hard))
    before = f" and {exact_amount(resource, taken)} go to other jobs" if taken else ""
    message = (
        f"ResourceQuota {limit.quota} allows {hard} {resource} in namespace {document.namespace or 'default'}, of "
        f"which {used} are used{before}; the pods that {document.display_name} has yet to get ask for "
        f"{exact_amount(resource, asked)}"
    )
    if others := [pods.origins.gangs[j].document.name for j, *_ in over[1:] if pods.waits(j) == waits]:
        message += f"; no room either for {short_list(others)}"
    at = document.position("metadata", "name")
    help = "raise the quota, or wait until other pods of the namespace end"
    severity: Severity | None = "info" if waits else None
    yield FULL_QUOTA.diagnostic(at, message, help, object=document.display_name, severity=severity)


class _PodsToCome:
    """Pods that controllers have yet to make: all of a job that the plan starts or keeps, and of one that waits behind
    gates."""

    def __init__(self, specs: Specs, origins: Origins, problem: Problem, plan: Plan, state: ClusterState) -> None:
        self.specs, self.origins, self.problem, self.plan, self.state = specs, origins, problem, plan, state
        defaults = [found.name for found in specs.priority_classes if found.global_default]
        self.default_class = defaults[0] if defaults else None

    def waits(self, j: int) -> bool:
        return self.plan.decisions[j].action == "wait"

    @cached_property
    def jobs_by_namespace(self) -> Mapping[str, Sequence[int]]:
        """Return running, starting and waiting jobs, in this order; in each the highest priority first, then the
        oldest."""
        gangs, found = self.problem.gangs, dict[str, list[int]]()
        made = [decision for decision in self.plan.decisions if self._is_made(decision)]
        for d in sorted(made, key=lambda d: (_RANKS[d.action], -gangs[d.gang].priority, gangs[d.gang].age, d.gang)):
            found.setdefault(self.origins.gangs[d.gang].namespace, []).append(d.gang)
        return found

    def _is_made(self, decision: Decision) -> bool:
        """Return whether the job is in the cluster once the plan is carried out, and its pods with it; an evicted one
        gets its pods again."""
        is_kept_out = self.specs.cluster.binding == "static" or decision.held
        return decision.action in _RANKS and not (decision.action == "wait" and is_kept_out)

    def amount(self, j: int, limit: _Limit) -> int:
        """Return the requests of the job's future pods for the quota's limited resource."""
        gang, total = self.origins.gangs[j], 0
        for t, role in enumerate(gang.roles):
            missing, each = role.replicas - self._present[j, t], role.pod.requests.get(limit.resource, 0)
            if missing > 0 and each and counts_pods(limit.spec, gang, role, self.default_class):
                total += missing * each
        return total

    @cached_property
    def _present(self) -> Counter[tuple[int, int]]:
        """(gang, role) -> pods that are there, gated ones included, or that have ended well and are still counted: of a
        job with subgroups, which keep their size."""
        gangs = self.origins.gangs
        index = {gang_identity(gang): j for j, gang in enumerate(gangs)}
        present = Counter((j, t) for _, j, t in pods_of_roles(self.state.pod_records, gangs, index))
        ended = pods_of_roles(read_succeeded_pods(self.state.pods, self.state.pod_groups), gangs, index)
        present.update((j, t) for _, j, t in ended if gangs[j].subgroups)
        return present
