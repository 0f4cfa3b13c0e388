"""A repository's files (`compiler.repository.tree`)."""
