"""The test bed: a real Kubernetes control plane with the real Volcano and kwok nodes, built from source and run on this
machine."""

from tests.controlplane.plane import CAPACITY, USERS, ControlPlane, NotSeenError
from tests.controlplane.rest import ApiError

__all__ = ["CAPACITY", "USERS", "ApiError", "ControlPlane", "NotSeenError"]
