"""Rules of what is guaranteed to queues as whole domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from compiler.checks import Finding, Reading, check
from compiler.kinds.queue import DOMAINS
from compiler.lower.dedicated_domains import tier_of

PATH = ("metadata", "annotations", DOMAINS)


@check("GP382", "guaranteed domains of an unknown tier")
def guaranteed_tier_known(reading: Reading) -> Iterator[Finding]:
    """The tier that a queue is guaranteed domains of is the tier, or the tierName, of a hypernode of the cluster. Mend:
    correct the tier."""
    tree = reading.specs.hypernodes
    known = sorted({str(spec.tier) for spec in tree} | {spec.tier_name for spec in tree if spec.tier_name})
    for queue in reading.specs.queues:
        if queue.domains and tree and tier_of(queue.domains[1], tree) is None:
            yield Finding(
                queue.document, PATH, f"no hypernode is of tier {queue.domains[1]}", f"the tiers are {', '.join(known)}"
            )


@check("GP383", "more domains guaranteed than there are")
def guaranteed_domains_exist(reading: Reading) -> Iterator[Finding]:
    """The domains of one tier that all queues together are guaranteed are not more than the cluster has of it. Each
    queue's are its own: what is kept for a queue below another is not counted as that one's. Mend: guarantee fewer."""
    tree = reading.specs.hypernodes
    there = Counter(spec.tier for spec in tree)
    asked: Counter[int] = Counter()
    for queue in reading.specs.queues:
        tier = tier_of(queue.domains[1], tree) if queue.domains else None
        if queue.domains and tier is not None:
            asked[tier] += queue.domains[0]
            if asked[tier] > there[tier]:
                message = f"with this queue {asked[tier]} domains of tier {tier} are guaranteed; the cluster has {there[tier]}"
                yield Finding(queue.document, PATH, message, "guarantee fewer")
