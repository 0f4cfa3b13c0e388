"""`python -m bench.reconcile`: the reconciler's bars, measured on a real control plane."""
