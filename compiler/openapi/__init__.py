"""The schemas of kinds that others define (`compiler.openapi.schemas`)."""
