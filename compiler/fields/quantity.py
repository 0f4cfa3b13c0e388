"""Kubernetes quantities ("500m", "1.5Gi", 2, "1e3") as exact numbers, resource lists as integers, and amounts as text.

Grammar and suffixes: k8s.io/apimachinery/pkg/api/resource, Quantity. Values are rounded only in the last step, so that
0.1 + 0.2 is 0.3.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from compiler.diagnostics.diagnostic import declare_rule, to_write
from compiler.kubernetes import COLOCATED_MEMORY

if TYPE_CHECKING:
    from solver.problem import SlotRequest

NOT_A_QUANTITY = declare_rule("GP207", "error")
NEGATIVE_QUANTITY = declare_rule("GP208", "error")

_NUMBER = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)(?:([eE][+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)\Z", re.ASCII)
_BLANK_BEFORE_UNIT = re.compile(r"[+-]?[\d.]+\s+([a-zA-Z]+)\Z")
_CORES = frozenset(("c", "core", "cores", "cpu", "cpus", "vcpu", "vcpus"))
_UNIT_MEANT = re.compile(rf"(\d+(?:\.\d+)?)((?i:[kmgtpe]i?b?|{'|'.join(sorted(_CORES))}))\Z")
"""A number with a unit as people write it: 64GB, 64gi, 8c."""
_SMALLEST_MEMORY = 2**20
"""Bytes below which an amount of memory without a unit, or in thousandths, has lost its unit."""
_UNIT_FACTORS = {
    "": Fraction(1),
    **{unit: Fraction(1000) ** power for power, unit in enumerate("num", start=-3)},
    **{unit: Fraction(1000) ** power for power, unit in enumerate("kMGTPE", start=1)},
    **{unit + "i": Fraction(1024) ** power for power, unit in enumerate("KMGTPE", start=1)},
}
MILLI_RESOURCES = ("cpu",)
"""Resources counted in thousandths; all others in whole units."""
_MAX_AMOUNT = 2**63 - 1


class QuantityError(ValueError):
    """An invalid quantity. code: NOT_A_QUANTITY's or NEGATIVE_QUANTITY's; the exception's text is the message."""

    def __init__(self, code: str, message: str, help: str) -> None:
        self.code, self.help = code, help
        super().__init__(message)


def parse_quantity(value: object) -> Fraction:
    """Return the exact value of a quantity as YAML gives it: str, int or float. QuantityError for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise QuantityError(
            NOT_A_QUANTITY.code,
            f"{_short_repr(value)} is not a quantity",
            "write a number with an optional unit, such as 500m, 2 or 1.5Gi",
        )
    return _amount(value)


def read_quantity(value: object) -> Fraction | None:
    """Return the amount; None for what is none."""
    try:
        return parse_quantity(value)
    except QuantityError:
        return None


def is_same_quantity(one: object, other: object) -> bool:
    """Return whether both are the same amount."""
    amount = read_quantity(one)
    return amount is not None and amount == read_quantity(other)


@lru_cache(maxsize=4096, typed=True)
def _amount(value: str | float) -> Fraction:
    text = repr(value) if isinstance(value, float) else str(value)
    found = _NUMBER.match(text)
    if found is None or len(text) > 64:
        raise QuantityError(NOT_A_QUANTITY.code, f"{_short_repr(value)} is not a quantity", _syntax_help(text))
    sign, digits, exponent, unit = found.groups()
    amount = Fraction(digits if not digits.endswith(".") else digits[:-1]) * (
        Fraction(10) ** int(exponent[1:]) if exponent else _UNIT_FACTORS[unit or ""]
    )
    if sign == "-" and amount:
        raise QuantityError(NEGATIVE_QUANTITY.code, f"{text} is negative", "write zero or more")
    if amount > _MAX_AMOUNT:
        raise QuantityError(
            NOT_A_QUANTITY.code,
            f"{_short_repr(value)} is larger than Kubernetes can hold",
            f"the largest amount is {_MAX_AMOUNT}",
        )
    return amount


def _short_repr(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _syntax_help(text: str) -> str:
    if found := _BLANK_BEFORE_UNIT.match(text):
        return to_write(text.replace(" ", ""), help=f"remove the blank before {found.group(1)!r}")
    if text.count(".") > 1:
        return "write one decimal point at most"
    if found := _UNIT_MEANT.match(text):
        return _unit_help(*found.groups())
    if re.match(r"[+-]?[\d.]+[a-zA-Z]+\Z", text):
        return "the units are m for thousandths, k M G T P E (powers of 1000) and Ki Mi Gi Ti Pi Ei (powers of 1024)"
    return "write a number with an optional unit, such as 500m, 2 or 1.5Gi"


def _unit_help(number: str, unit: str) -> str:
    """Return the fix for a number with a unit such as GB, gib or cores."""
    if unit.lower() in _CORES:
        return to_write(number)
    letter = "k" if unit[0] in "kK" else unit[0].upper()
    binary = f"{number}{letter.upper()}i"
    return to_write(binary) if unit[1:2] in ("i", "I") else f"write {number}{letter} or {binary}"


def lost_unit(name: str, value: object) -> tuple[str, str] | None:
    """Message and help on an amount of memory that is so small that its unit is wrong or missing; None for others."""
    text = str(value)
    number = text.removesuffix("m")
    if name not in _BYTES or isinstance(value, bool) or not number.isdigit():
        return None
    size = Fraction(int(number), 1 if number == text else 1000)
    if not 0 < size < _SMALLEST_MEMORY:
        return None
    is_milli = number != text
    message = f"{name} {text} is {number} {'thousandths of a byte' if is_milli else 'bytes'}"
    is_plausible = int(number) <= _LARGEST_IN_MI
    return message, (f"write {number}Mi or {number}Gi" if is_plausible else "write it with the unit M, Mi, G or Gi")


_BYTES = ("memory", "ephemeral-storage", "sizeLimit")
_LARGEST_IN_MI = 2**20
"""Up to 1 Ti the number may have been meant in Mi."""


def integer_amounts(resources: Mapping[str, Fraction], rounding: Literal["up", "down"]) -> dict[str, int]:
    """Return a resource list in the units of `compiler.specs.Amounts`: requests and limits rounded up, what nodes offer
    rounded down."""
    step = math.ceil if rounding == "up" else math.floor
    return {name: step(value * 1000 if name in MILLI_RESOURCES else value) for name, value in sorted(resources.items())}


def is_device(resource: str) -> bool:
    """Return whether a resource has a vendor's domain. Kubernetes' own domain is that of lent CPUs and memory."""
    return "/" in resource and not resource.startswith(("hugepages-", "kubernetes.io/"))


def is_countable(resource: str) -> bool:
    """Return whether Kubernetes counts the resource in whole numbers: pods, and extended resources."""
    return resource == "pods" or ("/" in resource and "kubernetes.io/" not in resource)


def exact_amount(resource: str, amount: int) -> str:
    """Return an amount as exact text: cpu in cores, memory in the largest binary unit that divides it, all else as it
    is."""
    if resource in MILLI_RESOURCES:
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage", COLOCATED_MEMORY) or resource.startswith("hugepages-"):
        for power, unit in reversed(list(enumerate("KMGTPE", start=1))):
            if amount and amount % 1024**power == 0:
                return f"{amount // 1024**power}{unit}i"
    return str(amount)


def amounts_sum(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total


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
