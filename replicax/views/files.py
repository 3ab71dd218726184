"""Writing a view to a file: whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path | str, content: bytes) -> None:
    """Writes a file so that readers see the old content or the new, never a part of it."""
    path = Path(path)
    part = path.with_name(f".{path.name[:100]}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
