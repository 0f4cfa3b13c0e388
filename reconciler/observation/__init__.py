"""One observation of the cluster: objects, nodes, owners of pods, and the informers behind it."""
