"""One file per benchmark; each registers its cases when it is imported."""
