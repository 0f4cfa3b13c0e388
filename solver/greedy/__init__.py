"""The greedy: topology-aware best fit, pod by pod under pod rules, and least fragmentation."""
