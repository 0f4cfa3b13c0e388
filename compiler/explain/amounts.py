"""The amounts in sentences of reasons and repairs: how they are written, and as the JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from compiler.fields.amounts import json_amount, rounded_amount
from compiler.fields.quantity import exact_amount
from solver import repairs
from solver.facts import Fact

AMOUNT_KEYS = {
    "asked": "asked",
    "available": "available",
    "limit": "limit",
    "held": "held",
    "amount": "amount",
    "current_amount": "now",
}
"""Fields that are amounts, and their keys."""


@dataclass
class Amount:
    """An amount in a sentence: with its resource, "n" the number alone, or else a count of what the format names
    ("{asked:pods}"). text: of the number."""

    resource: str
    amount: int
    text: str

    @property
    def json_value(self) -> int | float:
        return json_amount(self.resource, self.amount)

    def __format__(self, noun: str) -> str:
        if noun == "n":
            return self.text
        if not noun and self.resource != "pods":
            return f"{self.text} {self.resource}"
        noun = noun or "pods"
        return f"{self.amount} {noun[:-1] if self.amount == 1 else noun}"


def amounts_of(statement: Fact | repairs.Repair, resource: str) -> dict[str, Amount]:
    """The amounts of a statement by their keys."""
    found = {key: getattr(statement, name, None) for name, key in AMOUNT_KEYS.items()}
    return clear_amounts(resource, {key: amount for key, amount in found.items() if amount is not None})


def clear_amounts(resource: str, amounts: Mapping[str, int]) -> dict[str, Amount]:
    """Rounded unless two of them would look alike."""
    different = set(amounts.values())
    is_clear = len({rounded_amount(resource, amount) for amount in different}) == len(different)
    text = rounded_amount if is_clear else _exact_amount
    return {key: Amount(resource, amount, text(resource, amount)) for key, amount in amounts.items()}


def _exact_amount(resource: str, amount: int) -> str:
    return str(json_amount(resource, amount)) if resource == "cpu" else exact_amount(resource, amount)
