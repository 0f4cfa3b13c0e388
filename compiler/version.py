"""The version of gangplan; pyproject.toml reads it from here, so that an installed copy and a checkout agree."""

VERSION = "0.1.0"
DOCS_URL = "https://OWNER.github.io/gangplan"
"""The address of the published documentation; OWNER represents the owner of the repository."""
ARCHIVED_COMMIT = "$Format:%H$"
"""The commit, in what `git archive` made of it (.gitattributes): a release and its wheel. Elsewhere as it is here."""
