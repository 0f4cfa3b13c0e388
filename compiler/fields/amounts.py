"""Amounts of resources as text and as JSON numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

from compiler.kubernetes import COLOCATED_MEMORY
from solver.problem import SlotRequest

_BINARY_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_BYTE_RESOURCES = ("memory", "ephemeral-storage", "hugepages-", COLOCATED_MEMORY)


def json_amount(resource: str, amount: int) -> int | float:
    """Return an amount for JSON: cpu in cores, all else in whole units (bytes, devices, pods)."""
    if resource != "cpu":
        return amount
    return amount // 1000 if amount % 1000 == 0 else amount / 1000


def rounded_amount(resource: str, amount: int) -> str:
    """Return an amount as short text: 2.5, 64Gi, 16. Bytes are rounded to three digits."""
    if resource == "cpu":
        return _short_decimal(Fraction(amount, 1000))
    if not resource.startswith(_BYTE_RESOURCES):
        return str(amount)
    size, unit = Fraction(amount), 0
    while abs(size) >= 1024 and unit < len(_BINARY_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{_short_decimal(size)}{_BINARY_UNITS[unit]}"


def named_amount(resource: str, amount: int) -> str:
    """Return an amount with its resource: "2.5 cpu", "64Gi memory", "16 nvidia.com/gpu", "1 pod"."""
    if resource == "pods":
        return f"{amount} pod" if amount == 1 else f"{amount} pods"
    return f"{rounded_amount(resource, amount)} {resource}"


def unit_heading(resource: str, among: Collection[str] = ()) -> str:
    """Return a column heading for a resource: "GPUs" for any vendor's GPU, else its name, as where two of `among` would
    have the same heading."""
    is_gpu = resource.endswith("/gpu") and sum(other.endswith("/gpu") for other in among) < 2
    return "GPUs" if is_gpu else resource


def _short_decimal(value: Fraction) -> str:
    """Return a number as text, rounded to three significant digits (one decimal place from 100 on)."""
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.1f}" if abs(value) >= 100 else f"{float(value):.3g}"


def slot_request_text(slot_request: SlotRequest, resources: Sequence[str]) -> str:
    """Return a slot request as text: "8 cpu of one", "2 nvidia.com/gpu of each of 4"."""
    amounts = [named_amount(resources[r], amount) for r, amount in enumerate(slot_request.share) if amount]
    return f"{', '.join(amounts)} of {'one' if slot_request.number == 1 else f'each of {slot_request.number}'}"
