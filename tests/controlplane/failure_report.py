"""What the report of a failed test says of its cluster: the folder with the logs goes with the cluster. A conftest.py
whose tests have one imports the hook."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.controlplane.plane import ControlPlane

LINES = 10
"""Of each log."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The report ends in the last lines of each component's log, and in whether the machine let the components run."""
    report = yield
    if report.failed:
        values = getattr(item, "funcargs", {}).values()
        planes = [each if isinstance(each, ControlPlane) else getattr(each, "plane", None) for each in values]
        for plane in {id(each): each for each in planes if isinstance(each, ControlPlane)}.values():
            report.sections.extend(plane.failure_sections(LINES))
    return report
