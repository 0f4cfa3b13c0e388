"""A comparison as the page of the report: the new plan, and next to it the cluster before."""

from __future__ import annotations

from compiler.comparison.compare import Comparison
from compiler.comparison.render import VERBS, comparison_document
from compiler.views.report.page import Base, report_page


def comparison_page(comparison: Comparison, base: str) -> str | None:
    """Return the HTML; None where a commit is rejected and has no plan. base: what the old revision is called."""
    found, after = comparison_base(comparison, base), comparison.after
    return None if found is None or after is None else report_page(after, found)


def comparison_base(comparison: Comparison, base: str) -> Base | None:
    """Return the base for the page; None where a commit is rejected and has no plan."""
    before, after = comparison.before, comparison.after
    if before is None or after is None or not before.ok or not after.ok:
        return None
    (entry,) = comparison_document([comparison], base, "")["clusters"]
    changes = [{**job, **dict(zip(("verb", "verbs"), VERBS[job["change"]], strict=True))} for job in entry["jobs"]]
    return Base(base, before, changes)
