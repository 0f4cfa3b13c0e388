"""The pytest plugin of `scripts/hunt`: tests in random order, an end in time, and counterexamples written as data."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import random
import re
import textwrap
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import yaml

FOUND_FOLDER = Path(__file__).parents[1] / "property" / "found"
"""The counterexamples, which tests/property/test_found.py tries again."""
_VALUE_MODULES = ("solver.problem", "solver.options")
"""Where the names in a counterexample's arguments come from."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hunt-until", type=float, default=float("inf"), help="skip the tests that begin after this time")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if item.path.stem != "test_found"]
    random.Random(_seed(config)).shuffle(items)  # noqa: S311  - not a secret


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.getoption("--hunt-until"):
        pytest.skip("the time is over")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if isinstance(item, pytest.Function) and call.excinfo is not None and report.failed:
        for example, error in counterexamples(call.excinfo.value):
            arguments = example_values(example)
            if arguments is None:
                message = f"the example cannot be written as data; repeat: scripts/hunt --seed {_seed(item.config)}"
            else:
                name = f"{item.module.__name__}::{item.originalname}"
                message = f"written to {write_found(name, int(_seed(item.config)), error, arguments)}"
            report.sections.append(("hunt", message))
    return report


def _seed(config: pytest.Config) -> str:
    return str(config.getoption("--hypothesis-seed"))


def counterexamples(error: BaseException) -> Iterator[tuple[str, str]]:
    """Each falsifying example that hypothesis reports: the call as text, and the error."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from counterexamples(each)
    for note in getattr(error, "__notes__", ()):
        if found := re.search(
            r"(?:Falsifying example|Failing test case): (\w+\(.*?^\))", note, re.DOTALL | re.MULTILINE
        ):
            yield found[1], f"{type(error).__name__} {error}".splitlines()[0]


def example_values(example: str) -> dict[str, object] | None:
    """The arguments of a call in Python, as plain data; None where they cannot be written so."""
    names = {name: value for module in _VALUE_MODULES for name, value in vars(importlib.import_module(module)).items()}
    try:
        call = ast.parse(example, mode="eval").body
        assert isinstance(call, ast.Call)
        values = {str(each.arg): eval(ast.unparse(each.value), dict(names)) for each in call.keywords}  # noqa: S307
        plain = {name: plain_data(value) for name, value in values.items()}
        yaml.safe_dump(plain)
    except (SyntaxError, NameError, TypeError, yaml.YAMLError):
        return None
    return plain


def plain_data(value: object) -> object:
    """Mappings, lists and scalars; fields of dataclasses that have their default value are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value)]
        return {name: plain_data(given) for name, given, default in fields if given != default}
    if isinstance(value, tuple | list):
        return [plain_data(each) for each in value]
    return sorted(value) if isinstance(value, set | frozenset) else value


def write_found(name: str, seed: int, error: str, arguments: dict[str, object]) -> Path:
    """Write the example into the folder of found cases, under a name made from its content; where it is."""
    short = textwrap.shorten(error, 100)
    case = {"property": name, "seed": seed, "error": short, "arguments": arguments}
    text = yaml.safe_dump(case, sort_keys=False, default_flow_style=None, width=118)
    digest = hashlib.sha256(f"{name} {arguments}".encode()).hexdigest()[:8]
    FOUND_FOLDER.mkdir(exist_ok=True)
    file = FOUND_FOLDER / f"{digest}.yaml"
    file.write_text(text)
    return file
