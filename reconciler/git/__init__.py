"""Git: a bare clone of one branch, read as objects and never checked out."""
