"""The repairs of a job as edits of the repository's files."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.emit.edited_files import edited_files
from compiler.explain.catalogue import Catalogue
from compiler.explain.edits import in_whole_units
from compiler.explain.provenance import Provenance
from compiler.explain.statements import CodedMessage
from compiler.outcome import JobDecision, Outcome
from compiler.reading import read_specs
from compiler.repository.kustomize import BUILT_MARK
from compiler.repository.tree import Repository
from compiler.specs.cluster_spec import ClusterSpec


def edited_by_repairs(
    outcome: Outcome, decision: JobDecision, tree: Repository
) -> Iterator[tuple[CodedMessage, dict[str, bytes] | None]]:
    """Yield each repair of a waiting job with its changed files; None if it changes none, or not for certain, or causes
    an error."""
    if decision.gang_index is None or outcome.problem is None or outcome.origins is None or outcome.plan is None:
        return
    catalogue = Catalogue(Provenance(outcome.problem, outcome.origins, outcome.specs.cluster.document))
    files = {file: text for file, text in tree.files.items() if not text.startswith(BUILT_MARK)}
    whole = (in_whole_units(decision.gang, each) for each in outcome.plan.decisions[decision.gang_index].repairs)
    repairs = [repair for repair in whole if repair is not None]
    for message, repair in zip(decision.repairs, repairs, strict=True):
        edits = catalogue.edits(decision.gang_index, repair)
        after = edited_files(files, edits) if edits else None
        is_good = bool(after) and _error_count(tree, outcome.specs.cluster, after or {}) <= outcome.error_count
        yield message, after if is_good else None


def _error_count(tree: Repository, cluster: ClusterSpec, after: dict[str, bytes]) -> int:
    specs = read_specs(tree.with_files(after), cluster.name, release_in=lambda _: cluster.volcano)
    return sum(diagnostic.severity == "error" for diagnostic in specs.diagnostics)
