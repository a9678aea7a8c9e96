"""The CPU kernels: right to 1e-5, random as they should be, and out of the way elsewhere."""

import os

from course_lib.models import blocks, kernels, load_backbone, patches
from course_lib.training.loop import create_optimizer
from course_lib.training.reproducibility import digest, seed_step

import numpy as np
import paddle
import processes
import pytest
from paddle.nn import functional as F
from scipy.special import erf

pytestmark = pytest.mark.skipif(paddle.get_device() != "cpu", reason="a GPU does not use them")
SHAPES = [(2, 3), (5, 7, 24), (1, 1, 8), (3, 50, 312), (700, 130)]


def numbers(shape, seed=0, trains=True) -> paddle.Tensor:
    array = np.random.default_rng(seed).standard_normal(shape).astype("float32")
    return paddle.to_tensor(array, stop_gradient=not trains)


def in_float64(*tensors) -> list[np.ndarray]:
    return [tensor.numpy().astype("float64") for tensor in tensors]


def close(actual, expected, tolerance=1e-5) -> None:
    actual, scale = np.asarray(actual), max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * scale)


def test_blocks_are_a_tensors_own_memory_and_fixed():
    tensor = numbers((3, 4))
    view = blocks.array(tensor.detach())
    expected = view.copy()
    turned = blocks.array(tensor.transpose([1, 0]))  # not in order: a copy
    np.testing.assert_array_equal(turned, expected.T)
    result, out = blocks.new([2, 2])
    out[:] = 7
    assert result.numpy().tolist() == [[7, 7], [7, 7]]
    parts = blocks.blocks(1000, 312)
    covered = [row for part in parts for row in range(1000)[part]]
    assert covered == list(range(1000)) and len(parts) == 5
    assert blocks.blocks(2, 1 << 20) == [slice(0, 1), slice(1, 2)]


@pytest.mark.parametrize("frozen", ["none", "scale", "shift", "both", "input"])
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm_and_its_gradients(shape, frozen):
    norm = paddle.nn.LayerNorm(shape[-1])
    norm.weight.set_value(numbers([shape[-1]], 1))
    norm.bias.set_value(numbers([shape[-1]], 2))
    norm.weight.stop_gradient = frozen in ("scale", "both")
    norm.bias.stop_gradient = frozen in ("shift", "both")
    x, direction = numbers(shape, 3, frozen != "input"), numbers(shape, 4, False)
    output = norm(x)
    (output * direction).sum().backward()

    values, scale, shift, grad = in_float64(x, norm.weight, norm.bias, direction)
    deviation = np.sqrt(values.var(-1, keepdims=True) + norm._epsilon)
    normal = (values - values.mean(-1, keepdims=True)) / deviation
    close(output, normal * scale + shift)
    inner = grad * scale
    along = (inner * normal).mean(-1, keepdims=True)
    slope = (inner - inner.mean(-1, keepdims=True) - normal * along) / deviation
    rows = tuple(range(len(shape) - 1))
    for tensor, expected in (
        (x, slope),
        (norm.weight, (grad * normal).sum(rows)),
        (norm.bias, grad.sum(rows)),
    ):
        if tensor.stop_gradient:
            assert tensor.grad is None
        else:
            close(tensor.grad, expected)


@pytest.mark.parametrize("shape", SHAPES)
def test_gelu_and_its_gradient(shape):
    x, direction = numbers(shape), numbers(shape, 1, False)
    scaled = x * 4
    output = F.gelu(scaled)
    (output * direction).sum().backward()
    values, grad = in_float64(scaled, direction)
    below = 0.5 * (1 + erf(values / 2**0.5))
    close(output, values * below)
    density = np.exp(-(values**2) / 2) / (2 * np.pi) ** 0.5
    close(x.grad, 4 * grad * (below + values * density))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("frozen", [False, True])
def test_linear_and_its_gradients(shape, frozen):
    x, direction = numbers(shape), numbers([*shape[:-1], 5], 1, False)
    layer = paddle.nn.Linear(shape[-1], 5)
    layer.bias.set_value(numbers([5], 2, False))
    layer.bias.stop_gradient = frozen
    output = layer(x)
    (output * direction).sum().backward()
    values, grad, weight, bias = in_float64(x, direction, layer.weight, layer.bias)
    close(output, values @ weight + bias)
    close(x.grad, grad @ weight.T)
    close(layer.weight.grad, values.reshape(-1, shape[-1]).T @ grad.reshape(-1, 5))
    if frozen:
        assert layer.bias.grad is None
    else:
        close(layer.bias.grad, grad.reshape(-1, 5).sum(0))


