"""Time: reservation and backfill, lending of dedicated domains."""
