"""Plain YAML scalars: their values in YAML 1.2 core, as ruamel.yaml resolves it, but for the spellings that Kubernetes
(YAML 1.1, then JSON) reads differently: these are named, and octal numbers are read as Kubernetes does."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from compiler.diagnostics.diagnostic import Rule, declare_rule

NOT_FINITE = declare_rule("GP113", "error")
OCTAL_NUMBER = declare_rule("GP114", "warning")
BOOLEAN_WORD = declare_rule("GP115", "warning")
UNQUOTED_DATE = declare_rule("GP116", "info")

Scalar = str | int | float | bool | None

_CONSTANTS: dict[str, Scalar] = {"": None, "~": None}
for _word, _value in (("null", None), ("true", True), ("false", False)):
    _CONSTANTS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _value)
_BOOLEAN_WORDS = frozenset(
    spelling for word in ("yes", "no", "on", "off", "y", "n") for spelling in (word, word.capitalize(), word.upper())
)
SPECIAL_FIRST_CHARACTERS = frozenset("-+.0123456789~nNtTfFyYoO")
"""With another first character an unquoted scalar is text."""
_INTEGER_PATTERN = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)\Z", re.ASCII)
_FLOAT_PATTERN = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9_]+(?:[eE][-+][0-9]+)?)\Z",
    re.ASCII,
)
_NOT_FINITE_PATTERN = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_OCTAL_PATTERN = re.compile(r"[-+]?0(?:o|_*[0-9])", re.ASCII)
_DATE_PATTERN = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:\Z|[Tt ])", re.ASCII)
_MAX_DIGITS = 400


def plain_scalar(text: str) -> tuple[Scalar, Rule | None]:
    """Return the value of an unquoted scalar, and the rule that its spelling violates, if any."""
    if (text and text[0] not in SPECIAL_FIRST_CHARACTERS) or len(text) > _MAX_DIGITS:
        return text, None
    return _special_scalar(text)


@lru_cache(maxsize=4096)
def _special_scalar(text: str) -> tuple[Scalar, Rule | None]:
    if text in _CONSTANTS:
        return _CONSTANTS[text], None
    if text in _BOOLEAN_WORDS:
        return text, BOOLEAN_WORD
    if _NOT_FINITE_PATTERN.match(text):
        return text, NOT_FINITE
    if _INTEGER_PATTERN.match(text):
        return _integer_scalar(text)
    if _FLOAT_PATTERN.match(text):
        return _float_scalar(text)
    if _DATE_PATTERN.match(text):
        return text, UNQUOTED_DATE
    return text, None


def _integer_scalar(text: str) -> tuple[Scalar, Rule | None]:
    digits = text.replace("_", "")
    if _OCTAL_PATTERN.match(text):
        return _octal_scalar(digits), OCTAL_NUMBER
    try:
        return int(digits, 0), None
    except ValueError:  # such as 0x_ or _ alone: no digits remain
        return text, None


def _octal_scalar(digits: str) -> Scalar:
    """As Go reads it: octal, or decimal where a digit is 8 or 9 (08 is a float there, and becomes 8)."""
    try:
        return int(digits.replace("0o", "0"), 8)
    except ValueError:
        return int(digits) if digits.lstrip("+-").isdigit() else digits


def _float_scalar(text: str) -> tuple[Scalar, Rule | None]:
    try:
        value = float(text.replace("_", ""))
    except ValueError:
        return text, None
    return (value, None) if math.isfinite(value) else (text, NOT_FINITE)