def attention64(layer, x, mask):
    """Multi-head attention in float64."""
    batch, length, width = x.shape
    size = width // layer.num_heads

    def heads(projection):
        weight, bias = in_float64(projection.weight, projection.bias)
        values = (x @ weight + bias).reshape(batch, length, -1, size)
        return values.transpose(0, 2, 1, 3)

    q, k, v = (heads(each) for each in (layer.q_proj, layer.k_proj, layer.v_proj))
    scores = q @ k.swapaxes(-1, -2) / size**0.5 + (0 if mask is None else mask)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    weight, bias = in_float64(layer.out_proj.weight, layer.out_proj.bias)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(batch, length, width) @ weight + bias


@pytest.mark.parametrize("masked", ["no", "padding", "pairs", "a whole row", "far apart"])
@pytest.mark.parametrize(("batch", "length", "heads", "size"), [(2, 5, 2, 4), (3, 60, 12, 26)])
def test_attention_and_its_gradients(batch, length, heads, size, masked):
    paddle.seed(0)
    layer = paddle.nn.MultiHeadAttention(heads * size, heads, 0.0)
    mask = None
    if masked != "no":
        random = np.random.default_rng(5)
        shape = (batch, heads, length, length) if masked == "pairs" else (batch, 1, 1, length)
        mask = np.where(random.random(shape) < 0.3, -1e4, 0.0).astype("float32")
        if masked == "a whole row":
            mask[0] = -1e4
        if masked == "far apart":
            mask = np.zeros((batch, 1, length, length), "float32")
            mask[:, :, 0] = -300  # the exponentials of this row vanish beside the others
    x, direction = numbers((batch, length, heads * size)), numbers((batch, length, heads * size), 1)
    given = None if mask is None else paddle.to_tensor(mask)
    tolerance = 2e-3 if masked == "a whole row" else 1e-5  # float32 around -1e4
    output = layer(x, attn_mask=given)
    close(output, attention64(layer, *in_float64(x), mask), tolerance)
    (output * direction.detach()).sum().backward()
    gradients = [tensor.grad.numpy() for tensor in (x, *layer.parameters())]
    for tensor in (x, *layer.parameters()):
        tensor.clear_gradient()
    theirs = kernels.upstream_attention(layer, x, attn_mask=given)
    (theirs * direction.detach()).sum().backward()
    for mine, tensor in zip(gradients, (x, *layer.parameters()), strict=True):
        close(mine, tensor.grad.numpy(), tolerance)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_its_rate_scales_and_derives_alike(rate):
    paddle.seed(1)
    x = paddle.full([1000, 700], 3.0)
    x.stop_gradient = False
    output = F.dropout(x, rate)
    output.sum().backward()
    kept = output.numpy() != 0
    assert abs(kept.mean() - (1 - rate)) < 4 * (rate * (1 - rate) / kept.size) ** 0.5 + 1e-5
    np.testing.assert_allclose(output.numpy()[kept], 3 / (1 - rate), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), output.numpy() / 3, rtol=1e-6)
    for axis in (0, 1):  # no rows or columns stand out, and neighbors are independent
        means = kept.mean(axis)
        assert abs(means - (1 - rate)).max() < 6 * (rate * (1 - rate) / kept.shape[axis]) ** 0.5
    flat = kept.reshape(-1) - kept.mean()
    assert abs((flat[1:] * flat[:-1]).mean()) < 5e-3


def test_dropout_depends_on_paddles_seed_and_on_nothing_else():
    x = numbers((300, 400))

    def masks(seed):
        paddle.seed(seed)
        return [F.dropout(x, 0.3).numpy() for _ in range(2)]

    first, second = masks(5)
    assert (first != second).any()
    np.random.seed(9)
    again = masks(5)
    np.testing.assert_array_equal(again, [first, second])
    assert (masks(6)[0] != first).any()


