"""The hypothesis profiles. "sampled" and "deep" try the same examples on every run (`tests/builders/depth.py`),
"random" others each time (`scripts/hunt`)."""

import gc

import pytest
from hypothesis import HealthCheck, settings

from tests.builders.depth import is_deep

settings.register_profile(
    "deep",
    deadline=None,  # speed is bench/'s matter
    derandomize=True,
    database=None,
    max_examples=100,
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
settings.register_profile("sampled", settings.get_profile("deep"), max_examples=40)
settings.register_profile("random", settings.get_profile("deep"), derandomize=False)
settings.load_profile("sampled")  # until pytest reads --hypothesis-profile

gc.disable()  # until all is collected: what modules and tests are made of is hardly ever garbage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [] if is_deep() else [item for item in items if item.get_closest_marker("deep")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Modules and tests live to the end: the collector need not walk them again and again, a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)  # as in the processes of the product
    gc.enable()
