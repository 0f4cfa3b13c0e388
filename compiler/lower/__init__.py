"""From specs to the solver's problem (`compiler.lower.lowering`)."""
