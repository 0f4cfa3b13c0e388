"""The real control plane for tests. The first start on a machine builds it (about 10 minutes; `python -m
tests.controlplane build` does so beforehand); each start after that takes about 7 seconds, most of it on all cores. So
the tests of a process share one cluster, and each leaves it empty."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import clean_cluster

FOLDER = Path(__file__).parent
FIRST_GROUP = ("test_devices", "test_drift", "test_gangs", "test_neighbours")
"""The modules that take half of the time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With pytest-xdist, the tests of one group stay in one process: so there are two clusters at a time, not one per
    test."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("e2e-1" if item.path.stem in FIRST_GROUP else "e2e-2"))


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    """A fresh cluster of one test's own: for tests that need it empty, or that change what is the cluster's as a
    whole."""
    with ControlPlane() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def running_control_plane() -> Iterator[ControlPlane]:
    """The one cluster of this process. The scheduler's configuration stays what the last test made it."""
    with ControlPlane() as cluster:
        yield cluster


@pytest.fixture
def shared_control_plane(running_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The cluster of this process, emptied afterwards."""
    yield running_control_plane
    clean_cluster(running_control_plane)


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
