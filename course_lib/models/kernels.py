"""Faster training on a CPU: paddle's slowest kernels as blocks of NumPy, on all allowed threads.

Paddle 2.6.2 runs dropout, softmax, GELU and the gradients of layer_norm and biases on one thread,
and often copies tensors. Here the same mathematics runs over blocks that fit into a processor's
cache. What is not float32 training on a CPU (a GPU, static graphs, export, `no_grad`, other types)
goes to the function that `course_lib.models.patches` has replaced.

The bits depend on the seed, not on threads: blocks have a fixed size, and sums over them a fixed
order. A dropout mask draws one number from paddle's generator, and from that a stream for each
block. Each PyLayer takes one tensor: `paddle.grad` by some of several fails in paddle 2.6.2.
"""

import math
from collections.abc import Sequence

from .blocks import array, blocks, f32, new, share, sums

import numpy as np
import paddle
from paddle.autograd import PyLayer
from paddle.nn import functional
from paddle.nn.layer.transformer import _convert_attention_mask

upstream_attention, upstream_linear = paddle.nn.MultiHeadAttention.forward, functional.linear
upstream_dropout, upstream_gelu = functional.dropout, functional.gelu


def runs(x) -> bool:
    """Say whether these kernels can compute with x: float32, on a CPU, in a dynamic graph."""
    tensor = paddle.in_dynamic_mode() and isinstance(x, paddle.Tensor)
    # not x.size: where Paddle has traced a model, it becomes x.size()
    return tensor and x.dtype == paddle.float32 and 0 not in x.shape and x.place.is_cpu_place()


def trains(x) -> bool:
    """Say whether these kernels will compute with x: they can, and there are gradients."""
    return paddle.is_grad_enabled() and runs(x)


def layer_norm(x: paddle.Tensor, scale, shift, epsilon: float) -> paddle.Tensor:
    """Normalize x over its last axis; scale and shift have that axis's length."""
    parts = paddle.concat([x.reshape([-1]), scale, shift])
    return _LayerNorm.apply(parts, x.shape, epsilon)


def dropout(x, p=0.5, axis=None, training=True, *more, **options):
    """As `functional.dropout`; also without gradients, for recomputation draws its masks so."""
    usual = axis is None and training and not more and not options.get("inplace")
    usual = usual and options.get("mode", "upscale_in_train") == "upscale_in_train"
    if not usual or not isinstance(p, (int, float)) or not 0 < p < 1 or not runs(x):
        return upstream_dropout(x, p, axis, training, *more, **options)
    factor, seed = f32(1 / (1 - p)), _seed()

    def block(number, values, out, slope):
        np.multiply(_kept(seed, number, values.shape, p), factor, out=slope)
        np.multiply(values, slope, out=out)

    return _Pointwise.apply(x, paddle.empty_like, block)


def gelu(x, approximate=False, name=None):
    """Instead of `paddle.nn.functional.gelu`."""
    if approximate or not trains(x):
        return upstream_gelu(x, approximate, name)

    def block(_, values, out, slope):
        np.multiply(values, values, out=slope)
        slope *= f32(-0.5)
        np.exp(slope, out=slope)
        slope *= values
        slope *= f32((2 * math.pi) ** -0.5)
        out *= f32(0.5)
        out += f32(0.5)
        slope += out
        out *= values

    return _Pointwise.apply(x, lambda x: paddle.erf(x * 0.5**0.5), block)


def linear(x, weight, bias=None, name=None):
    """As `functional.linear`; a bias gets its gradient from a matrix product, not paddle's sum."""
    if bias is None or not trains(x):
        return upstream_linear(x, weight, bias, name)
    return paddle.matmul(x, weight) + paddle.matmul(paddle.ones([*x.shape[:-1], 1]), bias[None])


