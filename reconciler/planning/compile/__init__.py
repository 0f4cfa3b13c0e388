"""The compile: a child process with limits, a worker that is kept warm, and what both are given."""
