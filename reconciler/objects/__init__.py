"""Objects of the plan: applied, kept as planned, fought over."""
