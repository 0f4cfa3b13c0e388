"""Checks of jobs' requests to nodes: resources, labels, tolerations, and room for a whole gang.

They use the nodes that the repository declares, each node empty, so that findings hold whatever runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from operator import floordiv

from compiler.checks.check import CheckInput, Finding, check
from compiler.checks.resource_names import misspelt_in_pools, near_resource
from compiler.diagnostics.diagnostic import Severity, did_you_mean, meant, suggestion
from compiler.fields.quantity import exact_amount
from compiler.kinds.common.limit_ranges import LimitRange, admitted_containers, limit_ranges
from compiler.kubernetes import API_GROUP, DEFAULT_PODS_PER_NODE, HAMI_RESOURCES
from compiler.specs.cluster_spec import Specs
from compiler.specs.eligibility import NodeMasks, NodeRequirement, node_requirement, returned_node, untolerated_taints
from compiler.specs.exclusive_topology import ExclusiveDomains, fits_no_domain, is_planned
from compiler.specs.gang_spec import GangSpec, RoleSpec
from compiler.specs.hypernode_tree import nodes_by_hypernode, tier_of
from compiler.specs.node_spec import NodeSpec
from compiler.specs.pod_spec import TOLERATE_ALL, PodSpec
from compiler.specs.quotas import has_scopes, limited_amounts
from compiler.syntax.documents import Document, FieldPath
from compiler.validation.judge import mapping
from compiler.volcano.shared_devices import CARD_ANNOTATIONS, without_ascend_memory


@dataclass(frozen=True)
class _NodeFacts:
    """Facts about nodes alone."""

    nodes: Sequence[NodeSpec]

    @cached_property
    def masks(self) -> NodeMasks:
        return NodeMasks(self.nodes)

    @cached_property
    def resources(self) -> frozenset[str]:
        """Return the resources of all nodes."""
        return frozenset(name for node in self.nodes for name in node.allocatable)

    @cached_property
    def shared_resources(self) -> frozenset[str]:
        """Return the resources of devices that pods share, whose room is not counted here."""
        devices = [device for node in self.nodes for device in node.shared_devices]
        amounts = [offered for device in devices for _, offered in device.devices]
        return frozenset[str]().union(*amounts, *((device.resource, device.whole_resource) for device in devices))

    @cached_property
    def _known_amounts(self) -> dict[str, tuple[list[int], bool]]:
        return {}

    def amounts(self, resource: str) -> tuple[list[int], bool]:
        """Return each node's amount of the resource, and whether all have the same."""
        if resource not in self._known_amounts:
            default = DEFAULT_PODS_PER_NODE if resource == "pods" else 0
            found = [node.allocatable.get(resource, default) for node in self.nodes]
            self._known_amounts[resource] = found, len(set(found)) == 1
        return self._known_amounts[resource]

    @cached_property
    def all_nodes(self) -> int:
        """The mask of all nodes."""
        return (1 << len(self.nodes)) - 1


