"""The loop, evaluation and prediction."""

from course_lib.notebook.visual_logs import read_scalars
from course_lib.runtime import InputError
from course_lib.training import create_optimizer, evaluate, fit, paired_bootstrap, predict
from course_lib.training.checkpoint import find_checkpoints
from course_lib.training.loop import seed_step
from course_lib.training.run import TAGS
from course_lib.training.steps import accumulate

import numpy as np
import paddle
import pandas as pd
import pytest
import training_runs as runs
from paddlenlp.data import Pad, Tuple


@pytest.fixture(scope="module")
def trained():
    return runs.train(epochs=3, train_size=240, learning_rate=1e-2)


def test_the_loop_learns(trained):
    _, history = trained
    assert history["dev_accuracy"][-1] > 0.9
    assert history["dev_loss"][-1] < history["dev_loss"][0]
    assert history["epoch"] == [1, 2, 3] and history["epoch_step"] == [30, 60, 90]
    assert history["step"] == list(range(1, 91)) and len(history["loss"]) == 90


def test_fit_does_what_the_plain_loop_does():
    model, history = runs.train(epochs=2)

    plain, tokenizer = runs.model_and_tokenizer()
    loader, _ = runs.loaders(tokenizer)
    optimizer, scheduler = create_optimizer(plain, 3e-3, 2 * len(loader))
    losses, step = [], 0
    for epoch in range(2):
        loader.batch_sampler.set_epoch(epoch)
        for input_ids, token_type_ids, labels in loader:
            seed_step(42, step)
            loss = paddle.nn.functional.cross_entropy(plain(input_ids, token_type_ids), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.clear_grad()
            losses.append(float(loss))
            step += 1
    assert losses == history["loss"]
    assert runs.weights_digest(plain) == runs.weights_digest(model)


def test_learning_rate_rises_and_falls_in_straight_lines():
    _, history = runs.train(epochs=5, learning_rate=1e-3)
    rates = history["learning_rate"]
    assert np.allclose(rates[:5], [0, 0.25e-3, 0.5e-3, 0.75e-3, 1e-3])
    assert np.allclose(np.diff(rates[4:]), -1e-3 / 36)


def test_biases_and_norms_are_not_decayed():
    model, _ = runs.model_and_tokenizer()
    before = {name: p.numpy().copy() for name, p in model.named_parameters()}
    optimizer, _ = create_optimizer(model, 0.1, 10, warmup=0, weight_decay=0.5)
    for parameter in model.parameters():
        (parameter.sum() * 0).backward()  # a gradient of zero: only the decay moves anything
    optimizer.step()
    for name, parameter in model.named_parameters():
        expected = before[name] * (1 if "bias" in name or "norm" in name else 1 - 0.1 * 0.5)
        np.testing.assert_allclose(parameter.numpy(), expected, rtol=1e-6, err_msg=name)


def test_predict_keeps_order_and_agrees_with_evaluate_and_with_one_text_at_a_time(trained):
    model, _ = trained
    _, tokenizer = runs.model_and_tokenizer()
    data = runs.dataset(21, seed=1)
    texts = [example["text"] for example in data]
    model.train()
    together = predict(model, texts, tokenizer, batch_size=4)
    assert model.training
    hits = [row["label"] == runs.LABELS[e["label"]] for row, e in zip(together, data, strict=True)]
    assert np.mean(hits) == evaluate(model, runs.loaders(tokenizer)[1])["accuracy"]
    assert model.training
    assert [answer["text"] for answer in together] == texts
    for text, answer in zip(texts, together, strict=True):
        (alone,) = predict(model, [{"text": text}], tokenizer)
        assert alone["label"] == answer["label"]
        assert alone["probability"] == pytest.approx(answer["probability"], abs=1e-5)
        assert set(answer["probabilities"]) == {"negative", "positive"}
        assert sum(answer["probabilities"].values()) == pytest.approx(1, abs=1e-5)
        assert answer["probability"] == max(answer["probabilities"].values())


def test_early_stopping_ends_with_the_best_weights():
    model, history = runs.train(epochs=8, early_stopping=2, learning_rate=2e-2)
    accuracies = history["dev_accuracy"]
    best = int(np.argmax(accuracies))
    assert len(accuracies) == min(8, best + 1 + 2)
    assert len(accuracies) < 8
    _, tokenizer = runs.model_and_tokenizer()
    scores = evaluate(model, runs.loaders(tokenizer)[1])
    assert scores == {"loss": history["dev_loss"][best], "accuracy": accuracies[best]}


def test_a_budget_of_tokens_gives_epochs_of_different_length():
    model, tokenizer = runs.model_and_tokenizer()
    loader, dev_loader = runs.loaders(tokenizer, batching="tokens", max_tokens=200)
    steps = [loader.batch_sampler.count(epoch) for epoch in range(6)]
    assert len(set(steps)) > 1
    history = fit(model, loader, dev_loader, epochs=6, learning_rate=3e-3, progress=False)
    assert np.diff([0, *history["epoch_step"]]).tolist() == steps
    rates = history["learning_rate"]
    assert len(rates) == sum(steps)
    # straight down to the last step of all epochs
    assert rates[-1] == pytest.approx(rates[-2] / 2) and rates[-1] > 0
    assert history["train_loss"][-1] < history["train_loss"][0]


@pytest.mark.parametrize("max_steps", [None, 1])  # the last step's loss is still a number
def test_a_run_that_diverges_stops_and_leaves_no_checkpoint(tmp_path, max_steps):
    settings = {"epochs": 2, "learning_rate": 1e39, "warmup": 0, "max_steps": max_steps}
    with pytest.raises(InputError, match=r"learning_rate: 1e.39 made .* at step .*a lower one"):
        runs.train(output_dir=tmp_path, checkpoint_every=1, **settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (["好", " \n"], "text 2"),
        (["好", "\u200b"], "text 2"),
        (["好", None], "text 2"),
        ("好", "^data: is one .*a list"),
        ({"text": "好"}, "^data: is one .*a list"),
    ],
)
def test_predict_wants_several_texts_and_none_empty(trained, data, message):
    _, tokenizer = runs.model_and_tokenizer()
    with pytest.raises(InputError, match=message):
        predict(trained[0], data, tokenizer)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_without_numbers_gives_no_figures(value):
    model, tokenizer = runs.model_and_tokenizer()
    model.classifier.bias.set_value(paddle.full([2], value))
    with pytest.raises(InputError, match=r"^model: its loss is "):
        evaluate(model, runs.loaders(tokenizer)[1])
    with pytest.raises(InputError, match=r"^model: its scores are "):
        predict(model, ["好"], tokenizer)


