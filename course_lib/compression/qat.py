"""Quantization-aware training (QAT), and its result as an INT8 model.

PaddleSlim puts rounding into the model's matrix products (`QAT`), and the model is trained a little
more, so that its weights settle where rounding does little harm. Gradients pass through the
rounding as if it were not there (Bengio et al. 2013, arXiv:1308.3432).

What PaddleSlim writes for inference runs slower than what static quantization writes, because only
the inputs of matrix products have scales in it, and everything between them is computed in FP32.
So here the trained weights and scales go into a program as `quantize_static` writes it.
"""

import atexit
import copy
import os
import tempfile
from pathlib import Path

from ..deploy.export import export_model
from ..runtime import InputError
from ..runtime.errors import real
from ..training.loop import check_trainable
from .program import load_program, static_mode
from .static import check_options, quantize_static

import paddle
from paddle.nn.quant.quant_layers import FakeQuantMovingAverageAbsMax, QuantizedLinear
from paddleslim import QAT


def quantize_aware(
    model: paddle.nn.Layer,
    *,
    weight_quantize_type: str = "channel_wise_abs_max",
    activation_quantize_type: str = "moving_average_abs_max",
    use_pact: bool = False,
    moving_rate: float = 0.9,
) -> paddle.nn.Layer:
    """Copy a fine-tuned model, with Linear layers that round their weights and inputs to 8 bits.

    The copy has the model's class, inputs and outputs. Train it with any Trainer, at about a tenth
    of the learning rate, and give it to `export_quantized`.

    Args:
        weight_quantize_type: one scale per output, or one for the whole matrix ("abs_max").
        activation_quantize_type: where the scale of an input comes from: a moving average of each
            batch's largest value; "range_abs_max", the largest value so far; "abs_max", the batch's
            own (the scale of the exported model is then read off the calibration data). (Paddle
            itself knows the first only.)
        use_pact: also learn where to cut off large weights and inputs (PACT, Choi et al. 2018,
            arXiv:1805.06085).
        moving_rate: how much of the moving average each batch leaves, above 0 and below 1.

    Raises:
        InputError: an unknown type or a `moving_rate` out of its range; a model with all its
            parameters frozen.
    """
    kinds = {"moving_average_abs_max": None, "range_abs_max": _LargestSoFar, "abs_max": _Largest}
    check_options(
        weight_quantize_type=weight_quantize_type,
        activation_quantize_type=activation_quantize_type,
    )
    # PaddleSlim divides by 0 or lets scales grow without end
    real("moving_rate", moving_rate, lambda rate: 0 < rate < 1, "above 0 and below 1")
    check_trainable(model)
    quantized = copy.deepcopy(model)
    pact = "PACT" if use_pact else None
    quantizer = QAT(
        {
            "weight_preprocess_type": pact,
            "activation_preprocess_type": pact,
            "weight_quantize_type": weight_quantize_type,
            "activation_quantize_type": "moving_average_abs_max",
            "moving_rate": float(moving_rate),
            "quantizable_layer_type": ["Linear"],
        },
        act_quantize=kinds[activation_quantize_type],
    )
    # only inputs: PaddleSlim would also watch outputs, which changes nothing in training
    quantizer.imperative_qat._quantize_inputs.apply(quantized)
    atexit.unregister(_release)
    atexit.register(_release)
    return quantized


def _release() -> None:
    """Let go of the last graph, which would keep the process from ending.

    In evaluation mode paddle 2.6.2's rounding writes to one tensor of C++, which keeps the graph of
    the last pass until after Python has ended. A PyLayer in it (`course_lib.models.kernels`) then
    waits for Python for ever. A pass of one number puts another graph in its place.
    """
    rounding = FakeQuantMovingAverageAbsMax()
    rounding.eval()
    rounding(paddle.ones([1], "float32") * rounding.create_parameter([1]))


