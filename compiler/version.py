"""Which gangplan this is; pyproject.toml reads it from here, so that an installed copy and a checkout say the same."""

VERSION = "0.1.0"