def test_progress_false_prints_nothing(capfd):
    runs.train(epochs=1, progress=False)
    assert capfd.readouterr() == ("", "")
    runs.train(epochs=1, progress=True)
    assert "step" in capfd.readouterr().err


def test_visualdl_shows_a_resumed_run_whole(tmp_path):
    _, whole = runs.train(
        epochs=2, output_dir=tmp_path, checkpoint_every=5, keep_checkpoints=9, log_dir=tmp_path
    )
    table = read_scalars(tmp_path).drop(columns="time")
    for tag, (steps, name) in TAGS.items():
        shown = table[table.tag == tag]
        assert shown.step.tolist() == whole[steps]
        np.testing.assert_allclose(shown.value, whole[name], rtol=1e-6)
    for path in find_checkpoints(tmp_path):  # steps 5, 8, 13 and, where nothing is left to do, 16
        again = {"resume": path, "log_dir": tmp_path / path.name / "logs"}
        assert runs.train(epochs=2, **again)[1] == whole
        resumed = read_scalars(again["log_dir"]).drop(columns="time")
        pd.testing.assert_frame_equal(
            resumed.sort_values(["tag", "step"], ignore_index=True),
            table.sort_values(["tag", "step"], ignore_index=True),
        )
        assert resumed.groupby("tag").step.apply(lambda steps: steps.is_monotonic_increasing).all()


class Tags(paddle.nn.Layer):
    """Scores [N, L, 3] of ids [N, L]."""

    def __init__(self) -> None:
        super().__init__()
        paddle.seed(0)
        self.embedding = paddle.nn.Embedding(20, 3)

    def forward(self, ids):
        return self.embedding(ids)


def test_labels_of_tokens_count_but_not_those_that_are_ignored():
    """By hand, in float64: batches of several sizes, with padding and special tokens at -100."""
    draw, model = np.random.RandomState(1), Tags()
    rows = [(draw.randint(0, 20, n), draw.randint(0, 3, n)) for n in (9, 7, 5, 4, 2)]
    for _, labels in rows:
        labels[[0, -1]] = -100
    pad = Tuple(Pad(pad_val=0), Pad(pad_val=-100, dtype="int64"))
    loader = paddle.io.DataLoader(rows, batch_size=2, collate_fn=pad, return_list=True)
    ids, labels = (np.concatenate(part)[np.concatenate([y for _, y in rows]) >= 0]
                   for part in zip(*rows, strict=True))  # fmt: skip
    scores = model.embedding.weight.numpy()[ids].astype("float64")
    losses = np.log(np.exp(scores).sum(1)) - scores[np.arange(len(ids)), labels]
    right = (scores.argmax(1) == labels).mean()
    assert evaluate(model, loader) == pytest.approx({"loss": losses.mean(), "accuracy": right})
    history = fit(model, loader, loader, learning_rate=1e-12, progress=False)
    for part in ("train", "dev"):
        assert history[f"{part}_loss"] == [pytest.approx(losses.mean())]
        assert history[f"{part}_accuracy"] == [pytest.approx(right)]

    # pieces of a batch, of which each has its own number of labels, give the batch's gradient
    (batch,) = paddle.io.DataLoader(rows, batch_size=5, collate_fn=pad, return_list=True)
    gradients = []
    for parts in (1, 2, 5):
        assert accumulate(model, batch, parts, None) == pytest.approx(losses.mean())
        gradients.append(model.embedding.weight.grad.numpy())
        model.clear_gradients()
    np.testing.assert_allclose(gradients[1:], [gradients[0]] * 2, atol=1e-6)


def test_paired_bootstrap():
    random = np.random.RandomState(0)
    second = random.rand(2000) < 0.7
    first = np.where(random.rand(2000) < 0.2, True, second)  # right more often: about 6 points
    result = paired_bootstrap(first, second)
    assert result["difference"] == pytest.approx(first.mean() - second.mean())
    assert 0.04 < result["low"] < result["difference"] < result["high"] < 0.08
    # the normal approximation of the same interval
    error = (first.astype(float) - second).std() / 2000**0.5
    assert result["high"] - result["low"] == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert paired_bootstrap(first, second) == result
    same = paired_bootstrap(second, second)
    assert same == {"difference": 0, "low": 0, "high": 0}
