"""Versions of this package and of other packages, which manifests and reports state."""

from importlib import metadata

__version__ = "0.1.0"


def package_version(name: str) -> str:
    """Version of an installed distribution; ``absent`` for a library that runs from its sources."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