def test_attention_drops_weights_by_the_rate_and_derives_with_the_same_mask():
    layer = paddle.nn.MultiHeadAttention(8, 2, dropout=0.5)
    x, direction = numbers((2, 6, 8)), numbers((2, 6, 8), 1, False)

    def loss(values):
        paddle.seed(3)
        return (layer(values) * direction).sum()

    loss(x).backward()
    step = numbers(x.shape, 2, False) * 1e-2
    difference = float(loss(x.detach() + step) - loss(x.detach() - step)) / 2
    assert abs(difference - float((x.grad * step).sum())) < 1e-3
    layer.eval()
    assert (layer(x) == layer(x)).all()


@pytest.mark.parametrize("allowed", ["1", "3", "nonsense"])
def test_threads_do_not_change_the_bits(allowed, monkeypatch):
    def results():
        paddle.seed(0)
        x = numbers((40, 30, 312))
        norm, layer = paddle.nn.LayerNorm(312), paddle.nn.MultiHeadAttention(312, 12, 0.1)
        output = F.gelu(norm(F.dropout(layer(x), 0.1)))
        output.sum().backward()
        return [each.numpy() for each in (output, x.grad, norm.weight.grad, norm.bias.grad)]

    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    expected = results()
    monkeypatch.setenv("OMP_NUM_THREADS", allowed)
    for mine, theirs in zip(results(), expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_an_error_on_another_thread_is_raised(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    seen = []

    def work(number, item):
        seen.append(item)
        if item == "b":
            raise ValueError(number)

    with pytest.raises(ValueError, match="1"):
        blocks.share(work, ["a", "b", "c"])
    assert sorted(seen) == ["a", "b", "c"]


@pytest.fixture
def upstream_only(monkeypatch):
    """Where a kernel would compute, the test fails."""

    def refuse(*_):
        raise AssertionError("a kernel was used")

    for layer in (kernels._Pointwise, kernels._LayerNorm, kernels._Attention):
        monkeypatch.setattr(layer, "apply", refuse)


def layers(dtype="float32"):
    paddle.seed(0)
    mine = [paddle.nn.MultiHeadAttention(8, 2, 0.1), paddle.nn.LayerNorm(8)]
    return paddle.nn.Sequential(*mine, paddle.nn.GELU(), paddle.nn.Dropout(0.1)).to(dtype=dtype)


def test_others_than_float32_training_on_the_cpu_get_paddles_own(upstream_only):
    x = numbers((2, 3, 8))
    with pytest.raises(AssertionError, match="a kernel was used"):
        layers()(x)
    layers("float64")(x.astype("float64")).sum().backward()
    model = layers()
    model.eval()
    with paddle.no_grad():
        model(x)
    assert not kernels.trains(x[:0]) and not kernels.trains(None)
    F.dropout(x, 0.1, axis=1)
    F.dropout(x, 0.1, mode="downscale_in_infer")
    assert (F.dropout(x, 0.0) == x).all() and (F.dropout(x, 1.0) == 0).all()
    assert (F.dropout(x, 0.5, training=False) == x).all()
    F.gelu(x, approximate=True)
    paddle.nn.LayerNorm([3, 8])(x)
    paddle.nn.LayerNorm(8, bias_attr=False)(x)
    attention, other = paddle.nn.MultiHeadAttention(8, 2), numbers((2, 4, 8))
    attention(x, other, other)
    attention(x, cache=attention.gen_cache(x))
    attention.need_weights = True
    assert len(attention(x)) == 2


def test_static_graphs_and_exports_hold_paddles_operators(upstream_only, tmp_path):
    model = layers()
    model.eval()
    x = numbers((2, 3, 8), trains=False)
    with paddle.no_grad():
        expected = model(x).numpy()
    spec = [paddle.static.InputSpec([None, None, 8], "float32")]
    paddle.jit.save(paddle.jit.to_static(model, input_spec=spec), str(tmp_path / "model"))
    loaded = paddle.jit.load(str(tmp_path / "model"))
    kinds = {op.type for op in loaded.program().global_block().ops}
    assert {"softmax", "layer_norm", "gelu"} <= kinds and "py_layer" not in kinds
    np.testing.assert_allclose(loaded(x).numpy(), expected, atol=1e-6)


def test_paddle_grad_by_some_inputs_works_and_a_second_derivative_says_no():
    model, x = layers(), numbers((2, 3, 8))
    (by_x,) = paddle.grad(model(x).sum(), [x])
    (by_scale,) = paddle.grad(model(x).sum(), [model[1].weight])
    assert by_x.shape == x.shape and by_scale.shape == [8]
    with pytest.raises(OSError, match="COURSE_TUNING"):
        paddle.grad(F.gelu(x).sum(), [x], create_graph=True)


@pytest.mark.upstream
def test_paddle_grad_by_one_of_a_layers_inputs_still_fails_upstream():
    """When this fails, the kernels may take more than one tensor."""

    class Product(paddle.autograd.PyLayer):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, gradient):
            return gradient, gradient

    a, b = numbers((3,)), numbers((3,))
    with pytest.raises(ValueError, match="should return None"):
        paddle.grad(Product.apply(a, b).sum(), [a])


def train(steps: range):
    paddle.seed(0)
    np.random.seed(0)
    texts = ["很好", "不好", "房间很干净", "服务太差"]
    sizes = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 4}
    model = load_backbone("fresh", vocab_texts=texts, intermediate_size=48, **sizes)[0]
    model.train()
    optimizer, _ = create_optimizer(model, 1e-3, 100)
    losses = []
    for step in steps:
        seed_step(7, step)
        ids = paddle.randint(5, 12, [4, 9])
        loss = F.cross_entropy(model(ids), paddle.to_tensor([0, 1, 0, 1]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return digest(model), losses


def test_a_training_gives_the_same_bits_twice():
    first, losses = train(range(6))
    assert train(range(6)) == (first, losses)


def test_without_dropout_a_training_follows_paddles_own(monkeypatch):
    monkeypatch.setattr(F, "dropout", lambda x, *_, **__: x)
    monkeypatch.setattr(paddle.nn.MultiHeadAttention, "forward", without_dropout)
    _, losses = train(range(6))
    monkeypatch.setattr(paddle.nn.LayerNorm, "forward", patches.upstream_layer_norm)
    monkeypatch.setattr(paddle.nn.MultiHeadAttention, "forward", kernels.upstream_attention)
    monkeypatch.setattr(F, "gelu", kernels.upstream_gelu)
    monkeypatch.setattr(F, "linear", kernels.upstream_linear)
    _, theirs = train(range(6))
    np.testing.assert_allclose(losses, theirs, atol=1e-4)


def without_dropout(self, *arguments, **options):
    self.dropout = 0.0
    return kernels.attention(self, *arguments, **options)


@pytest.mark.parametrize(("value", "on"), [("1", True), ("zlib", False), ("zlib,kernels", True)])
def test_one_variable_switches_them_off(value, on):
    code = """
import course_lib.models
from course_lib.models import kernels, patches
from paddle.nn import LayerNorm, MultiHeadAttention, functional
print([functional.dropout is kernels.dropout, functional.gelu is kernels.gelu,
       MultiHeadAttention.forward is kernels.attention, functional.linear is kernels.linear,
       LayerNorm.forward is not patches._normalize_then_scale])
"""
    environment = {**os.environ, "COURSE_TUNING": value}
    done = processes.python("-c", code, env=environment)
    assert done.stdout.splitlines()[-1] == str([on] * 5), done.stderr


def test_recomputation_draws_the_same_masks():
    gradients = []
    for again in (False, True):
        paddle.seed(0)  # of the new head, too
        model = load_backbone(
            label_list=["a", "b"], hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1
        )[0]
        model.train()
        model.ernie.encoder.enable_recompute = again
        model(paddle.arange(10, 42).reshape([2, 16])).sum().backward()
        gradients.append(model.ernie.embeddings.word_embeddings.weight.grad.numpy())
    first, second = gradients
    assert np.abs(first - second).max() < 1e-5 * np.abs(first).max()


def test_a_process_that_has_rounded_in_evaluation_mode_ends():
    """Without `qat._release` it waits for ever, after its last line."""
    script = """
import course_lib.models
from course_lib.compression.qat import quantize_aware
import paddle
layers = [paddle.nn.Linear(8, 8), paddle.nn.LayerNorm(8), paddle.nn.Linear(8, 8)]
model = quantize_aware(paddle.nn.Sequential(*layers))
model.eval()
model(paddle.ones([2, 8])).sum()
print("ended")
"""
    done = processes.python("-c", script, timeout=120)
    assert done.returncode == 0 and done.stdout.strip().endswith("ended"), done.stderr
