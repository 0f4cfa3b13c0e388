"""Checks that a problem has the types of its annotations: classes, tuples, names, truth values. `values` checks
integers; here only that no tuple is in place of one.

A list in place of a tuple, or an incomplete pair, is reported at once, with its index, and not from the depth of a
model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import chain
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from solver.problem import Problem

_Matcher = Callable[[Sequence[Any]], bool]
_CONTAINERS = frozenset((tuple, frozenset))


def first_mismatch(value: Any, hint: Any = Problem) -> tuple[tuple[str | int, ...], str] | None:
    """Return (path of indices, fault) of the first part of a value that is not of its annotated type."""
    if _matcher(hint)([value]):
        return None
    base: Any = get_origin(hint) or hint
    inside = get_args(hint)
    if base in (Union, UnionType):
        return first_mismatch(value, _non_none_hint(inside))
    if base is Literal:
        return (), f"{value!r} is none of {', '.join(inside)}"
    if not isinstance(value, base):
        return (), f"is of the type {type(value).__name__}, not {base.__name__}"
    parts: Iterable[tuple[str | int, Any, Any]] = ()
    if is_dataclass(base):
        parts = ((name, getattr(value, name), of) for name, of in _field_hints(hint))
    elif base is tuple and inside[1:] == (...,):
        parts = ((i, each, inside[0]) for i, each in enumerate(value))
    elif base is tuple:
        if len(value) != len(inside):
            return (), f"has {len(value)} entries, not {len(inside)}"
        parts = ((i, each, of) for i, (each, of) in enumerate(zip(value, inside, strict=True)))
    faults = ((where, first_mismatch(each, of)) for where, each, of in parts)
    return next((((where, *fault[0]), fault[1]) for where, fault in faults if fault is not None), None)


def _matcher(hint: Any) -> _Matcher:
    """Return a check whether all of these values match this annotation exactly, field by field of all of them at
    once."""
    base: Any = get_origin(hint) or hint
    inside = get_args(hint)
    if _is_integer(hint):
        return lambda values: _CONTAINERS.isdisjoint(map(type, values))
    if base in (Union, UnionType):
        other = _matcher(_non_none_hint(inside))
        return lambda values: other([value for value in values if value is not None])
    within: _Matcher = bool
    if is_dataclass(base):
        within = partial(_fields_match, hint)
    elif base is tuple and inside[1:] == (...,):
        within = partial(_entries_match, _matcher(inside[0]))
    elif base is tuple:
        within = partial(_rows_match, tuple(map(_matcher, inside)))
    elif base is Literal:
        within = frozenset(inside).issuperset
    types = {str if base is Literal else base}
    return lambda values: not values or (set(map(type, values)) == types and within(values))


def _fields_match(owner: type, values: Sequence[Any]) -> bool:
    return all(match(list(map(attrgetter(name), values))) for name, match in _field_matchers(owner))


def _entries_match(match: _Matcher, values: Sequence[Any]) -> bool:
    distinct = {id(value): value for value in values}.values()  # thousands of nodes share theirs
    return match(list(chain.from_iterable(distinct)))


def _rows_match(matchers: Sequence[_Matcher], values: Sequence[Any]) -> bool:
    return set(map(len, values)) == {len(matchers)} and all(
        match(column) for match, column in zip(matchers, zip(*values, strict=True), strict=True)
    )


@cache
def _field_matchers(owner: type) -> list[tuple[str, _Matcher]]:
    return [(name, _matcher(of)) for name, of in _field_hints(owner)]


def _is_integer(hint: Any) -> bool:
    """Return whether it is int or int | None."""
    return hint is int or (get_origin(hint) in (Union, UnionType) and int in get_args(hint))


@cache
def _field_hints(owner: type) -> list[tuple[str, Any]]:
    """Return the fields of a dataclass with their annotations."""
    hints = get_type_hints(owner)
    return [(field.name, hints[field.name]) for field in fields(owner)]


def _non_none_hint(arms: tuple[Any, ...]) -> Any:
    """Return the annotation X of X | None."""
    (other,) = (arm for arm in arms if arm is not NoneType)
    return other
