"""One bed for all tests of this folder, and one process: a second control plane would cost more than it saves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.failure_report import pytest_runtest_makereport  # noqa: F401  - a hook, found by its name
from tests.differential.bed import Bed

FOLDER = "tests/differential/"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(FOLDER):
            item.add_marker(pytest.mark.xdist_group("differential"))
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="package")
def bed() -> Iterator[Bed]:
    with Bed() as started:
        yield started
