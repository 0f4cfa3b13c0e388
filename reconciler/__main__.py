"""`python -m reconciler` is the `gangplan` command."""

from reconciler.cli import main

if __name__ == "__main__":
    main()