def export_quantized(
    model: paddle.nn.Layer,
    directory: str | os.PathLike,
    calibration,
    *,
    tokenizer=None,
    max_length: int | None = None,
    seed: int = 42,
) -> Path:
    """Write a model of `quantize_aware` as one that runs in INT8.

    The inputs of its Linear layers get the scales of its training. Those of attention and of the
    sums between the layers, which training does not round, are read off calibration data.

    Args:
        directory, tokenizer, max_length: as for `export_model`.
        calibration, seed: as for `quantize_static`, which reads 16 rows.

    Returns:
        The common path of the files, int8.

    Raises:
        InputError: the model is not one of `quantize_aware`, or has not been trained; as
            `export_model` and `quantize_static`.
    """
    plain, limits, per_channel = _without_rounding(model)
    with tempfile.TemporaryDirectory(prefix="qat-") as temporary:
        source = export_model(plain, temporary, tokenizer, max_length)
        with static_mode() as executor:
            program, _, _ = load_program(source, executor)
            activations: dict[str, float] = {}
            for operator in program.global_block().ops:
                if operator.type == "matmul_v2" and operator.input("Y")[0] in limits:
                    value, limit = operator.input("X")[0], limits[operator.input("Y")[0]]
                    # query, key and value read one tensor: its scale must suit them all
                    activations[value] = max(limit, activations.get(value, 0.0))
        return quantize_static(
            source,
            directory,
            calibration,
            algo="abs_max",
            batch_nums=4,
            weight_quantize_type="channel_wise_abs_max" if per_channel else "abs_max",
            seed=seed,
            name="int8",
            limits=activations,
        )


def _without_rounding(model: paddle.nn.Layer) -> tuple[paddle.nn.Layer, dict[str, float], bool]:
    """A plain copy, the limits of inputs by the names of weights, whether scales are by channel."""
    plain, limits, per_channel = copy.deepcopy(model), {}, True
    for parent in [plain, *plain.sublayers()]:
        for name, layer in list(parent.named_children()):
            if not isinstance(layer, QuantizedLinear):
                continue
            weight = layer.weight
            if layer._weight_preprocess is not None:
                weight.set_value(layer._weight_preprocess(weight))
            linear = paddle.nn.Linear(*weight.shape, bias_attr=layer.bias is not None and None)
            linear.weight.set_value(weight)
            if layer.bias is not None:
                linear.bias.set_value(layer.bias)
            setattr(parent, name, linear)
            scale = getattr(layer._fake_quant_input, "_scale", None)
            if scale is not None:
                limits[linear.weight.name] = float(scale)
            per_channel = "Channel" in type(layer._fake_quant_weight).__name__
    untouched = {0.0, float(paddle.to_tensor(0.001, "float32"))}
    if limits and set(limits.values()) <= untouched:  # INT8 scales of 0 would make it all zeros
        problem = "its scales are those it began with"
        raise InputError("model", problem, "one that has been trained after quantize_aware")
    return plain, limits, per_channel


class _Largest(paddle.nn.Layer):
    """Rounds to 8 bits by the largest value of the batch."""

    def forward(self, values: paddle.Tensor) -> paddle.Tensor:
        return _rounded(values, values.detach().abs().max())


class _LargestSoFar(paddle.nn.Layer):
    """Rounds to 8 bits by the largest value that training has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("_scale", paddle.zeros([1]))

    def forward(self, values: paddle.Tensor) -> paddle.Tensor:
        if self.training:
            self._scale.set_value(paddle.maximum(self._scale, values.detach().abs().max()))
        return _rounded(values, self._scale)


def _rounded(values: paddle.Tensor, limit: paddle.Tensor) -> paddle.Tensor:
    step = paddle.clip(limit, min=1e-8) / 127
    cut = paddle.minimum(paddle.maximum(values, -127 * step), 127 * step)
    return cut + (paddle.round(cut / step) * step - cut).detach()
