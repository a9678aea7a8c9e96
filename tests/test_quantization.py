"""Static quantization, INT8 embeddings and quantization-aware training, on tiny models."""

import hashlib

from course_lib.chapters.ch06 import int8_operators
from course_lib.compression import (
    export_quantized,
    quantize_aware,
    quantize_embeddings,
    quantize_static,
)
from course_lib.compression.static import (
    ALGORITHMS,
    BINS,
    _best_limit,
    _kl_threshold,
    check_options,
)
from course_lib.deploy import Predictor, export_model
from course_lib.runtime import InputError, machine, seed_everything

import numpy as np
import paddle
import pytest
from paddle.static.quantization.cal_kl_threshold import cal_kl_threshold
from paddlenlp import transformers
from processes import python

WORDS, LENGTH = 120, 24
# Without VNNI, oneDNN adds pairs of INT8 products in 16 bits, which overflow in these models.
NEAR = 0.35 if machine.cpu().vnni else 0.6
MATRICES = 4 * (5 * 32 * 32 + 2 * 32 * 64 + 32 * 2) / 1e6  # megabytes in FP32


def make_model(kind="ErnieForSequenceClassification", **config):
    seed_everything(0)
    family = kind.partition("For")[0]
    settings = {
        "vocab_size": WORDS,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,  # with less, sums of tiny branches leave INT8 nothing to see
        **config,
    }
    model = getattr(transformers, kind)(getattr(transformers, f"{family}Config")(**settings))
    model.eval()
    return model


def make_features(count=24):
    random = np.random.RandomState(1)
    lengths = random.randint(5, LENGTH, count)
    return [{"input_ids": random.randint(1, WORDS, length).tolist()} for length in lengths]


def make_batch():
    """Rows of two lengths: padding has to be masked in INT8 too."""
    ids = np.random.RandomState(2).randint(1, WORDS, (8, 16))
    ids[4:, 9:] = 0
    return {"input_ids": ids}


def error(outputs, references):
    """Root mean square difference in standard deviations of the references."""
    pairs = zip(outputs, references, strict=True)
    return max(float(np.sqrt(((a - b) ** 2).mean()) / b.std()) for a, b in pairs)


def digest(path):
    files = [path.with_name(path.name + end) for end in (".pdmodel", ".pdiparams")]
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]


def megabytes(path):
    return path.with_name(path.name + ".pdiparams").stat().st_size / 1e6


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return export_model(make_model(), tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def reference(source):
    return Predictor(source).run(make_batch())


@pytest.fixture(scope="module")
def quantized(source, tmp_path_factory):
    target = tmp_path_factory.mktemp("quantized")
    return quantize_static(source, target, make_features(), algo="abs_max", batch_nums=2)


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_gives_int8_near_fp32(algo, source, reference, tmp_path):
    made = quantize_static(source, tmp_path, make_features(), algo=algo, batch_nums=2)
    predictor = Predictor(made)
    assert error(predictor.run(make_batch()), reference) < NEAR
    assert int8_operators(predictor)["fc"] == (8, 0)
    assert megabytes(source) - megabytes(made) > 0.55 * MATRICES


def test_padding_stays_masked_in_int8(quantized):
    """What stands beside a text must not change its answer, although the mask holds -10,000."""
    predictor = Predictor(quantized)
    ids = make_batch()["input_ids"][4:, :9]
    (short,) = predictor.run({"input_ids": ids})
    (padded,) = predictor.run({"input_ids": np.pad(ids, ((0, 0), (0, 7)))})
    assert np.abs(short - padded).max() < 0.05 * short.std()


def test_the_same_call_gives_the_same_files_in_any_process(source, quantized, tmp_path):
    again = quantize_static(source, tmp_path / "a", make_features(), algo="abs_max", batch_nums=2)
    assert digest(again) == digest(quantized)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_quantization import *\n"
        "options = {'algo': 'abs_max', 'batch_nums': 2}\n"
        "print(digest(quantize_static(sys.argv[2], sys.argv[3], make_features(), **options)))"
    )
    arguments = [__file__.rpartition("/")[0], str(source), str(tmp_path / "b")]
    child = python(
        "-c", code, *arguments, env={**machine.child_environment(), "PYTHONHASHSEED": "7"}
    )
    assert child.stdout.strip().splitlines()[-1] == str(digest(quantized))


def test_kl_is_paddles_without_its_loops():
    random = np.random.RandomState(0)
    for values in (random.randn(20000), random.standard_t(3, 20000), random.rand(20000) ** 4):
        counts, edges = np.histogram(np.abs(values), bins=512)
        width = edges[1] - edges[0]
        ours = _kl_threshold(counts, width)
        assert ours == pytest.approx(cal_kl_threshold(counts, width, 8), abs=1e-9)


def test_limits_by_histogram_are_those_of_all_values():
    values = np.random.RandomState(0).standard_t(4, 50000).astype("float32")
    largest = float(np.abs(values).max())
    places = ((values / largest + 1) * (BINS / 2)).astype(int)
    shares = np.bincount(np.minimum(places, BINS - 1), minlength=BINS) / len(values)
    limits = largest * np.linspace(0.3, 1, 36)
    rounded = [np.clip(np.round(values / x * 127), -128, 127) / 127 * x for x in limits]
    exact = limits[np.argmin([((row - values) ** 2).mean() for row in rounded])]
    found, loss = _best_limit(shares, largest, "mse")
    assert found == pytest.approx(exact, abs=0.021 * largest)
    assert loss == pytest.approx(min(((row - values) ** 2).mean() for row in rounded), rel=0.05)
    assert 0.3 * largest <= _best_limit(shares, largest, "emd")[0] <= largest


