"""Which gangplan this is; pyproject.toml reads it from here, so that an installed copy and a checkout say the same."""

VERSION = "0.1.0"
DOCS_URL = "https://OWNER.github.io/gangplan"
"""Where the documentation is published; the owner of the repository stands in place of OWNER."""
ARCHIVED_COMMIT = "$Format:%H$"
"""The commit, in what `git archive` made of it (.gitattributes): a release and its wheel. Elsewhere as it is here."""