def attention(self, query, key=None, value=None, attn_mask=None, cache=None):
    """Instead of `paddle.nn.MultiHeadAttention.forward`."""
    own = all(each is None or each is query for each in (key, value))
    usual = own and cache is None and not self.need_weights and query.ndim == 3
    usual = usual and (trains(query) or (self.training and self.dropout > 0 and runs(query)))
    mask = None if not usual else _convert_attention_mask(attn_mask, query.dtype)
    if not usual or not (mask is None or (mask.stop_gradient and mask.dtype == query.dtype)):
        return upstream_attention(self, query, key, value, attn_mask, cache)
    parts = paddle.concat([self.q_proj(query), self.k_proj(query), self.v_proj(query)])
    rate, added = self.dropout if self.training else 0.0, None if mask is None else array(mask)
    return self.out_proj(_Attention.apply(parts, added, self.num_heads, self.head_dim**-0.5, rate))


def _seed() -> int:
    return int(paddle.randint(0, 2**31 - 1, [1]))


def _kept(seed: int, number: int, shape: Sequence[int], rate: float) -> np.ndarray:
    """Which numbers of a block dropout keeps."""
    count = math.prod(shape)
    stream = np.random.Generator(np.random.SFC64([seed, number]))
    bits = stream.integers(0, 2**64 - 1, -(-count // 4), np.uint64, endpoint=True)
    return (bits.view(np.uint16)[:count] >= round(rate * 2**16)).reshape(shape)


def _save(ctx, x: paddle.Tensor, *tensors: paddle.Tensor) -> None:
    """Keep tensors for the backward pass if x has one; `saved_tensors_hooks` see them."""
    ctx.save_for_backward(*(() if x.stop_gradient else tensors))


def _saved(ctx) -> tuple[paddle.Tensor, ...]:
    """What the forward pass kept, for a first derivative."""
    if not paddle.is_grad_enabled():
        return ctx.saved_tensor()
    raise RuntimeError("a second derivative needs a COURSE_TUNING without `kernels`")


class _Pointwise(PyLayer):
    """block(number, x, y, slope) computes y, which begins as start(x), and its derivative."""

    @staticmethod
    def forward(ctx, x, start, block):
        result, (kept, slopes) = start(x), new([x.size])
        values, out = array(x).reshape(-1), array(result).reshape(-1)
        share(lambda n, part: block(n, values[part], out[part], slopes[part]), blocks(x.size))
        _save(ctx, x, kept)
        return result

    @staticmethod
    def backward(ctx, gradient):
        (slopes,), (result, out) = map(array, _saved(ctx)), new(gradient.shape)
        grad, out, parts = array(gradient).reshape(-1), out.reshape(-1), blocks(len(slopes))
        share(lambda _, part: np.multiply(grad[part], slopes[part], out=out[part]), parts)
        return result


class _LayerNorm(PyLayer):
    """Of the numbers to normalize, followed by scale and shift."""

    @staticmethod
    def forward(ctx, parts, shape, epsilon):
        (result, out), values, width = new(shape), array(parts), shape[-1]
        scale, shift = values[-2 * width :].reshape(2, width)
        values, out = values[: -2 * width].reshape(-1, width), out.reshape(-1, width)
        kept = [new(size) for size in (values.shape, [len(values), 1], [width])]
        normal, deviation, copied = (view for _, view in kept)
        copied[:] = scale

        def block(_, part):
            rows = normal[part]
            np.subtract(values[part], sums(values[part]) / f32(width), out=rows)
            deviation[part] = np.sqrt(sums(rows, rows) / f32(width) + f32(epsilon))
            rows /= deviation[part]
            np.multiply(rows, scale, out=out[part])
            out[part] += shift

        share(block, blocks(*values.shape))
        _save(ctx, parts, *(tensor for tensor, _ in kept))
        return result

    @staticmethod
    def backward(ctx, gradient):
        normal, deviation, scale = map(array, _saved(ctx))
        width, parts, size = len(scale), blocks(*normal.shape), normal.size
        grad, (result, flat) = array(gradient).reshape(-1, width), new([size + 2 * width])
        out, totals = flat[:size].reshape(-1, width), np.empty((len(parts), 2, width), f32)

        def block(number, part):
            rows, ys = out[part], normal[part]
            np.einsum("ij,ij->j", grad[part], ys, out=totals[number, 0])
            np.einsum("ij->j", grad[part], out=totals[number, 1])
            np.multiply(grad[part], scale, out=rows)
            along = sums(rows, ys) / f32(width)
            rows -= sums(rows) / f32(width)
            rows -= ys * along
            rows /= deviation[part]

        share(block, parts)
        flat[size:] = totals.sum(0).reshape(-1)
        return result


class _Attention(PyLayer):
    """Of queries, keys and values, one below the other: [3 * batch, length, heads * size]."""

    @staticmethod
    def forward(ctx, parts, mask, heads, scale, rate):
        q, k, v = (_split(part, heads) for part in np.split(array(parts), 3))
        scores = paddle.matmul(q, k, transpose_y=True)
        kept = paddle.empty_like(scores) if rate else scores
        weights, dropped, seed = array(scores), array(kept), _seed() if rate else 0
        added = None if mask is None else np.broadcast_to(mask, weights.shape)

        def block(number, place):
            rows = weights[place]
            rows *= scale
            if added is not None:
                rows += added[place]
            _softmax(rows)
            if rate:
                np.multiply(rows, f32(1 / (1 - rate)), out=dropped[place])
                dropped[place] *= _kept(seed, number, rows.shape, rate)

        share(block, _places(weights.shape))
        ctx.scale = scale
        _save(ctx, parts, q, k, v, scores, kept)
        result, out = new([len(q), *parts.shape[1:]])
        _join(paddle.matmul(kept, v), out)
        return result

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, scores, kept = _saved(ctx)
        grad = _split(array(gradient), q.shape[1])
        slopes = paddle.matmul(grad, v, transpose_y=True)
        weights, dropped, slope = array(scores), array(kept), array(slopes)

        def block(_, place):
            rows, ys = slope[place], weights[place]
            rows *= dropped[place]
            rows -= ys * sums(rows)
            rows *= ctx.scale

        share(block, _places(weights.shape))
        result, out = new([3 * len(q), *gradient.shape[1:]])
        dq, dk, dv = np.split(out, 3)
        _join(paddle.matmul(slopes, k), dq)
        _join(paddle.matmul(slopes, q, transpose_x=True), dk)
        _join(paddle.matmul(kept, grad, transpose_x=True), dv)
        return result


def _places(shape: Sequence[int]) -> list[tuple[int, slice]]:
    """Blocks of scores [batch, heads, length, length]."""
    parts = blocks(shape[1], shape[2] * shape[3])
    return [(row, part) for row in range(shape[0]) for part in parts]


def _softmax(rows: np.ndarray) -> None:
    """In place. A block's largest number is found faster than each row's, and serves as well,
    unless a row's numbers are so much smaller that their exponentials vanish."""
    before = rows - rows.max()
    np.exp(before, out=rows)
    if not (total := sums(rows)).min() > 1e-20:
        np.exp(before - before.max(-1, keepdims=True), out=rows)
        total = sums(rows)
    rows *= f32(1) / total


def _split(values: np.ndarray, heads: int) -> paddle.Tensor:
    """[batch, length, heads * size] to [batch, heads, length, size]."""
    values = values.reshape(*values.shape[:2], heads, -1).transpose(0, 2, 1, 3)
    result, out = new(values.shape)
    share(lambda _, row: np.copyto(out[row], values[row]), range(len(out)))
    return result


def _join(tensor: paddle.Tensor, out: np.ndarray) -> None:
    """The reverse of `_split`, written to `out`."""
    values = array(tensor).transpose(0, 2, 1, 3)
    out = out.reshape(values.shape)
    share(lambda _, row: np.copyto(out[row], values[row]), range(len(out)))
