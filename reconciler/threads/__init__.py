"""Heartbeats, wakes and rests of the loop, and memoization."""
