"""Windlass: the client side. Importing this package imports nothing heavy."""

from windlass.base.packages import VERSION as __version__

__all__ = ["DETERMINED_VERSION", "LOG_FORMAT", "__version__"]

DETERMINED_VERSION = "0.38.1"
"""The release of the published client whose REST API Windlass speaks."""

LOG_FORMAT = "%(levelname)s: [%(process)s] %(name)s: %(message)s"
"""For `logging.basicConfig` in training code: the level comes first, so that task logs know it."""


def __getattr__(name: str) -> object:
    """`windlass.get_cluster_info` and `windlass.InvalidHP`, loaded when somebody asks for them."""
    if name in ("get_cluster_info", "InvalidHP"):
        from windlass import core

        return getattr(core, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