@dataclass(frozen=True)
class _Nodes:
    """The declared nodes without temporary closings, and facts about them and the pods of one repository. domains:
    (tier, indices of the nodes in it at any depth) of each hypernode."""

    facts: _NodeFacts
    domains: Sequence[tuple[int, Sequence[int]]]

    def requests(self, pod: PodSpec) -> dict[str, int]:
        """The requests that can be counted against nodes."""
        requested = {name: amount for name, amount in pod.requests.items() if amount}
        counted = self.facts.resources - self.facts.shared_resources
        return {name: amount for name, amount in requested.items() if name in counted}

    @cached_property
    def _known_masks(self) -> dict[NodeRequirement, int]:
        return {}

    def matching(self, requirement: NodeRequirement) -> int:
        """Return the mask of the nodes that meet the requirement, whatever their NUMA."""
        if requirement not in self._known_masks:
            self._known_masks[requirement] = self.facts.masks.nodes_matching(requirement)
        return self._known_masks[requirement]

    @cached_property
    def _known_bests(self) -> dict[tuple[object, ...], dict[int | None, int]]:
        return {}

    def pods_by_node(self, pod: PodSpec, mask: int) -> list[int]:
        """How many pods of this kind each node holds at most; 0 for nodes outside of the mask. It is long and not
        kept: jobs may have as many shapes as there are nodes."""
        size, limits, columns = len(self.facts.nodes), list[int](), list[Iterator[int]]()
        for name, amount in {**self.requests(pod), "pods": 1}.items():
            amounts, is_same = self.facts.amounts(name)
            if is_same:
                limits.append(amounts[0] // amount)
            else:
                columns.append(map(floordiv, amounts, repeat(amount)))
        limits += [1] if pod.host_ports else []
        columns += [repeat(min(limits), size)] if limits else []
        counts = list(map(min, *columns)) if len(columns) > 1 else list(columns[0])
        if mask == self.facts.all_nodes:
            return counts
        usable = map(int, f"{mask:0{size}b}"[::-1])
        return [count * use for count, use in zip(counts, usable, strict=True)]

    def most_pods(self, pod: PodSpec, mask: int, tier: int | None = None) -> int:
        """How many pods of this kind these nodes hold at most; with a tier those in one hypernode up to it, of all such
        hypernodes the best."""
        key = (tuple(sorted(pod.requests.items())), mask, bool(pod.host_ports))
        if key not in self._known_bests:
            self._known_bests[key] = self._bests(self.pods_by_node(pod, mask))
        bests = self._known_bests[key]
        if tier is None:
            return bests[None]
        tiers = {at for at, _ in self.domains}
        return max((bests[at] for at in tiers if at <= tier), default=0)

    def _bests(self, counts: list[int]) -> dict[int | None, int]:
        """Tier -> the most in one hypernode of it; None -> in all nodes."""
        found: dict[int | None, int] = {None: sum(counts)}
        for tier, members in self.domains:
            found[tier] = max(found.get(tier, 0), sum(map(counts.__getitem__, members)))
        return found


def _declared_nodes(check_input: CheckInput) -> _Nodes | None:
    """Return None where there are none, or others that have an error: those may be what a job asks for."""

    def nodes_of(specs: Specs) -> _Nodes:
        return _Nodes(_NodeFacts([returned_node(node) for node in specs.nodes]), _domain_members(specs))

    specs = check_input.specs
    if not specs.nodes or any(kind in _KINDS_OF_NODES for kind, _, _ in check_input.failed_objects):
        return None
    return check_input.session.each("declared nodes", [(specs,)], nodes_of)[0]


_KINDS_OF_NODES = (f"NodePool.{API_GROUP}", "Node.")


def _roles(check_input: CheckInput) -> Iterator[tuple[GangSpec, RoleSpec]]:
    for written in check_input.jobs:
        gang = without_ascend_memory(written, check_input.specs.scheduler)
        for role in gang.roles if gang.scheduling.schedulable else ():
            if role.replicas:
                yield gang, role


def _unbound_roles(check_input: CheckInput) -> Iterator[tuple[GangSpec, RoleSpec]]:
    """Yield roles with unbound pods, except services, which may run on undeclared nodes."""
    for gang in check_input.other_gangs:
        if gang.document.group != "apps":
            yield from ((gang, role) for role in gang.roles if role.replicas)


def _request_path(document: Document, path: FieldPath, resource: str) -> FieldPath:
    """The path of the first request, or limit, of the resource below a pod spec."""
    inside = (at for at in document.positions if at[: len(path)] == path)
    found = [at for at in inside if at[-2:] in (("requests", resource), ("limits", resource))]
    return min(found, key=lambda at: document.positions[at], default=path)


_ALWAYS_THERE = ("cpu", "memory", "pods")


@check("GP392", "resource that no node has", "warning", folds=True, on_partial=True)
def unknown_resources(check_input: CheckInput) -> Iterator[Finding]:
    """A pod that requests what no node offers never starts. It is an error where the name nearly is that of a device of
    the nodes. ephemeral-storage, which every real node has, is not planned where none declares it. Fix: correct the
    name, or declare the nodes that have it."""
    if (nodes := _declared_nodes(check_input)) is None:
        return
    offered = nodes.facts.resources | nodes.facts.shared_resources
    known = sorted(name for name in offered if "/" in name)
    of_pools = misspelt_in_pools(check_input).values()  # GP391 reports these at the pool
    for gang, role in (*_roles(check_input), *_unbound_roles(check_input)):
        for name in role.pod.requests:
            if name in offered or name in of_pools or name in _ALWAYS_THERE:
                continue
            document, path = gang.pod_spec_of(role)
            near = near_resource(name, known)
            severity: Severity | None = "error" if near else "info" if name == "ephemeral-storage" else None
            help = meant(name, near) if near else f"request what nodes offer: {', '.join(known) or 'no devices'}"
            help = help if "/" in name else "declare it: capacity of a NodePool"
            if name in HAMI_RESOURCES:
                help = f"write {HAMI_RESOURCES[name]} for Volcano; HAMi's scheduler reads this one"
            at = _request_path(document, path, name)
            yield Finding(document, at, f"no node has the resource {name!r}", help, severity=severity)


@check("GP393", "pods that select no node", "warning", folds=True)
def selectors_without_nodes(check_input: CheckInput) -> Iterator[Finding]:
    """Pods do not start if no declared node satisfies their nodeSelector or required node affinity. A misspelt topology
    key, nearly a label of the nodes, has the same effect. Fix: correct the label, or label nodes."""
    if (nodes := _declared_nodes(check_input)) is None:
        return
    yield from _unknown_topology_keys(check_input, nodes)
    for gang, role in (*_roles(check_input), *_unbound_roles(check_input)):
        pod = role.pod
        if (not pod.node_selector and pod.node_affinity is None) or nodes.matching(_labels_only(pod)):
            continue
        if any(role.name in units.roles for units in gang.exclusive):
            continue  # GP308 reports it
        document, path = gang.pod_spec_of(role)
        has_template = bool(role.template_path)
        for key, value in pod.node_selector.items():
            values = {node.labels[key] for node in nodes.facts.nodes if key in node.labels}
            if value not in values:
                keys = {label for node in nodes.facts.nodes for label in node.labels}
                help = suggestion(key, keys, "label nodes")
                if values:
                    help = suggestion(value, values, f"write what nodes have: {', '.join(sorted(values)[:5])}")
                at = (*path, "nodeSelector", key) if has_template else role.path
                yield Finding(document, at, f"no node has {key}: {value}", help)
                break
        else:
            if asked := [key for key in CARD_ANNOTATIONS if key in role.annotations]:
                at = (*path[:-1], "metadata", "annotations", asked[0])
                message = f"no node has what {asked[0]}: {role.annotations[asked[0]]} asks of cards"
                yield Finding(document, at, message, "correct it, or add such nodes")
                continue
            at = (*path, "affinity", "nodeAffinity") if pod.node_affinity is not None else (*path, "nodeSelector")
            at = at if has_template else role.path
            what = "this node affinity" if pod.node_affinity is not None else "all of these labels"
            yield Finding(document, at, f"no node satisfies {what}", "correct it, or label nodes")


def _unknown_topology_keys(check_input: CheckInput, nodes: _Nodes) -> Iterator[Finding]:
    """Required rules about other pods by a label that no node has, and that is nearly one of theirs. Labels of another
    name may be on the live nodes."""
    labels = {label for node in nodes.facts.nodes for label in node.labels}
    for gang, role in _roles(check_input):
        document, path = gang.pod_spec_of(role)
        for rule in role.pod.pod_rules:
            near = did_you_mean(rule.topology_key, labels)
            if rule.topology_key not in labels and near:
                inside = (at for at in document.positions if at[: len(path)] == path)
                keys = (at for at in inside if at[-1:] == ("topologyKey",))
                places = [at for at in keys if document.value_at(*at) == rule.topology_key]
                message, help = (
                    f"no node has the label {rule.topology_key!r}",
                    suggestion(rule.topology_key, labels, ""),
                )
                yield Finding(document, min(places, default=path), message, help)


def _labels_only(pod: PodSpec) -> NodeRequirement:
    return frozenset(pod.node_selector.items()), pod.node_affinity, TOLERATE_ALL, "", "", None


@check("GP308", "exclusive topology", "warning")
def exclusive_topologies(check_input: CheckInput) -> Iterator[Finding]:
    """The annotation exclusive-topology names a label: each child Job of a JobSet, or group of a LeaderWorkerSet, gets
    one of its domains for itself. subgroup-exclusive-topology does so with each subgroup, and JobSet's node-selector
    with nodes that carry the name of the child Job. Where no domain, even empty, holds one, it never starts. Where the
    domains are not a tier of HyperNodes, the rule is planned only for jobs of one unit, or of one-pod units. Others are
    not bound. Neither are child Jobs with different nodes, nor subgroups that differ in size or lie within an exclusive
    topology of groups. Fix: allow larger domains, or declare the domains as a tier."""
    domains = ExclusiveDomains(check_input.specs.nodes, check_input.specs.hypernodes)
    for gang in (*check_input.specs.gangs, *check_input.unbound_gangs):
        for units in gang.exclusive:
            if fits_no_domain(gang, units, domains):
                roles = [role for role in gang.roles if role.name in units.roles]
                most = domains.most_pods(units.key, roles)
                largest = f"the largest holds {most}" if domains.by_value(units.key) else "no node has that label"
                pods = f"{units.size} pods" if units.size > 1 else "a pod"
                message = f"{pods} must share one domain of {units.key}, and {largest}"
                yield Finding(gang.document, units.path, message, "name a label of larger domains, or add nodes")
            elif not is_planned(gang, units, domains):
                why = units.obstacle or f"no tier has the domains of {units.key}"
                help = "leave the annotation out" if units.obstacle else "declare the domains as HyperNodes of one tier"
                message = f"{why}, so that the job is not bound: its room is kept"
                yield Finding(gang.document, units.path, message, help)


@check("GP394", "taint that the pods do not tolerate", "warning", folds=True)
def missing_tolerations(check_input: CheckInput) -> Iterator[Finding]:
    """All nodes that the pods select, and that have what they request, carry a taint that they do not tolerate. Fix:
    add the toleration, or select other nodes."""
    if (nodes := _declared_nodes(check_input)) is None:
        return
    for gang, role in _roles(check_input):
        if _is_kept_out_by_taints(nodes, role.pod):
            keys = _untolerated_keys(nodes, role.pod)
            document, path = gang.pod_spec_of(role)
            what = "a taint" if len(keys) == 1 else "taints"
            message = f"the nodes that these pods select carry {what} that they do not tolerate: {', '.join(keys)}"
            place = (*path, "tolerations") if (*path, "tolerations") in document.positions else path
            yield Finding(document, place, message, f"tolerate {' and '.join(keys)}")


def _untolerated_keys(nodes: _Nodes, pod: PodSpec) -> list[str]:
    """The keys of the taints that the pod has to tolerate: of the selected nodes with room, one with the fewest."""
    counts, found = nodes.pods_by_node(pod, nodes.matching(_labels_only(pod))), list[list[str]]()
    for node, count in zip(nodes.facts.nodes, counts, strict=True):
        if count:
            found.append(list(dict.fromkeys(taint.key for taint in untolerated_taints(node, pod))))
    return min(found, key=len)


def _is_kept_out_by_taints(nodes: _Nodes, pod: PodSpec) -> bool:
    """Whether the nodes that the pod selects have room for it, and none of them without a taint that it does not
    tolerate."""
    selected, usable = nodes.matching(_labels_only(pod)), nodes.matching(node_requirement(pod))
    return not pod.node_name and nodes.most_pods(pod, selected) > 0 and not nodes.most_pods(pod, usable)


@check("GP395", "gang that fits nowhere", "warning")
def gangs_without_room(check_input: CheckInput) -> Iterator[Finding]:
    """Even with all declared nodes empty there is no room for the least number of pods with which the gang starts: on
    the nodes that its pods may use, or, with a hard topology, inside any hypernode that it allows. That is proved by
    counting the pods that each node holds at most. Fix: lower requests or minimum, allow a higher tier, or add
    nodes."""
    if (nodes := _declared_nodes(check_input)) is None:
        return
    tiers = {tier for tier, _ in nodes.domains}
    for gang in check_input.jobs:
        if not gang.scheduling.schedulable or any(
            name not in nodes.facts.resources for role in gang.roles for name in _devices(role)
        ):
            continue
        for role in gang.roles:
            mask = nodes.matching(node_requirement(role.pod))
            least = role.minimum if len(gang.roles) > 1 else max(role.minimum, min(gang.minimum, role.replicas))
            if not mask or not role.replicas:
                continue
            document, path = gang.pod_spec_of(role)
            room = nodes.most_pods(role.pod, mask)
            if not room:
                if _is_kept_out_by_taints(nodes, role.pod):
                    continue  # GP394 reports it
                yield Finding(document, path, _too_large(nodes, role, mask), "lower the requests, or add nodes")
            elif least and room < least:
                each = ", one each for its host ports" if role.pod.host_ports else ""
                message = f"{role.name} needs {least} pods to start, and all its nodes hold {room}{each}"
                yield Finding(document, path, message, "lower the minimum or the requests, or add nodes")
            elif tiers and (tier := _highest_tier(check_input, gang)) is not None:
                if tier > max(tiers):  # Volcano's virtual root, which holds all nodes
                    continue
                best = nodes.most_pods(role.pod, mask, tier)
                if best < least:
                    message = f"{role.name} needs {least} pods to start, and the largest hypernode allowed holds {best}"
                    help = "allow a higher tier, or lower the minimum or the requests"
                    yield Finding(gang.document, gang.field_paths["topology"], message, help)


def _devices(role: RoleSpec) -> list[str]:
    return [name for name in role.pod.requests if "/" in name]


def _too_large(nodes: _Nodes, role: RoleSpec, mask: int) -> str:
    """Return which resource no node of the mask has enough of for one pod."""
    usable = [node for i, node in enumerate(nodes.facts.nodes) if mask >> i & 1]
    for name, amount in nodes.requests(role.pod).items():
        most = max(node.allocatable.get(name, DEFAULT_PODS_PER_NODE if name == "pods" else 0) for node in usable)
        if amount > most:
            asked, found = exact_amount(name, amount), exact_amount(name, most)
            return f"a pod of {role.name} requests {asked} {name}, and none of its nodes has more than {found}"
    return f"no node has all that a pod of {role.name} requests"


def _domain_members(specs: Specs) -> list[tuple[int, list[int]]]:
    """(tier, indices of the nodes in it at any depth) of each hypernode."""
    index, members = {node.name: i for i, node in enumerate(specs.nodes)}, nodes_by_hypernode(specs.hypernodes)
    return [(each.tier, [index[name] for name in members[each.name] if name in index]) for each in specs.hypernodes]


def _highest_tier(check_input: CheckInput, gang: GangSpec) -> int | None:
    """Return the highest tier of the hypernodes of which one must hold the whole gang; None without a hard topology
    that names one."""
    topology = gang.topology
    if topology is None or topology.mode != "hard":
        return None
    if topology.highest_tier_name:
        return tier_of(topology.highest_tier_name, check_input.specs.hypernodes)
    return topology.highest_tier


@check("GP397", "gang above a ResourceQuota")
def gangs_above_quota(check_input: CheckInput) -> Iterator[Finding]:
    """The API server creates no pod beyond a ResourceQuota of its namespace. A gang whose least number of pods requests
    more than `hard` never has them all. It refuses a container without an amount of cpu or memory that `hard` names.
    Quotas with scopes are not judged. Fix: raise the quota, or lower the minimum; write the amount."""
    quotas = [document for document in check_input.specs.documents if document.kind == "ResourceQuota"]
    ranges = limit_ranges(check_input.specs.documents) if quotas else {}
    for gang in check_input.specs.gangs if quotas else ():
        least: dict[str, int] = {}
        for role in gang.roles if gang.scheduling.schedulable else ():
            for name, amount in role.pod.requests.items():
                least[name] = least.get(name, 0) + amount * role.minimum
        for document in quotas:
            spec = document.data.get("spec")
            if (document.namespace or "default") != gang.namespace or not isinstance(spec, dict) or has_scopes(spec):
                continue
            yield from _unnamed_amounts(gang, document, ranges)
            for key, name, hard in limited_amounts(spec.get("hard")):
                if least.get(name, 0) > hard:
                    asked, limit = exact_amount(name, least[name]), exact_amount(name, hard)
                    message = (
                        f"the gang requests {asked} {name} to start, and ResourceQuota {document.name} allows {limit}"
                    )
                    see = (document, ("spec", "hard", key))
                    yield Finding(
                        gang.document, ("metadata", "name"), message, "raise the quota, or lower the minimum", see
                    )


def _unnamed_amounts(gang: GangSpec, quota: Document, ranges: Mapping[str, Sequence[LimitRange]]) -> Iterator[Finding]:
    """The first container of each role without an amount that the quota limits (Kubernetes,
    pkg/quota/v1/evaluator/core/pods.go). A warning: the cluster may have a LimitRange with defaults."""
    limited = [key for key in mapping(quota.data, "spec", "hard") if _NAMED_BY_ALL.fullmatch(key)]
    for role in gang.roles if limited else ():
        for container in admitted_containers(gang, role, ranges):
            limits = (container.resources and container.resources.limits) or {}
            given = {f"limits.{name}" for name in limits}
            given |= {f"{word}{name}" for name in container.effective_requests for word in ("", "requests.")}
            if lacking := [key for key in limited if key not in given]:
                document, path = gang.pod_spec_of(role)
                message = f"container {container.name} has no {lacking[0]}, which ResourceQuota {quota.name} limits: "
                message += "the API server refuses the pod"
                help = "write it, or a LimitRange with defaults"
                see = (quota, ("spec", "hard", lacking[0]))
                yield Finding(document, (*path, "containers"), message, help, see, severity="warning")
                break


_NAMED_BY_ALL = re.compile(r"((requests|limits)\.)?(cpu|memory)")
