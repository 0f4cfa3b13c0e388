"""Semantics as formulas: topology, gang sizes and classes, priorities, queue limits and shares, eviction rights, device
slots, placement cost."""
