"""Which resources a view leads with."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.fields.quantity import is_device

_PARTS_OF_CARDS = ("memory", "memory-percentage", "cores", "milli")


def scarce_resources(capacities: Mapping[str, float]) -> list[str]:
    """Return the scarce resources, largest total first, cards before parts of them: devices, or cpu if there are
    none."""
    devices = [name for name in filter(is_device, capacities) if capacities[name]]
    found = sorted(devices, key=lambda name: (name.endswith(_PARTS_OF_CARDS), -capacities[name]))
    return found or [name for name in capacities if name == "cpu"]
