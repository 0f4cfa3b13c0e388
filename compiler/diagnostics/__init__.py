"""Findings on files, and how they are rendered (`compiler.diagnostics.diagnostic`)."""
