"""The pytest plugin of `scripts/hunt`: random examples, tests in random order, an end in time, and counterexamples
written as tests."""

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
from hypothesis import settings

FOUND_FOLDER = Path(__file__).parents[1] / "property" / "found"
_VALUE_MODULES = ("solver.problem", "solver.options", "random", "collections")
"""Where the names in a counterexample's arguments come from."""

_TEMPLATE = '''\
"""Found by scripts/hunt with seed {seed}: {error}"""

from __future__ import annotations

{imports}

from tests.hunting.replay import replay


def test_{name}() -> None:
    replay("{module}", "{test}", {arguments})
'''


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--hunt-until", type=float, default=float("inf"), help="skip the tests that begin after this time")


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Before any test module is imported: its settings inherit from the profile."""
    settings.load_profile("random")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = [item for item in items if FOUND_FOLDER not in item.path.parents]
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
            text = found_test(_seed(item.config), item, example, error)
            if text is None:
                message = f"the example cannot be written as a test; repeat: scripts/hunt --seed {_seed(item.config)}"
            else:
                message = f"written to {write_found(item.originalname, text)}"
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


def found_test(seed: str, item: pytest.Function, example: str, error: str) -> str | None:
    """A test module that runs the example; None where its values cannot be written as code."""
    names = {name: value for module in _VALUE_MODULES for name, value in vars(importlib.import_module(module)).items()}
    try:
        call = ast.parse(example, mode="eval").body
        assert isinstance(call, ast.Call)
        values = {str(each.arg): eval(ast.unparse(each.value), dict(names)) for each in call.keywords}  # noqa: S307
    except (SyntaxError, NameError, TypeError):
        return None
    arguments = ", ".join(f"{name}={value_code(value)}" for name, value in values.items())
    return _TEMPLATE.format(
        seed=seed,
        error=textwrap.shorten(error.replace('"', "'").replace("\\", "/"), 80),
        imports=_imports({node.id for node in ast.walk(ast.parse(f"f({arguments})")) if isinstance(node, ast.Name)}),
        name=item.originalname.removeprefix("test_"),
        module=item.module.__name__,
        test=item.originalname,
        arguments=arguments,
    )


def value_code(value: object) -> str:
    """A value as Python code; fields of dataclasses that have their default value are left out."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [(field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value)]
        written = (f"{name}={value_code(given)}" for name, given, default in fields if given != default)
        return f"{type(value).__name__}({', '.join(written)})"
    if isinstance(value, tuple):
        items = [value_code(each) for each in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return repr(value)


def _imports(names: set[str]) -> str:
    lines = []
    for module in _VALUE_MODULES:
        here = {name for name in names if hasattr(importlib.import_module(module), name)}
        names = names - here
        if here:
            lines.append(f"from {module} import {', '.join(sorted(here))}")
    return "\n".join(lines)


def write_found(test: str, text: str) -> Path:
    """Write a module into the folder of found cases, under a name made from its content; where it is."""
    FOUND_FOLDER.mkdir(exist_ok=True)
    file = FOUND_FOLDER / f"{test}_{hashlib.sha256(text.partition('def ')[2].encode()).hexdigest()[:8]}.py"
    file.write_text(text)
    return file
