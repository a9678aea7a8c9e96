"""The two stacks that the course runs on, and all that differs between them.

Paddle 2.6 and Paddle 3 run the same code. No other module asks for a version: what one of the two
calls by another name, needs before it loads, or lacks is here.
"""

import importlib.metadata
import os
import sys


def paddle_version() -> str:
    """Return which paddle is installed, without importing it; empty where there is none."""
    for name in ("paddlepaddle", "paddlepaddle-gpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


PADDLE_3 = paddle_version().startswith("3.")

# The fusion that would keep attention's products out of INT8, see `deploy.paddle_engine`.
SUM_FUSION = f"matmul_elementwise_add_{'onednn' if PADDLE_3 else 'mkldnn'}_fuse_pass"

# What Paddle 3.2 and 3.3 compute in C++ alone: the operator of a static program, its inputs, and the
# other arguments in order, each with the operator's name for it and its default.
_POINTWISE = "abs ceil cos erf exp floor log round rsqrt sigmoid sign sin sqrt tanh"
_OPERATORS: dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, object]]]] = {
    **{name: (name, ("x",), {}) for name in _POINTWISE.split()},
    "gelu": ("gelu", ("x",), {"approximate": ("approximate", False)}),
    "multiply": ("elementwise_mul", ("x", "y"), {}),
    "maximum": ("elementwise_max", ("x", "y"), {}),
    "minimum": ("elementwise_min", ("x", "y"), {}),
    "matmul": (
        "matmul_v2",
        ("x", "y"),
        {"transpose_x": ("trans_x", False), "transpose_y": ("trans_y", False)},
    ),
}

_restored: list[bool] = []


def before_paddle() -> None:
    """Set what Paddle 3 reads while it loads: static programs in the format of Paddle 2.6.

    Both stacks read and quantize that format (.pdmodel). What Paddle 3 writes by itself (.json) is
    known to neither Paddle 2.6 nor its own PostTrainingQuantization.
    """
    if PADDLE_3:
        os.environ.setdefault("FLAGS_enable_pir_api", "0")


def restore_operators() -> None:
    """Let Paddle 3 write these operators into a static program of the format of 2.6.

    From 3.2 on their functions take tensors and values of the new format only: "argument (position
    1) must be Value, but got Variable" is how a model's export would end.
    """
    if not PADDLE_3 or _restored:
        return
    _restored.append(True)
    import paddle
    from paddle.tensor.layer_function_generator import generate_layer_fn

    def restored(upstream, operator, inputs, options):
        write = generate_layer_fn(operator)

        def call(*args, **kwargs):
            if paddle.in_dynamic_mode():
                return upstream(*args, **kwargs)
            given = {**dict(zip((*inputs, *options), args)), **kwargs}
            others = {other: given.get(key, default) for key, (other, default) in options.items()}
            return write(**{key: given[key] for key in inputs}, **others)

        return call

    for name, description in _OPERATORS.items():
        upstream = getattr(paddle._C_ops, name)
        call = restored(upstream, *description)
        setattr(paddle.static.Variable, name, call)
        for module in [each for key, each in sys.modules.items() if key.startswith("paddle.")]:
            if vars(module).get(name) is upstream:
                setattr(module, name, call)
