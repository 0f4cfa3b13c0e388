"""Whether a problem is built as its annotations say: of which classes, tuples, names and truth values. What its integers are is `validate`'s to ask.

Who passes a list for a tuple, or half of a pair, hears so at once, with the index, and not from the depth of a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from solver.problem import Problem

Fault = tuple[tuple[str | int, ...], str]
"""The path of indices to what is built otherwise, and what it is."""

Check = Callable[[Any], Fault | None]


def misbuilt(problem: object) -> Fault | None:
    """The first part of the problem that is not of the form that its annotation says."""
    return _form()(problem)


@cache
def _form() -> Check:
    return _class(Problem)


@cache
def _check(hint: Any) -> Check | None:
    """What to ask of a value with this annotation; None for nothing."""
    origin, inside = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _class(hint)
    if origin in (Union, UnionType):
        (other,) = (arm for arm in inside if arm is not NoneType)
        return _perhaps(_check(other))
    if origin is tuple and inside[1:] == (...,):
        each = _check(inside[0])
        return _of(tuple) if each is None else _row(each)
    if origin is tuple:
        return _pair([_check(each) for each in inside])
    if origin is Literal:
        return lambda value: None if isinstance(value, str) and value in inside else ((), f"{value!r} is none of {', '.join(inside)}")
    return None if hint is int else _of(origin or hint)


def _perhaps(inner: Check | None) -> Check | None:
    """None, or what another annotation says."""
    if inner is None:
        return None

    def check(value: Any) -> Fault | None:
        return None if value is None else inner(value)

    return check


def _wrong(value: object, kind: type) -> Fault:
    return (), f"is of the type {type(value).__name__}, not {kind.__name__}"


def _of(kind: type) -> Check:
    return lambda value: None if isinstance(value, kind) else _wrong(value, kind)


def _class(kind: Any) -> Check:
    """A dataclass and all its fields."""
    hints = get_type_hints(kind)
    checks = [(field.name, inner) for field in fields(kind) if (inner := _check(hints[field.name])) is not None]

    def check(value: Any) -> Fault | None:
        if not isinstance(value, kind):
            return _wrong(value, kind)
        for name, inner in checks:
            if (fault := inner(getattr(value, name))) is not None:
                return (name, *fault[0]), fault[1]
        return None

    return check


def _row(inner: Check) -> Check:
    """A tuple of any length."""

    def check(value: Any) -> Fault | None:
        if not isinstance(value, tuple):
            return _wrong(value, tuple)
        for i, each in enumerate(value):
            if (fault := inner(each)) is not None:
                return (i, *fault[0]), fault[1]
        return None

    return check


def _pair(inner: list[Check | None]) -> Check:
    """A tuple of so many entries."""

    def check(value: Any) -> Fault | None:
        if not isinstance(value, tuple):
            return _wrong(value, tuple)
        if len(value) != len(inner):
            return (), f"has {len(value)} entries, not {len(inner)}"
        for i, (each, ask) in enumerate(zip(value, inner, strict=True)):
            if ask is not None and (fault := ask(each)) is not None:
                return (i, *fault[0]), fault[1]
        return None

    return check
