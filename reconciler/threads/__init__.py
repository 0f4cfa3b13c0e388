"""Heartbeats, wakes and rests of the loop, and tables that are trimmed."""
