"""Domains of the network, and rules between pods: where the room is in the wrong places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from compiler.explain.edits import partition_edits, written_value
from compiler.explain.provenance import Provenance, Source, cluster_objects, source_at
from compiler.explain.statements import Change, Edits, Entry, Values
from compiler.kubernetes import NODE_GROUP_LIMITS_ANNOTATION
from compiler.specs.gang_spec import ANTI_AFFINITY_PATH
from compiler.syntax.edits import FieldEdit
from compiler.volcano import metax
from solver import facts, repairs

WISH_WEIGHT = 100
"""The largest that Volcano accepts: a former requirement counts most."""


def _domain(s: Provenance, j: int, fact: facts.DomainShortage) -> Iterator[Source]:
    """Yield the sources of a domain: where it is tighter than the job's topology, of its PodGroup's anti-affinity."""
    yield from s.hypernode_source(fact.hypernode)
    gang = s.problem.gangs[j]
    if gang.topology_without_rules in (None, gang.topology):
        yield s.gang_field(j, "topology")
    else:
        yield from _terms(s, j, fact.tier)


def _terms(s: Provenance, j: int, tier: int | None = None) -> Iterator[Source]:
    """Yield the terms of the gang's PodGroup; tier: those of it alone."""
    for rho, (i, _) in s.origins.rules.terms.items():
        if i == j and tier in (None, s.problem.pod_rules[rho].tier):
            yield _term(s, rho)


def _term(s: Provenance, rho: int) -> Source:
    i, term = s.origins.rules.terms[rho]
    group = s.origins.gangs[i].pod_group
    document = s.origins.gangs[i].document if group is None else group.document
    return source_at(document, "anti-affinity", *term.path)


def _pod_rule(s: Provenance, j: int, fact: facts.PodRuleConflict) -> Iterator[Source]:
    """Yield the owners of the rule: the gang's own role, else other gangs and pods of no gang."""
    rho = fact.pod_rule
    if rho in s.origins.rules.terms:
        yield _term(s, rho)
        return
    if (quota := s.problem.pod_rules[rho].quota) is not None:
        place = ("metadata", "annotations", NODE_GROUP_LIMITS_ANNOTATION)
        yield from s.queue_field(quota.queue, "limits of node groups", *place)
        return
    if rho in s.origins.rules.subgroups:
        yield s.subgroup_source(*s.origins.rules.subgroups[rho])
        return
    owners = s.rule_owners.get(rho, ())
    for i, t in [spot for spot in owners if spot[0] == j] or owners:
        spec = s.origins.gangs[i]
        document, base = spec.pod_spec_of(spec.roles[t])
        yield source_at(document, f"rule of role {spec.roles[t].name}", *base, s.origins.rules.fields[rho])
    yield from cluster_objects("Pod", list(s.origins.rules.owner_pods[rho]), "rule")


def _pod_rule_values(s: Provenance, j: int, fact: facts.PodRuleConflict) -> Values:
    values = {"rule": s.origins.rules.texts[fact.pod_rule]}
    is_nowhere = all(domain is None for domain in s.problem.pod_rules[fact.pod_rule].domains)
    if is_nowhere and fact.pod_rule in s.rule_owners:
        values["unlabelled"] = values["rule"]
    if fact.pod_rule in s.origins.rules.subgroups:
        i, k = s.origins.rules.subgroups[fact.pod_rule]
        values["subgroup"] = s.origins.gangs[i].subgroups[k].name
    if fact.pod_rule in s.origins.rules.terms:
        i, _ = s.origins.rules.terms[fact.pod_rule]
        values["term" if i == j else "others"] = values["rule"]
        if is_nowhere:
            values["missing"] = values["rule"]
        values["group"] = s.problem.gangs[i].name
    return values


REASONS: tuple[Entry[Any], ...] = (
    Entry(
        facts.DomainShortage,
        "no domain of the allowed tier has room",
        (
            "needs {asked:pods} in one domain of tier {tier}; {hypernode} has the most room: {available:n}",
            "no domain of tier {tier} has room for {asked:pods}",
        ),
        _domain,
        never_texts=(
            "needs {asked:pods} in one domain of tier {tier}; even empty, {hypernode} holds the most: {available:n}",
            "even empty, no domain of tier {tier} holds {asked:pods}",
        ),
        remedy="Allow a higher tier, or wait for a whole domain.",
    ),
    Entry(
        facts.SubgroupShortage,
        "subgroups cannot be formed whole",
        (
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; the domains have "
            "room for {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and the domains have not "
            "enough room",
        ),
        lambda s, j, x: (s.subgroup_source(j, x.subgroup),),
        never_texts=(
            "it needs {asked:groups} of {limit:pods}, each whole inside one tier-{tier} domain; even empty, the "
            "domains hold {available:n}",
            "it needs groups of {limit:pods}, each whole inside one tier-{tier} domain, and even empty the "
            "domains do not hold enough of them",
        ),
        remedy="Make the groups smaller, or allow a higher tier.",
    ),
    Entry(
        facts.PodRuleConflict,
        "no room next to other pods, or apart from them",
        (
            "there is room for it, but not under what role {role} says of other pods: {rule}",
            "there is room for it, but not under what its pods say of other pods",
        ),
        _pod_rule,
        _pod_rule_values,
        never_texts=("even empty, the cluster has no room under what role {role} says of other pods: {rule}",),
        special_texts=(
            "subgroup {subgroup} must sit {rule}, and none has room for enough of its pods next to the rest of the job",
            "it never starts with {missing}",
            "no node has the label of a rule of role {role}: {unlabelled}",
            "no domain that its PodGroup may use has room: {term}",
            "there is room for it, but {group}, which starts there, keeps apart from it: {others}",
        ),
        remedy="Soften the rule (preferred, ScheduleAnyway, a larger maxSkew), wait for the other pods to come or to"
        " go, or add nodes.",
    ),
)


