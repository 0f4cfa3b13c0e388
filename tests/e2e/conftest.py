"""The real control plane for tests. The first start on a machine builds it (about 10 minutes; `python -m
tests.controlplane build` does so beforehand); each start after that takes about 7 seconds."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest

from tests.controlplane import ControlPlane


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    """A fresh cluster of one test's own: for tests that need it empty, or that change what is the cluster's as a whole."""
    with ControlPlane() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shared_control_plane() -> Iterator[ControlPlane]:
    """One cluster for the tests of a module, which keep apart by names of their own."""
    with ControlPlane() as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The report of a failed test ends in the last lines of each component's log: the folder with the logs goes with
    the cluster."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, ControlPlane):
                report.sections.extend((f"log of {name}", value.logs(name, 10)) for name in value.components)
    return report
