"""The repairs of the catalogue: for each type its title, its texts and where it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.explain import statement_sources as sources
from compiler.explain.entries import Entry, entries_by_type
from solver import repairs

REPAIRS: Mapping[type[repairs.Repair], Entry[Any]] = entries_by_type(
    Entry(
        repairs.MoreCapability,
        "raise a capability",
        ("capability {limit} for queue {queue}, {amount:n} more",),
        lambda s, j, x: s.queue_amount(x.queue, "capability", x.resource, "capability"),
    ),
    Entry(
        repairs.HigherTier,
        "allow a higher tier",
        (
            "highestTierAllowed: {tier} for its groups ({subgroup})",
            "highestTierAllowed: {tier}",
        ),
        sources.topology,
    ),
    Entry(
        repairs.EndOfPods,
        "wait for room",
        ("room to be freed by jobs that run",),
        sources.no_sources,
    ),
    Entry(
        repairs.MoreNodes,
        "add nodes",
        (
            "{amount:nodes} more like {nodes} under {hypernode}",
            "{amount:nodes} more like {nodes}",
        ),
        sources.more_nodes,
    ),
    Entry(
        repairs.FewerPods,
        "ask for fewer pods",
        (
            "{amount:pods} of role {role} instead of {now:n}",
            "{amount:pods} at least instead of {now:n}",
        ),
        sources.pod_count,
        special_texts=(
            "at least {amount:pods} of role {elastic} instead of {now:n}: {edits}",
            "at least {amount:pods} of role {elastic} instead of {now:n}",
            "{amount:pods} of role {role} instead of {now:n}, with {edits}",
            "{amount:pods} at least instead of {now:n}: {edits}",
        ),
    ),
    Entry(
        repairs.SmallerSubgroups,
        "make the subgroups smaller",
        ("groups of {amount:pods} instead of {now:n} ({subgroup})",),
        sources.topology,
        special_texts=(
            "{annotation}: {written}, groups of {amount:pods} instead of {now:n}",
            "groups of {amount:pods} instead of {now:n} ({subgroup}), with {edits}",
        ),
    ),
    Entry(
        repairs.SoftTopology,
        "make the topology a wish",
        (
            "a soft topology instead of a hard one for its groups ({subgroup})",
            "a soft topology instead of a hard one",
        ),
        sources.topology,
        special_texts=("{annotation}: {written}, so that a whole group in one supernode is a wish",),
    ),
    Entry(
        repairs.SmallerGuarantee,
        "lower a guarantee of another queue",
        ("guarantee {limit} for queue {queue}, {amount:n} less",),
        lambda s, j, x: s.queue_amount(x.queue, "guarantee", x.resource, "guarantee", "resource"),
    ),
    Entry(
        repairs.EndOfGangs,
        "wait for others to end",
        (
            "wait for the end of {gangs}, expected about {at}",
            "wait for the end of {gangs}, expected in {within}",
            "wait for the end of {gangs}",
        ),
        lambda s, j, x: s.gang_sources(x.gangs),
    ),
    Entry(
        repairs.MoreDeserved,
        "let a queue deserve more",
        (
            "deserved {amount} for queue {queue} instead of {now:n}; {gangs} would wait instead",
            "deserved {amount} for queue {queue} instead of {now:n}",
        ),
        lambda s, j, x: s.queue_amount(x.queue, "deserved", x.resource, "deserved"),
    ),
    Entry(
        repairs.MoreWeight,
        "raise a queue's weight",
        (
            "weight {amount:n} instead of {now:n} for queue {queue}; {gangs} would wait instead",
            "weight {amount:n} instead of {now:n} for queue {queue}",
        ),
        lambda s, j, x: s.queue_field(x.queue, "weight", "spec", "weight"),
    ),
    Entry(
        repairs.OpenQueue,
        "open a queue",
        ("open queue {queue}",),
        lambda s, j, x: sources.closed_field(s, x.queue),
    ),
    Entry(
        repairs.OpenNodeGroups,
        "open node groups to a queue",
        ("let queue {queue} use {named_groups} as well",),
        sources.node_groups,
        special_texts=("let queue {queue} use {named_groups} as well: {edits}",),
    ),
    Entry(
        repairs.MoreNodeClasses,
        "let a role use other nodes",
        ("let role {role} use nodes like {nodes} as well",),
        lambda s, j, x: s.role_selectors(j, x.role),
        special_texts=("let role {role} use nodes like {nodes} as well: {edits}",),
    ),
    Entry(
        repairs.Restart,
        "start anew",
        ("delete its pods that run, so that it starts anew where all of it fits",),
        sources.no_sources,
    ),
    Entry(
        repairs.HigherPriority,
        "raise its priority",
        (
            "a priority of {amount:n} or more; {gangs} would wait instead",
            "a priority of {amount:n} or more",
        ),
        lambda s, j, x: (s.gang_field(j, "priority_class"),),
        special_texts=(
            "priorityClassName {class} ({amount:n} or more suffices); {victims} would be evicted for it",
            "priorityClassName {class} ({amount:n} or more suffices); {gangs} would wait instead",
            "priorityClassName {class} ({amount:n} or more suffices)",
            "a priority of {amount:n} or more; {victims} would be evicted for it",
        ),
    ),
    Entry(
        repairs.SmallerPods,
        "make the pods smaller",
        ("{amount} for a pod of role {role} instead of {now:n}",),
        lambda s, j, x: s.role_requests(j, x.role, x.resource),
    ),
    Entry(
        repairs.ReturnOfNodes,
        "bring nodes back",
        ("wait for {nodes} to be ready and open again",),
        sources.away_nodes,
    ),
    Entry(
        repairs.NoStrictOrder,
        "lift a queue's strict order",
        ("queue {queue} without its strict order",),
        lambda s, j, x: sources.order_field(s, x.queue),
    ),
    Entry(
        repairs.StartOfGang,
        "wait for others to start",
        (
            "wait for {gangs} to start, expected about {at}",
            "wait for {gangs} to start, expected in {within}",
            "wait for {gangs} to start",
        ),
        lambda s, j, x: (s.gang_source(x.gang),),
    ),
    Entry(
        repairs.AllowEviction,
        "let pods be evicted",
        ("{edits}; {gangs} would be evicted for it",),
        sources.eviction_obstacle,
    ),
    Entry(
        repairs.FewerDedicatedDomains,
        "keep fewer domains for another queue",
        ("{amount:n} fewer of the whole domains guaranteed to queue {queue}",),
        sources.dedicated_domains,
    ),
    Entry(
        repairs.OtherQueue,
        "use another queue",
        ("queue {queue} instead of its own",),
        lambda s, j, x: (s.gang_field(j, "queue"),),
    ),
    Entry(
        repairs.ShorterDuration,
        "say that it ends sooner",
        ("gangplan.dev/expected-duration of at most {written_duration}",),
        sources.duration,
    ),
    Entry(
        repairs.EndOfMaintenance,
        "wait for the end of maintenance",
        (
            "wait for the end of maintenance about {at}",
            "wait {within} for the end of maintenance",
        ),
        lambda s, j, x: sources.closing_nodes(s, j),
    ),
)
