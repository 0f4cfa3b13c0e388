"""Volcano's scheduler as a policy of the replay: its cycles, actions and plugins, as far as they decide about jobs that
start whole. Paths in the sources are those of Volcano 1.15 below pkg/scheduler."""
