"""The Kubernetes API: client, list and watch, lease, and the inventory that is kept in the cluster."""
