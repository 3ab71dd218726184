"""Settings of every test: compiled programs are kept between runs, and shared with children."""

import os
from pathlib import Path

from hypothesis import settings

_CACHE = Path(__file__).parent.parent / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

settings.register_profile("replicax", deadline=None)  # machines are busy; pytest has time limits
settings.load_profile("replicax")


def _start_eight_devices():
    """The tests of replicas run on 8 CPU devices of this process, not of its children."""
    import jax

    from replicax.replicate.cpu_devices import ask_for_cpu_devices

    inherited = dict(os.environ)
    ask_for_cpu_devices(8)
    assert len(jax.devices()) == 8
    for name in set(os.environ) - set(inherited):
        del os.environ[name]


_start_eight_devices()
