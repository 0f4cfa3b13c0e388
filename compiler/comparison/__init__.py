"""Two revisions of a repository compared (`compiler.comparison.compare`)."""
