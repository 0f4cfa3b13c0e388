"""The objects that gangplan created, joined and ran, stored in the cluster."""
