"""Checks of pods against the LimitRanges of their namespace."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.checks import CheckInput, Finding, check
from compiler.fields.quantity import exact_amount, integer_amounts
from compiler.kinds.common.limit_ranges import limit_ranges, refused_containers


@check("GP367", "pod above a LimitRange")
def pods_above_limit_range(check_input: CheckInput) -> Iterator[Finding]:
    """The API server refuses a pod with a container that asks for more than `max` of a LimitRange of its namespace. Its
    defaults count as if they were written into containers without requests. Mend: lower the request, or raise the
    maximum."""
    ranges = limit_ranges(check_input.specs.documents)
    for gang in check_input.jobs_and_services if ranges else ():
        for document, excess in refused_containers(gang, ranges):
            most = exact_amount(
                excess.resource, integer_amounts({excess.resource: excess.most}, "down")[excess.resource]
            )
            message = f"LimitRange {excess.range.document.name} allows a container {most} {excess.resource}"
            see = (excess.range.document, ("spec", "limits"))
            yield Finding(document, (*excess.path, "resources"), message, f"ask for {most} at most", see)
