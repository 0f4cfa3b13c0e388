"""Checks: rules inside and across objects, one function each, in a table (`compiler.checks.check`)."""
