"""Settings of every test: compiled programs are kept between runs, and shared with children."""

import os
from pathlib import Path

from hypothesis import settings

_CACHE = Path(__file__).parent.parent / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

settings.register_profile("replicax", deadline=None)  # machines are busy; pytest has time limits
settings.load_profile("replicax")
