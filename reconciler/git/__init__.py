"""Git: a bare clone of one branch, read as objects and never checked out."""

import os

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
"""GitPython may be imported without git; the first command then reports it."""
