"""Checks of domains that are dedicated to queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compiler.checks.check import CheckInput, Finding, check
from compiler.kubernetes import DEDICATED_DOMAINS_ANNOTATION
from compiler.specs.hypernode_tree import tier_of

DOMAINS_PATH = ("metadata", "annotations", DEDICATED_DOMAINS_ANNOTATION)


@check("GP382", "guaranteed domains of an unknown tier")
def unknown_dedicated_tier(check_input: CheckInput) -> Iterator[Finding]:
    """The tier that a queue is guaranteed domains of is the tier, or the tierName, of a hypernode of the cluster. Fix:
    correct the tier."""
    tree = check_input.specs.hypernodes
    known = sorted({str(spec.tier) for spec in tree} | {spec.tier_name for spec in tree if spec.tier_name})
    for queue in check_input.specs.queues:
        if queue.dedicated_domains and tree and tier_of(queue.dedicated_domains[1], tree) is None:
            message = f"no hypernode is of tier {queue.dedicated_domains[1]}"
            yield Finding(queue.document, DOMAINS_PATH, message, f"use one of {', '.join(known)}")


@check("GP383", "more domains guaranteed than there are")
def too_many_dedicated_domains(check_input: CheckInput) -> Iterator[Finding]:
    """All queues together are guaranteed more domains of one tier than the cluster has. Each queue's are its own: those
    of a child queue are not counted as its parent's. Fix: guarantee fewer."""
    tree = check_input.specs.hypernodes
    existing = Counter(spec.tier for spec in tree)
    asked: Counter[int] = Counter()
    for queue in check_input.specs.queues:
        tier = tier_of(queue.dedicated_domains[1], tree) if queue.dedicated_domains else None
        if queue.dedicated_domains and tier is not None:
            asked[tier] += queue.dedicated_domains[0]
            if asked[tier] > existing[tier]:
                demand = f"with this queue {asked[tier]} domains of tier {tier} are guaranteed"
                message = f"{demand}; the cluster has {existing[tier]}"
                yield Finding(queue.document, DOMAINS_PATH, message, "guarantee fewer")
