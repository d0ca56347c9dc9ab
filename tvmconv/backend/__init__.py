"""tvmconv as a backend of ONNX, and its results in ONNX's backend tests.

The module has the functions of ``onnx.backend.base.Backend``::

    import tvmconv.backend

    tvmconv.backend.run_model(model, inputs)

``python -m tvmconv.backend`` runs the backend tests of the installed onnx and prints a table.
"""

from __future__ import annotations

from tvmconv.backend.interface import Prepared, TvmconvBackend

__all__ = [
    "Prepared",
    "TvmconvBackend",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

is_compatible = TvmconvBackend.is_compatible
prepare = TvmconvBackend.prepare
run_model = TvmconvBackend.run_model
run_node = TvmconvBackend.run_node
supports_device = TvmconvBackend.supports_device
