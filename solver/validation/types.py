"""Whether a problem has the types of its annotations: classes, tuples, names and truth values. `validate` checks
integers.

A list in place of a tuple, or an incomplete pair, is reported at once, with its index, and not from the depth of a
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from solver.problem import Problem

Mismatch = tuple[tuple[str | int, ...], str]
"""The path of indices to a value of another type, and what it is."""

ValueCheck = Callable[[Any], Mismatch | None]


def first_mismatch(problem: object) -> Mismatch | None:
    """The first part of the problem that is not of the type that its annotation says."""
    return None if _all_match([problem], Problem) else _dataclass_check(Problem)(problem)


def _all_match(values: Sequence[Any], hint: Any) -> bool:
    """Whether all of these values match this annotation, field by field of all of them at once. `_check_for` finds the
    error."""
    origin, inside, each = get_origin(hint), get_args(hint), hint
    if hint is int or not values:
        return True
    if is_dataclass(hint):
        return set(map(type, values)) == {each} and all(
            _all_match([getattr(v, name) for v in values], of) for name, of in _checked_fields(each)
        )
    if origin in (Union, UnionType):
        return _all_match([value for value in values if value is not None], _non_none_hint(inside))
    if set(map(type, values)) != {str if origin is Literal else origin or hint}:
        return False
    if origin is tuple and inside[1:] == (...,):
        return _check_for(inside[0]) is None or _all_match(list(chain.from_iterable(values)), inside[0])
    if origin is tuple:
        return set(map(len, values)) == {len(inside)} and all(
            _all_match([value[i] for value in values], of) for i, of in enumerate(inside)
        )
    return origin is not Literal or set(values) <= set(inside)


@cache
def _checked_fields(kind: Any) -> list[tuple[str, Any]]:
    """The fields of a dataclass that are more than integers."""
    hints = get_type_hints(kind)
    return [(field.name, hints[field.name]) for field in fields(kind) if _check_for(hints[field.name]) is not None]


def _non_none_hint(arms: tuple[Any, ...]) -> Any:
    """The annotation X of X | None."""
    (other,) = (arm for arm in arms if arm is not NoneType)
    return other


@cache
def _check_for(hint: Any) -> ValueCheck | None:
    """How to check a value with this annotation; None if it needs no check."""
    origin, inside = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _dataclass_check(hint)
    if origin in (Union, UnionType):
        return _optional_check(_check_for(_non_none_hint(inside)))
    if origin is tuple and inside[1:] == (...,):
        each = _check_for(inside[0])
        return _instance_check(tuple) if each is None else _sequence_check(each)
    if origin is tuple:
        return _fixed_tuple_check([_check_for(each) for each in inside])
    if origin is Literal:
        return lambda value: (
            None if isinstance(value, str) and value in inside else ((), f"{value!r} is none of {', '.join(inside)}")
        )
    return None if hint is int else _instance_check(origin or hint)


def _optional_check(inner: ValueCheck | None) -> ValueCheck | None:
    """None, or a value of another annotation."""
    return None if inner is None else lambda value: None if value is None else inner(value)


def _type_mismatch(value: object, kind: type) -> Mismatch:
    return (), f"is of the type {type(value).__name__}, not {kind.__name__}"


def _instance_check(kind: type) -> ValueCheck:
    return lambda value: None if isinstance(value, kind) else _type_mismatch(value, kind)


def _dataclass_check(kind: Any) -> ValueCheck:
    """A dataclass and all its fields."""
    checks = [(name, inner) for name, hint in _checked_fields(kind) if (inner := _check_for(hint)) is not None]

    def check(value: Any) -> Mismatch | None:
        if not isinstance(value, kind):
            return _type_mismatch(value, kind)
        return _first_fault((name, inner(getattr(value, name))) for name, inner in checks)

    return check


def _first_fault(faults: Iterable[tuple[str | int, Mismatch | None]]) -> Mismatch | None:
    """The first fault, its path below the index or field where it is."""
    return next((((where, *fault[0]), fault[1]) for where, fault in faults if fault is not None), None)


def _sequence_check(inner: ValueCheck) -> ValueCheck:
    """A tuple of any length."""

    def check(value: Any) -> Mismatch | None:
        if not isinstance(value, tuple):
            return _type_mismatch(value, tuple)
        return _first_fault((i, inner(each)) for i, each in enumerate(value))

    return check


def _fixed_tuple_check(inner: list[ValueCheck | None]) -> ValueCheck:
    """A tuple with one annotation for each entry."""

    def check(value: Any) -> Mismatch | None:
        if not isinstance(value, tuple):
            return _type_mismatch(value, tuple)
        if len(value) != len(inner):
            return (), f"has {len(value)} entries, not {len(inner)}"
        return _first_fault((i, ask(value[i])) for i, ask in enumerate(inner) if ask is not None)

    return check
