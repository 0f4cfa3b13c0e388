"""The catalogue of reasons and repairs, asked for sources. A new fact gets an entry in `reason_entries`, a new repair
in `repair_entries`; docs/reasons.md is made from them."""

from __future__ import annotations

from compiler.explain.provenance import Provenance, Source
from compiler.explain.reason_entries import REASONS
from compiler.explain.repair_entries import REPAIRS
from solver.facts import Fact
from solver.repairs import Repair


def fact_sources(provenance: Provenance, j: int, fact: Fact) -> tuple[Source, ...]:
    """What a fact about gang j comes from: obstacles before what it asks for itself, each once."""
    return tuple(dict.fromkeys(REASONS[type(fact)].sources(provenance, j, fact)))


def repair_sources(provenance: Provenance, j: int, repair: Repair) -> tuple[Source, ...]:
    """Where a repair for gang j is made or would be written, or what is waited for."""
    return tuple(dict.fromkeys(REPAIRS[type(repair)].sources(provenance, j, repair)))
