"""The real control plane for tests. The first start on a machine builds it (about 10 minutes; `python -m
tests.controlplane build` does so beforehand); each start after that takes about 7 seconds, most of it on all cores. So
the tests of a folder share one cluster, each leaves it empty, and it ends with the last of them: a cluster that nobody
uses takes a tenth of a core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane import ControlPlane
from tests.e2e.stories.story import clean_cluster, install_rights


@pytest.fixture
def control_plane() -> Iterator[ControlPlane]:
    """A fresh cluster of one test's own: for tests that need it empty, or that change what is the cluster's as a
    whole."""
    with ControlPlane() as cluster:
        yield cluster


@pytest.fixture(scope="package")
def running_control_plane() -> Iterator[ControlPlane]:
    """The one cluster of a folder. The scheduler's configuration stays what the last test made it."""
    with ControlPlane() as cluster:
        yield cluster


@pytest.fixture
def shared_control_plane(running_control_plane: ControlPlane) -> Iterator[ControlPlane]:
    """The cluster of the folder, emptied afterwards."""
    yield running_control_plane
    clean_cluster(running_control_plane)


@pytest.fixture(scope="package")
def installed(running_control_plane: ControlPlane) -> ControlPlane:
    """The cluster of the folder with gangplan's rights, and with the scheduler's ConfigMap followed."""
    install_rights(running_control_plane)
    running_control_plane.follow_scheduler_configmap("volcano-system", "volcano-scheduler-configmap")
    return running_control_plane


@pytest.fixture
def plane(installed: ControlPlane) -> Iterator[ControlPlane]:
    """The same, emptied afterwards."""
    yield installed
    clean_cluster(installed)
