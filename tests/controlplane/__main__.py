"""python -m tests.controlplane build: build what is missing of the control plane and its operators. To try things on
one by hand: `gangplan sandbox up`."""

from __future__ import annotations

import argparse

from tests.controlplane.build import build
from tests.controlplane.helm import helm
from tests.controlplane.operators import build_operators

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.controlplane", description=__doc__)
    parser.add_argument("command", choices=["build"])
    parser.parse_args()
    print(build())
    build_operators()
    helm()
