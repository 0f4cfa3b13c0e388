from __future__ import annotations

import pytest

from tests.builders.pods import PodsWorld


@pytest.fixture
def world() -> PodsWorld:
    return PodsWorld()