def _topology(
    s: Provenance, j: int, repair: repairs.HigherTier | repairs.SmallerSubgroups | repairs.SoftTopology
) -> Iterator[Source]:
    yield s.gang_field(j, "topology") if repair.subgroup is None else s.subgroup_source(j, repair.subgroup)


def _tier_change(s: Provenance, j: int, x: repairs.HigherTier, _: Any) -> Change:
    return Change(edits=_topology_edits(s, j, x, "highestTierAllowed", x.tier))


def _soft_change(s: Provenance, j: int, x: repairs.SoftTopology, _: Any) -> Change:
    """Return the topology's mode, or the annotation of MetaX."""
    edits = _topology_edits(s, j, x, "mode", "soft")
    if x.subgroup is None:
        return Change(edits=edits)
    by_annotation = _annotation_change(s, j, x.subgroup, None)
    return by_annotation._replace(edits=edits or by_annotation.edits)


def _topology_edits(
    s: Provenance, j: int, x: repairs.HigherTier | repairs.SoftTopology, field: str, value: int | str
) -> list[FieldEdit]:
    """The field of the networkTopology that the job, its PodGroup or a task's partitions have."""
    spec = s.origins.gangs[j]
    path = spec.field_paths.get("topology", ())
    if x.subgroup is not None:
        path = (*spec.subgroups[x.subgroup].path, "networkTopology")
    written = written_value(spec.document, path)
    is_known = isinstance(written, dict) and (field in written or field == "mode")
    return [FieldEdit(spec.document, (*path, field), value)] if is_known else []


def _size_change(s: Provenance, j: int, x: repairs.SmallerSubgroups, together: Sequence[repairs.Repair]) -> Change:
    """Return the edits; the number of partitions is reported with the pods, where these are fewer."""
    spec, with_counts = s.origins.gangs[j], not any(isinstance(part, repairs.FewerPods) for part in together)
    found = partition_edits(spec, x, with_counts)
    values, edits = _annotation_change(s, j, x.subgroup, x.amount)
    own = [FieldEdit(spec.document, path, value) for path, value in found.items()]
    return Change({**values, **Edits.of_fields(found)}, own or edits)


def _annotation_change(s: Provenance, j: int, subgroup: int, pods: int | None) -> Change:
    """Return the annotation of MetaX, where it or the one that asks for the groups is written."""
    spec = s.origins.gangs[j]
    asking, found = spec.subgroups[subgroup].path, metax.annotation_repair(spec, subgroup, pods)
    if not found:
        return Change()
    return Change(found, [FieldEdit(spec.document, (*asking[:-1], str(found["annotation"])), str(found["written"]))])


def _wish_change(s: Provenance, j: int, x: repairs.SoftSeparation, _: Any) -> Change:
    """Return a weight for each required term, which only preferred ones have; their list then becomes the preferred
    one, if it is the only one."""
    group = s.origins.gangs[j].pod_group
    written = None if group is None else written_value(group.document, ANTI_AFFINITY_PATH)
    if group is None or not isinstance(written, dict) or written.get("preferred"):
        return Change()
    required = (*ANTI_AFFINITY_PATH, "required")
    weights = [
        FieldEdit(group.document, (*required, i, "weight"), WISH_WEIGHT) for i in range(len(written["required"]))
    ]
    return Change(edits=[*weights, FieldEdit(group.document, required, "preferred", is_key=True)])


REPAIRS: tuple[Entry[Any], ...] = (
    Entry(
        repairs.HigherTier,
        "allow a higher tier",
        ("highestTierAllowed: {tier} for its groups ({subgroup})", "highestTierAllowed: {tier}"),
        _topology,
        change=_tier_change,
    ),
    Entry(
        repairs.SmallerSubgroups,
        "make the subgroups smaller",
        ("groups of {amount:pods} instead of {now:n} ({subgroup})",),
        _topology,
        of_document=True,
        special_texts=(
            "{annotation}: {written}, groups of {amount:pods} instead of {now:n}",
            "groups of {amount:pods} instead of {now:n} ({subgroup}), with {edits}",
        ),
        change=_size_change,
    ),
    Entry(
        repairs.SoftTopology,
        "make the topology a wish",
        ("a soft topology instead of a hard one for its groups ({subgroup})", "a soft topology instead of a hard one"),
        _topology,
        of_document=True,
        special_texts=("{annotation}: {written}, so that a whole group in one supernode is a wish",),
        change=_soft_change,
    ),
    Entry(
        repairs.SoftSeparation,
        "make the anti-affinity of its PodGroup a wish",
        ("preferred instead of required terms in podGroupAntiAffinity of its PodGroup",),
        lambda s, j, x: _terms(s, j),
        change=_wish_change,
    ),
)
