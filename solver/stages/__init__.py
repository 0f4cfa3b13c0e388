"""The stages of one batch: admit (A) decides which gangs start, spread (B) which domains they use, pack (C) which nodes; then grow."""
