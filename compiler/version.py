"""Which gangplan this is."""

from __future__ import annotations


def version() -> str:
    """As installed; "unknown" in a checkout that was never installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("gangplan")
    except PackageNotFoundError:
        return "unknown"
