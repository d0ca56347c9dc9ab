"""The package's version, which manifests and reports state."""

__version__ = "0.1.0"
