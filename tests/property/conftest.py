"""One hypothesis profile: the same examples on every run, and no deadline (speed is bench/'s matter)."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "gangplan",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
settings.load_profile("gangplan")
