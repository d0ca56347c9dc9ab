"""What is asked of onnxruntime's quantiser, and the model that it makes."""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx
from onnx import ModelProto, version_converter

from examples.quantise.images import Images
from tvmconv.core.errors import InputError, ModelError

_QUANTISED = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "QLinearConv"}
# DequantizeLinear of a scale for each channel came with opset 13
_LEAST_OPSET = 13

Byte = Literal["u8", "s8"]


@dataclass(frozen=True)
class Recipe:
    """How to quantise.

    Parameters
    ----------
    form
        ``qdq`` writes QuantizeLinear and DequantizeLinear around float operators, ``qoperator``
        QLinearConv and its like.
    activations, weights
        Unsigned or signed bytes. Activations have any zero point, signed weights 0.
    per_channel
        A scale for each output channel of a weight, or one for all.
    calibration
        Range of an activation: all that occurred (``minmax``), all but a few values
        (``percentile``), or the range that loses least information (``entropy``), which is all
        that occurred in onnxruntime 1.32, whose search has as many bins as steps. The last two
        keep every activation of every image in memory.
    percentile
        Share of the values in the range of ``percentile``, in percent.

    Raises
    ------
    InputError
        For unsigned weights beside signed activations, which onnxruntime does not write.
    """

    form: Literal["qdq", "qoperator"] = "qdq"
    activations: Byte = "u8"
    weights: Byte = "s8"
    per_channel: bool = True
    calibration: Literal["minmax", "entropy", "percentile"] = "minmax"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        if (self.activations, self.weights) == ("s8", "u8"):
            raise InputError("u8 weights beside s8 activations: onnxruntime has no such form")


@dataclass(frozen=True)
class ModelInput:
    """The one input of a model: its name, images of a batch, and shape of one of them."""

    name: str
    batch: int
    shape: tuple[int, ...]


def model_input(model: ModelProto) -> ModelInput:
    """The input that calibration images go to; a symbolic batch is taken as 1.

    Raises
    ------
    ModelError
        If the model has several inputs, or one that no image fits.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    if len(inputs) != 1:
        names = ", ".join(value.name for value in inputs) or "none"
        raise ModelError(f"one input is needed to calibrate by images; the model has {names}")
    (value,) = inputs
    tensor = value.type.tensor_type
    dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    fixed = [d for d in dims[1:] if d]
    if tensor.elem_type != onnx.TensorProto.FLOAT or len(dims) < 2 or len(fixed) < len(dims) - 1:
        raise ModelError(
            f"input {value.name!r} must be float32 of shape (batch, channels, ...) with fixed "
            f"sizes, not {tuple(d or '?' for d in dims)}; export the model with fixed sizes"
        )
    return ModelInput(value.name, dims[0] or 1, tuple(fixed))


def quantise(model: ModelProto, images: Images, recipe: Recipe | None = None) -> ModelProto:
    """An 8-bit model with the inputs and outputs of the float32 one.

    Parameters
    ----------
    model
        Batch normalisations are folded into convolutions first, as the quantiser advises.
    images
        Calibration images, shape (count, *shape of one).
    recipe
        How; by default QDQ form with unsigned activations and signed weights.

    Raises
    ------
    ModelError
        If the model is quantised already, takes more images in a batch than there are, or
        onnxruntime cannot run or quantise it.
    """
    recipe = recipe or Recipe()
    quantised = sorted({node.op_type for node in model.graph.node} & _QUANTISED)
    if quantised:
        raise ModelError(f"the model is quantised already: it has {quantised[0]}")
    given = model_input(model)
    batches = [
        images[i : i + given.batch] for i in range(0, len(images) - given.batch + 1, given.batch)
    ]
    if not batches:
        raise ModelError(
            f"{len(images)} calibration images are less than the model's batch of {given.batch}"
        )
    with tempfile.TemporaryDirectory(prefix="quantise-") as folder, _failures_told():
        return _quantise(model, given.name, batches, recipe, Path(folder))


def _quantise(
    model: ModelProto, name: str, batches: list[Images], recipe: Recipe, folder: Path
) -> ModelProto:
    # one wants the package, which is an extra, only here
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    version = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    if version < _LEAST_OPSET:
        model = version_converter.convert_version(model, _LEAST_OPSET)
    float_file, folded, result = (folder / f"{n}.onnx" for n in ("float", "folded", "8bit"))
    onnx.save(model, float_file)
    # sizes are fixed, so that ONNX's own inference of shapes is enough
    quant_pre_process(str(float_file), str(folded), skip_symbolic_shape=True)

    types = {"u8": q.QuantType.QUInt8, "s8": q.QuantType.QInt8}
    methods = {
        "minmax": q.CalibrationMethod.MinMax,
        "entropy": q.CalibrationMethod.Entropy,
        "percentile": q.CalibrationMethod.Percentile,
    }

    class Reader(q.CalibrationDataReader):
        def __init__(self) -> None:
            self.feeds: Iterator[dict[str, Images]] = iter([{name: batch} for batch in batches])

        def get_next(self) -> dict[str, Images] | None:
            return next(self.feeds, None)

    q.quantize_static(
        str(folded),
        str(result),
        Reader(),
        quant_format=q.QuantFormat.QDQ if recipe.form == "qdq" else q.QuantFormat.QOperator,
        per_channel=recipe.per_channel,
        activation_type=types[recipe.activations],
        weight_type=types[recipe.weights],
        calibrate_method=methods[recipe.calibration],
        extra_options={"CalibPercentile": recipe.percentile},
    )
    return onnx.load(result)


@contextlib.contextmanager
def _failures_told() -> Iterator[None]:
    """Onnxruntime's failures as one sentence, without the tables and traces that it prints."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    except ImportError as error:
        raise ModelError(
            f"onnxruntime is needed ({error}); install it: pip install 'tvmconv[peers]'"
        ) from None
    # onnxruntime's errors have no common base but this one
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ModelError(f"onnxruntime cannot quantise the model: {text}") from None
    finally:
        logging.disable(disabled)
