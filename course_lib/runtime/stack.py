"""The two stacks that the course runs on, and all that differs between them.

No other module asks for a version: what one Paddle names otherwise, needs before it loads, or lacks
is here.
"""

import functools
import importlib.metadata
import os
import sys
import warnings


def version(name: str) -> str:
    """Return which version of a package is installed, without importing it; empty for none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


_GPU = bool(version("paddlepaddle-gpu"))
VERSION = version("paddlepaddle-gpu") or version("paddlepaddle")
PADDLE_3 = VERSION.startswith("3.")
LOCK = ("gpu-paddle3" if _GPU else "cpu-paddle3") if PADDLE_3 else "gpu-cu118" if _GPU else "cpu"

# What the owner of a GPU is told. The wheel of 2.6 has code for these capabilities and no PTX (8.9,
# Ada, runs the code for 8.6); what a build of 3 has depends on its index: there only a try tells.
INSTALL_3 = "`make LOCK=gpu-paddle3 PADDLE_INDEX=... env`, as docs/gpu.md shows"
if PADDLE_3:
    OLDEST, NEWEST, CUDA, INSTALL_GPU = (0, 0), (99, 9), "this Paddle's CUDA", INSTALL_3
    DRIVER = "a driver for the CUDA of that build"
else:
    OLDEST, NEWEST, CUDA, INSTALL_GPU = (6, 1), (8, 9), "CUDA 11.8", "`make LOCK=gpu-cu118 env`"
    DRIVER = "driver 450.80 or later, 520 at best"  # NVIDIA's least for CUDA 11; 11.8 has 520

# The fusion that would keep attention's products out of INT8, see `deploy.paddle_engine`.
SUM_FUSION = f"matmul_elementwise_add_{'onednn' if PADDLE_3 else 'mkldnn'}_fuse_pass"

# What Paddle 3.2 and 3.3 compute in C++ alone: names, the operator of a static program, its inputs,
# and the names of the other arguments with the operator's names for them.
_OPERATORS = """
abs ceil cos erf exp expm1 floor log log1p log2 round rsqrt sigmoid sign sin sqrt tanh: {} x
acos acosh asin atanh cosh log10 sinh logical_not: {} x
bmm dot greater_than logical_and logical_or logical_xor: {} xy
isfinite isinf isnan: {}_v2 x
gelu: gelu x approximate=approximate
softplus: softplus x beta=beta threshold=threshold
multiply maximum minimum: elementwise_{:.3} xy
matmul: matmul_v2 xy transpose_x=trans_x transpose_y=trans_y
expand_as: expand_as_v2 xy
tril triu: tril_triu x diagonal=diagonal
sum: reduce_sum x axis=dim dtype= keepdim=keep_dim
all any amax amin: reduce_{} x axis=dim keepdim=keep_dim
logsumexp: logsumexp x axis=axis keepdim=keepdim
argmax argmin: arg_{1} x axis=axis keepdim=keepdims dtype=
"""
_PIR = "FLAGS_enable_pir_api"


def before_paddle() -> None:
    """Have Paddle 3 write programs in the format of 2.6, which both stacks run and quantize."""
    if PADDLE_3:
        os.environ.setdefault(_PIR, "0")
        warnings.filterwarnings("ignore", message="No ccache found")  # each import of Paddle 3


def described() -> tuple[str, str]:
    """Return which stack this process runs on and why, and what is wrong with it, if anything."""
    about = f"Paddle {VERSION} for {'GPUs' if _GPU else 'CPUs'}, which this environment holds: "
    if not VERSION.startswith(("2.6.", "3.")):
        return about, f"Paddle {VERSION or 'is missing'}: the course is tested on 2.6 and 3"
    if PADDLE_3 and os.environ.get(_PIR) != "0":
        return about, f"{_PIR} is on: exports would be in a format that Paddle 3 alone knows"
    return about + ("the stack for newer cards" if PADDLE_3 else "the course's default"), ""


@functools.cache
def restore_operators() -> None:
    """Let Paddle 3 write `_OPERATORS` into a static program of the format of 2.6.

    From 3.2 on, their functions take what belongs to the new format only: an export would end with
    "argument (position 1) must be Value, but got Variable".
    """
    if not PADDLE_3:
        return
    import numpy as np
    import paddle
    from paddle.tensor.layer_function_generator import generate_layer_fn

    def restored(upstream, operator, inputs, *options):
        write, names = generate_layer_fn(operator), dict(each.split("=") for each in options)

        @paddle.jit.not_to_static
        def call(*args, **kwargs):
            if paddle.in_dynamic_mode():
                return upstream(*args, **kwargs)
            given = {**dict(zip((*inputs, *names), args, strict=False)), **kwargs}
            given = {key: value for key, value in given.items() if value is not None}
            tensors, axes = [given[key] for key in inputs], np.ravel(given.get("axis", [])).tolist()
            attributes = {names[key]: given[key] for key in given if names.get(key)}
            if "axis" in names:
                attributes[names["axis"]] = (axes or [0])[0] if "arg_" in operator else axes
            found = write(  # an operator leaves out what it does not know
                *tensors, **attributes, flatten=not axes, reduce_all=not axes,
                lower=upstream.__name__ == "tril", target_shape=tensors[-1].shape,
            )  # fmt: skip
            return found.astype(given["dtype"]) if "dtype" in given else found

        return call

    rows = [line.partition(": ") for line in _OPERATORS.strip().splitlines()]
    for name, form in [(name, form) for names, _, form in rows for name in names.split()]:
        upstream = getattr(paddle._C_ops, name)
        call = restored(upstream, *form.format(name, name[3:]).split())
        setattr(paddle.static.Variable, name, call)
        for module in [each for key, each in sys.modules.items() if key.startswith("paddle.")]:
            if vars(module).get(name) is upstream:
                setattr(module, name, call)


@functools.cache
def correct_layers() -> None:
    """Replace what Paddle 3.3 computes wrongly, or cannot compute as 2.6 could."""
    if not PADDLE_3:
        return
    import paddle
    from paddle.nn import functional

    upstream, device = functional.cross_entropy, paddle.Tensor.device.fget

    def cross_entropy(
        input, label, weight=None, ignore_index=-100, reduction="mean", soft_label=False, **options
    ):
        mean = reduction == "mean" and weight is None and not soft_label
        reduction = "none" if mean else reduction
        loss = upstream(input, label, weight, ignore_index, reduction, soft_label, **options)
        if not mean:
            return loss
        count = (label != ignore_index).sum().clip(min=1).astype("float32")
        return (loss.astype("float32").sum() / count).astype(loss.dtype)

    def normalize(x, p=2, axis=1, epsilon=1e-12, name=None):
        return x / x.norm(p, axis, keepdim=True).clip(epsilon)

    def ordered(init, names):
        return lambda self, *a, **named: init(self, **dict(zip(names, a, strict=False)), **named)

    functional.cross_entropy = cross_entropy  # Paddle's own counts the labels that it ignores, too
    functional.normalize = normalize  # Paddle's own reads a variable that it never set
    # An export reads it of every tensor, and an LSTM's dropout state has none: Paddle's own raises.
    paddle.Tensor.device = property(lambda self: device(self) if self._is_initialized() else None)
    for layer, names in (  # PaddleSlim gives their arguments in the order of 2.6
        (paddle.nn.Embedding, "num_embeddings embedding_dim padding_idx sparse weight_attr name"),
        (paddle.nn.LayerNorm, "normalized_shape epsilon weight_attr bias_attr name"),
    ):
        layer.__init__ = ordered(layer.__init__, names.split())
