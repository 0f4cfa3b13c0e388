"""Decisions on data, no IO: what differs, what may be deleted, which pod gets which node, who leaves."""
