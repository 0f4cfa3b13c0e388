"""Label selectors: their pydantic model, and matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from compiler.fields.models import LenientModel

LabelExpression = tuple[str, str, tuple[str, ...]]
"""(label, operator, values)"""


class LabelRequirement(LenientModel):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class LabelSelector(LenientModel):
    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None

    def expressions(self) -> tuple[LabelExpression, ...]:
        """Return the rows that must all hold; no row matches everything."""
        return tuple((key, "In", (value,)) for key, value in (self.match_labels or {}).items()) + tuple(
            (row.key, str(row.operator), tuple(row.values or ())) for row in self.match_expressions or ()
        )


def selector_matches(rows: Iterable[LabelExpression], labels: Mapping[str, str]) -> bool:
    """Return whether all rows hold. As in Kubernetes, a missing label is in no set of values."""
    return all(_expression_holds(labels, *row) for row in rows)


def _expression_holds(labels: Mapping[str, str], key: str, operator: str, values: tuple[str, ...]) -> bool:
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