def test_options_that_paddle_obeys_change_the_file(source, quantized, reference, tmp_path):
    options = {"algo": "abs_max", "batch_nums": 2}
    whole = quantize_static(
        source, tmp_path / "w", make_features(), weight_quantize_type="abs_max", **options
    )
    assert megabytes(whole) < megabytes(quantized)
    assert error(Predictor(whole).run(make_batch()), reference) < NEAR


def test_ready_batches_and_a_loader_give_what_their_features_give(source, tmp_path):
    features = [{"input_ids": row} for row in make_batch()["input_ids"]]
    batches = [{"input_ids": make_batch()["input_ids"][start : start + 4]} for start in (0, 4)]
    loader = paddle.io.DataLoader(features, batch_size=4)
    made = [
        quantize_static(source, tmp_path / str(number), data, algo="abs_max", batch_nums=None)
        for number, data in enumerate((features, batches, loader))
    ]
    assert digest(made[0]) == digest(made[1]) == digest(made[2])


def test_embeddings_are_a_quarter_as_large(source, quantized, reference, tmp_path):
    table = WORDS * 32 * 4 / 1e6
    for path, bound in ((source, 0.05), (quantized, NEAR)):
        made = quantize_embeddings(path, tmp_path / "quant_emb")
        assert made == tmp_path / "quant_emb"
        assert megabytes(path) - megabytes(made) > 0.7 * table
        assert error(Predictor(made).run(make_batch()), reference) < bound
    assert int8_operators(Predictor(made))["fc"] == (8, 0)
    with pytest.raises(InputError, match="no embedding table in FP32"):
        quantize_embeddings(made, tmp_path / "again")


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ([], "calibration: is empty"),
        (paddle.io.TensorDataset([paddle.zeros([4, 8])]), "is a TensorDataset of tuple"),
        ([{"input_ids": [1.5]}], "input_ids holds float64; expected whole numbers"),
        ([{"input_ids": [1, 2], "token_type_ids": [0]}], r"token_type_ids has shape \[1, 1\]"),
        # these would end the process
        ([{"input_ids": [10**6]}], "input_ids holds 1000000; expected 0 to"),
        ([{"input_ids": [1] * 9999}], r"has shape \[1, 9999\]; expected at most 64 tokens"),
    ],
)
def test_calibration_data_that_do_not_fit_are_refused(calibration, message, source, tmp_path):
    with pytest.raises(InputError, match=message):
        quantize_static(source, tmp_path / "x", calibration)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("algo", ["abs_max", "hist"])
def test_weights_that_are_no_numbers_are_refused(algo, tmp_path):
    model = make_model()
    weight = model.ernie.encoder.layers[0].linear1.weight
    weight.set_value(weight / 0)  # INT8 has no NaN: the quantized model would answer anything
    source = export_model(model, tmp_path / "source")
    with pytest.raises(InputError, match=r"source.*infs or NaNs.*finite weights"):
        quantize_static(source, tmp_path / "x", make_features(), algo=algo)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algo": "min_max"}, "quantizes nothing"),
        ({"round_type": "adaround"}, "output is wrong"),
        ({"bias_correction": True}, "leaves it out"),
        ({"weight_quantize_type": "range_abs_max"}, "weight_quantize_type: is"),
    ],
)
def test_options_that_cannot_work_are_refused_with_the_reason(options, message):
    with pytest.raises(InputError, match=message):
        check_options(**options)


def train(model, steps=6):
    ids = paddle.to_tensor(make_batch()["input_ids"])
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())
    model.train()
    losses = []
    for _ in range(steps):
        outputs = model(ids)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        loss = sum(((output - 1) ** 2).mean() for output in outputs)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    model.eval()
    return losses


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ErnieForSequenceClassification", {}),
        ("BertForQuestionAnswering", {"activation_quantize_type": "range_abs_max"}),
        ("ErnieForTokenClassification", {"activation_quantize_type": "abs_max"}),
        ("BertForSequenceClassification", {"use_pact": True, "weight_quantize_type": "abs_max"}),
    ],
)
def test_quantization_aware_training(kind, options, tmp_path):
    model = make_model(kind)
    before = {name: value.numpy() for name, value in model.state_dict().items()}
    quantized = quantize_aware(model, **options)
    assert type(quantized) is type(model)
    losses = train(quantized)
    assert losses[-1] < 0.9 * losses[0]
    assert all((model.state_dict()[name].numpy() == value).all() for name, value in before.items())
    path = export_quantized(quantized, tmp_path, make_features())
    predictor = Predictor(path)
    expected = quantized(paddle.to_tensor(make_batch()["input_ids"]))
    expected = expected if isinstance(expected, tuple) else (expected,)
    outputs = predictor.run(make_batch())
    for one, other in zip(outputs, expected, strict=True):  # trained towards 1
        assert np.abs(one - other.numpy()).mean() < NEAR * np.abs(other.numpy()).mean()
    counts = int8_operators(predictor)["fc"]
    assert counts[0] >= 7 and counts[1] == 0


def test_what_cannot_be_trained_or_exported_is_refused(tmp_path):
    model = make_model()
    with pytest.raises(InputError, match="been trained"):
        export_quantized(quantize_aware(model), tmp_path, make_features())
    for parameter in model.parameters():
        parameter.stop_gradient = True
    with pytest.raises(InputError, match="no parameter that learns: all are frozen"):
        quantize_aware(model)
