"""What tests of several parts begin with."""

from pathlib import Path

import pytest

from tests.builders.fake_cluster import FakeCluster
from tests.builders.git_source import Source


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source")
