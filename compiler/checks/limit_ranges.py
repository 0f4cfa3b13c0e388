"""Checks of pods against the LimitRanges of their namespace."""

from __future__ import annotations

from collections.abc import Iterator

from compiler.checks.check import CheckInput, Finding, check
from compiler.fields.quantity import exact_amount, integer_amounts
from compiler.kinds.common.limit_ranges import limit_ranges, refusals

_TEXTS = {
    "max": ("allows {what} {bound} {name} at most, as a limit", "write a limit of {bound} at most"),
    "min": ("asks {what} for {bound} {name} at least", "ask for {bound} at least"),
    "ratio": ("allows {what} a limit of {bound} times the request of {name}", "raise the request, or lower the limit"),
}


@check("GP367", "pod that a LimitRange refuses")
def refused_by_limit_range(check_input: CheckInput) -> Iterator[Finding]:
    """The API server refuses a pod outside `max`, `min` or `maxLimitRequestRatio` of a LimitRange of its namespace.
    Each container is checked, or their sum (type Pod); for `max` each needs a limit, for `min` a request, for the ratio
    both. Its defaults count as if they were written. Fix: see the message, or change the LimitRange."""
    ranges = limit_ranges(check_input.specs.documents)
    for gang in check_input.jobs_and_services if ranges else ():
        for document, refused in refusals(gang, ranges):
            name, what = refused.resource, "the containers of a pod together" if refused.is_of_pod else "a container"
            bound = f"{float(refused.bound):g}"
            if refused.word != "ratio":
                bound = exact_amount(name, integer_amounts({name: refused.bound}, "down").get(name, 0))
            message, help = (text.format(what=what, bound=bound, name=name) for text in _TEXTS[refused.word])
            see = (refused.range.document, ("spec", "limits"))
            path = refused.path if refused.is_of_pod else (*refused.path, "resources")
            yield Finding(document, path, f"LimitRange {refused.range.document.name} {message}", help, see)
