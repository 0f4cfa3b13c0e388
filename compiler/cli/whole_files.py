"""Files that are replaced whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def replace_file(path: Path, pieces: Iterable[bytes], mode: int = 0o600) -> None:
    """Write the pieces, one behind the other, into a file next to it, and put that in its place. Raises OSError."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".gangplan-", delete=False) as made:
        try:
            for piece in pieces:
                made.write(piece)
            made.close()
            os.chmod(made.name, mode)
            os.replace(made.name, path)
        except BaseException:  # a full disk, or a user who interrupts it
            os.unlink(made.name)
            raise
