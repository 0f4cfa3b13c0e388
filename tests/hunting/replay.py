"""Runs a property on one example of data."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, get_type_hints

import pytest
from hypothesis import given, is_hypothesis_test, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter


class _ReplayedError(Exception):
    """The property holds for the example; the rest of the test counts examples, of which there is one."""


def replay(name: str, arguments: dict[str, Any]) -> None:
    """Run the property "module::test" on these arguments instead of generated ones, also where it is defined inside
    the test. arguments: plain data, read by the property's annotations."""
    module, test = name.split("::")
    room = importlib.import_module(module)
    run = getattr(room, test)
    if is_hypothesis_test(run):
        _run_once(run.hypothesis.inner_test, arguments)
        return

    def given_once(*_: Any, **__: Any) -> Callable[[Callable[..., None]], Callable[[], None]]:
        return lambda check: lambda: run_once(check)

    def run_once(check: Callable[..., None]) -> None:
        _run_once(check, arguments)
        raise _ReplayedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "given", given_once)
        patch.setattr(room, "settings", lambda **_: lambda check: check)
        with pytest.raises(_ReplayedError):
            run()


def _run_once(check: Callable[..., None], arguments: dict[str, Any]) -> None:
    """Run the check as hypothesis does, so that it may record events."""
    types = get_type_hints(check)
    values = {name: TypeAdapter(types[name]).validate_python(each) for name, each in arguments.items()}
    examples = given(**{name: st.just(value) for name, value in values.items()})
    settings(max_examples=1, database=None, deadline=None)(examples(check))()
