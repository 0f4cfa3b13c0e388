"""The steps of a pass, over one reconciler and one observation (`reconciler.loop` puts them in order)."""
