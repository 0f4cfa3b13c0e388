"""Faults between the reconciler and the world: schedules of them on a real control plane, and what holds at rest."""
