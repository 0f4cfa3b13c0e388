"""`gangplan report`: the plan as one HTML page that opens from disk (docs/reference/report.md)."""
