"""`python -m bench`."""

from bench.cli import bench

if __name__ == "__main__":
    bench()
