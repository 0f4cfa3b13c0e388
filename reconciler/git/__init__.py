"""Git: a bare clone of one branch, read as objects and never checked out."""

import os

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
"""GitPython may be imported where there is no git; the first command then says so."""
