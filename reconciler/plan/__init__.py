"""The plan in force: what the child that compiles gives back, kept on disk and in the cluster."""
