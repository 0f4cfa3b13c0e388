"""Which end-to-end tests share a process, and with it a cluster."""

from __future__ import annotations

import pytest

from tests.controlplane.failure_report import pytest_runtest_makereport  # noqa: F401  - a hook, found by its name
from tests.e2e.fixtures import control_plane, installed, plane, running_control_plane, shared_control_plane  # noqa: F401  - pytest finds fixtures in a conftest by their names

FOLDER = "tests/e2e/"
FIRST_GROUP = ("test_drift", "test_gangs", "test_neighbours", "test_nodes", "test_reading", "test_time", "test_writes")
"""The modules that take half of the time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With pytest-xdist, the tests of one group stay in one process: so there are two clusters at a time, not one per
    test. The stories whose operators end with the cluster come last."""
    places = [at for at, item in enumerate(items) if item.nodeid.startswith(FOLDER)]
    for at, item in zip(places, sorted((items[at] for at in places), key=_ends_cluster), strict=True):
        items[at] = item
        item.add_marker(pytest.mark.xdist_group(_group(item.path.stem)))


def _group(module: str) -> str:
    if module == "test_sandbox":  # it starts a cluster of its own
        return "e2e-sandbox"
    return "e2e-1" if module in FIRST_GROUP else "e2e-2"


def _ends_cluster(item: pytest.Item) -> bool:
    return item.path.stem == "test_operators"
