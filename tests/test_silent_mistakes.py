"""Mistakes that would give a wrong result without a word, and are refused by name."""

import course_lib  # noqa: F401
from course_lib.chapters.ch02 import write_official
from course_lib.chapters.ch20 import recall_at_k
from course_lib.cli import commands as cli
from course_lib.cli.shared import parse_arguments
from course_lib.compression import cut, reorder
from course_lib.data import LengthGroupedBatchSampler, convert_example, create_dataloader
from course_lib.data.batching import map_by_length
from course_lib.deploy.batcher import Limits
from course_lib.runtime import InputError, seed_everything
from course_lib.tasks.explain import lime, occlusion
from course_lib.tasks.hierarchical import Taxonomy, decode, report, tune
from course_lib.tasks.labels import FillWords, FocalLoss
from course_lib.tasks.search import (
    BiEncoder,
    CrossEncoder,
    SentenceIndex,
    encode,
    rerank,
    train_bi_encoder,
    train_cross_encoder,
)
from course_lib.tasks.tagging import (
    BackboneTagger,
    LacTagger,
    TermTree,
    entity_scores,
    match,
    predict_tags,
    train_tagger,
)
from course_lib.tasks.vocabulary import DictionaryEncoder, add_words, cutter, find_words
from course_lib.training import create_optimizer, evaluate, exact_match, fit
from course_lib.training.metrics import span_counts
from course_lib.training.pretraining import create_pretraining_dataloader
from course_lib.training.steps import train_steps

import hierarchical_task as task
import numpy as np
import paddle
import pytest
import tiny
import training_runs as runs
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments
from paddlenlp.transformers import ErnieConfig, ErnieForTokenClassification

# ---- training


@pytest.fixture(scope="module")
def parts():
    model, tokenizer = runs.model_and_tokenizer(num_hidden_layers=1)
    return model, *runs.loaders(tokenizer, 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs: is 0; expected a whole number of at least 1"),
        ({"epochs": 1.5}, "epochs: is 1.5"),
        ({"max_steps": 0}, "max_steps: is 0"),
        ({"keep_checkpoints": 0}, "keep_checkpoints: is 0"),
        ({"checkpoint_every": -1}, "checkpoint_every: is -1"),
        ({"early_stopping": 0}, "early_stopping: is 0"),
        ({"early_stopping": 1, "dev": False}, "early_stopping: has nothing to watch"),
        ({"monitor": "dev_f1"}, "monitor: is 'dev_f1'; expected one of dev_accuracy, dev_loss"),
        ({"warmup": 100.0}, "warmup: is 100.0; expected a share from 0 to 1, or steps"),
        ({"warmup": -0.1}, "warmup: is -0.1"),
        ({"warmup": -3}, "warmup: is -3"),
    ],
)
def test_settings_of_a_training(parts, settings, message):
    model, train, dev = parts
    dev = dev if settings.pop("dev", True) else None
    with pytest.raises(InputError, match=message):
        fit(model, train, dev, progress=False, **settings)


def frozen():
    layer = paddle.nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.stop_gradient = True
    return layer


FEATURES = [{"example": 0, "offset_mapping": [None, (0, 1), None]}]
LOGITS = np.zeros((1, 3))
SEQUENCES = [(np.arange(5), np.ones(5, bool))]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: create_optimizer(frozen(), 1e-3, 10), "Linear: has no parameter"),
        (lambda model: train_steps(frozen(), [], len, 1, 1e-3), "has no parameter that learns"),
        (lambda model: exact_match("", []), r"answers: is \[\]"),
        (lambda model: span_counts([[1]], [[1, 2, 2]], ["PER"]), "1 labels and 3 predictions"),
        (
            lambda model: create_pretraining_dataloader(SEQUENCES, None, mask_rate=0),
            "mask_rate: is",
        ),
        (lambda model: create_pretraining_dataloader(SEQUENCES, None, mask_rate=1.5), "mask_rate"),
        (lambda model: create_pretraining_dataloader(SEQUENCES, None, mask_rate="x"), "mask_rate"),
        (lambda model: cut(model, [[0, -1]], [range(32)]), r"heads: are \[0, -1\]; expected"),
        (lambda model: cut(model, [[0, 2]], [range(32)]), "heads: are .* numbers from 0 to 1"),
        (lambda model: cut(model, [[0]], [[3, 3]]), r"neurons: are \[3, 3\]"),
        (lambda model: reorder(model, np.ones((1, 1)), np.ones((1, 32))), "heads: have an import"),
    ],
)
def test_values_that_make_no_sense(parts, call, message):
    with pytest.raises(ValueError, match=message):
        call(parts[0])


def test_scores_of_tokens_are_not_those_of_a_row():
    model = paddle.nn.Embedding(9, 3)  # scores [N, L, 3]
    with pytest.raises(ValueError):
        evaluate(model, [[paddle.zeros([2, 4], "int64"), paddle.to_tensor([5, 7])]])


# ---- search, tagging and explanations

PAIRS = [("房间", "干净"), ("太差", "服务")]
WRONG = [["电脑"], ["书"]]
FOUND = np.array([[0, 1, 2], [2, 1, 0]])
LABELS = ["O", "B-PER", "I-PER"]
ROWS = [{"tokens": ["很", "好"], "labels": [1, 2]}]


@pytest.fixture(scope="module")
def things():
    """What the mistakes are made with, by name."""
    model, tokenizer = tiny.classifier(tiny.TEXTS)
    seed_everything(1)
    config = ErnieConfig(vocab_size=len(tokenizer), num_labels=3, **tiny.CONFIG)
    named = ErnieForTokenClassification(config)
    tree = TermTree()
    tree.add("屏幕", "部件")
    return {
        "model": model,
        "tokenizer": tokenizer,
        "bi": BiEncoder(model, tokenizer),
        "cross": CrossEncoder(model, tokenizer),
        "named": named,
        "tagger": BackboneTagger(named, tokenizer, LABELS),
        "lac": LacTagger(),
        "tree": tree,
    }


def train_bi(bi, pairs=PAIRS, **settings):
    train_bi_encoder(bi, pairs, **settings)


def train_cross(cross, negatives):
    train_cross_encoder(cross, PAIRS, negatives)


SEARCH = {
    "kind": lambda: SentenceIndex(16, "tree"),
    "pairs: 0 in": lambda bi: train_bi(bi, []),
    "pairs: 1 in": lambda bi: train_bi(bi, PAIRS[:1]),
    "pairs: hold": lambda bi: train_bi(bi, ["很好", "太差"]),
    "epochs": lambda bi: train_bi(bi, epochs=0),
    "max_steps: is 0": lambda bi: train_bi(bi, max_steps=0),
    "max_steps: is -1": lambda bi: train_bi(bi, max_steps=-1),
    "batch_size: is -1": lambda bi: encode(bi, ["很好"], batch_size=-1),
    "negatives: is": lambda cross: train_cross(cross, ["电脑", "书房"]),
    "negatives: hold": lambda cross: train_cross(cross, [["电脑"], ["书", "房"]]),
    "queries": lambda cross: rerank(cross, "很好", ["太", "差"], FOUND[:, :2]),
    "counts: is 4": lambda: recall_at_k(FOUND, [0, 1], (1, 4)),
    "counts: is 0": lambda: recall_at_k(FOUND, [0, 1], (0,)),
    "right": lambda: recall_at_k(FOUND, [0], (1,)),
}
TAGGING = {
    "label_list": lambda named, tokenizer: BackboneTagger(named, tokenizer, ["O"], crf=False),
    "dataset: has": lambda tagger: train_tagger(tagger, MapDataset(ROWS, label_list=LABELS[::-1])),
    "dataset": lambda tagger: entity_scores(tagger, MapDataset(ROWS, label_list=LABELS[::-1])),
    "epochs: is 0": lambda tagger: train_tagger(tagger, ROWS, epochs=0),
    "max_steps: is 0": lambda tagger: train_tagger(tagger, ROWS, max_steps=0),
    "max_length: is 0": lambda tagger: train_tagger(tagger, ROWS, max_length=0),
    "sentences": lambda tagger: predict_tags(tagger, "很好"),
    "aliases": lambda tree: tree.add("电脑", "类别", aliases="本本"),
    "allowed: names": lambda tree: match(tree, [("屏幕", "n")], {"n": {"零件"}}),
    "allowed": lambda tree: match(tree, [("屏幕", "n")], {"n": "部件"}),
}
EXPLAIN = {
    "label: is -1": lambda model, tokenizer: occlusion(model, tokenizer, "很好", label=-1),
    "label: is 2": lambda model, tokenizer: lime(model, tokenizer, "很好", label=2),
}


@pytest.mark.parametrize(("told", "mistake"), [*SEARCH.items(), *TAGGING.items(), *EXPLAIN.items()])
def test_a_mistake_in_searching_tagging_or_explaining_is_told(told, mistake, things):
    names = mistake.__code__.co_varnames[: mistake.__code__.co_argcount]
    with pytest.raises(InputError, match=f"^{told}"):
        mistake(*(things[name] for name in names))


# ---- tasks: hierarchical, vocabulary, labels

TREE = task.TAXONOMY
HALF, FALSE = np.full((2, len(TREE)), 0.5), np.zeros((2, len(TREE)), bool)
WIDER, WIDER_FALSE = (np.pad(one, ((0, 0), (0, 1))) for one in (HALF, FALSE))
PAIR = paddle.zeros([4, 2]), paddle.zeros([4], "int64")
TASKS = [
    ("labels: are 'ab'", lambda: Taxonomy("ab")),
    ("thresholds: go from 1.5 to 1.5", lambda: decode(HALF, TREE, HALF[0] + 1)),
    ("thresholds: have the shape", lambda: decode(HALF, TREE, [0.5])),
    ("probabilities: have the shape", lambda: tune(WIDER, FALSE, TREE)),
    ("probabilities: go from nan to nan", lambda: decode(HALF * np.nan, TREE)),
    ("probabilities: go from 1.5 to 1.5", lambda: tune(HALF + 1, FALSE, TREE)),
    ("one_child: is on", lambda: decode(HALF, TREE, consistent=False, one_child=True)),
    ("one_child: is 4", lambda: decode(HALF, TREE, one_child=(4,))),
    ("matrix: is of bool with the shape", lambda: report(WIDER_FALSE, WIDER_FALSE, TREE)),
    ("matrix: is of float64", lambda: report(FALSE, HALF, TREE)),
    ("texts: is one text", lambda: find_words("房间很大")),
    ("words: is one text", lambda: cutter("房间")),
    ("by: is 'jeiba'; expected one of longest, jieba", lambda: cutter(["房间"], "jeiba")),
    ("vectors: is 'maen'", lambda: add_words(None, None, ["房间"], "maen")),
    ("words: is one text", lambda: add_words(None, None, "房间")),
    ("rest: is 'jeiba'", lambda: DictionaryEncoder(None, ["房间"], "jeiba")),
    ("words: is one text", lambda: DictionaryEncoder(None, "房间")),
    ("weight: has the shape", lambda: FocalLoss(2, [1.0, 2.0, 3.0])(*PAIR)),
    ("gamma: is -1", lambda: FocalLoss(-1)),
    ("rate: is 15; expected a share from 0 to 1", lambda: FillWords(1, 2, rate=15)),
    ("rate: is nan", lambda: FillWords(1, 2, rate=float("nan"))),
]


@pytest.mark.parametrize(("words", "call"), TASKS)
def test_tasks(words, call):
    with pytest.raises(InputError, match=words):
        call()


# ---- data, deploy and the command line

TEXT, SCORED = {"text": "好", "label": 0.8}, {"sentence1": "好", "sentence2": "坏", "label": 0.8}
TAGGED = {"tokens": ["好"], "labels": [-1]}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: map_by_length(list, ["a"], -1), "batch_size: is -1"),
        (lambda t: LengthGroupedBatchSampler([3, 4], 2, pool_batches=-1), "pool_batches: is -1"),
        (lambda t: create_dataloader([TEXT], t, max_tokens=64), "max_tokens: is 64 with batching"),
        (lambda t: create_dataloader([TEXT], t, batching="tokens"), "max_tokens: is None with"),
        (lambda t: convert_example(TEXT, t), "label: is 0.8; expected a whole number"),
        (lambda t: convert_example(SCORED, t), "label: is 0.8; expected a whole number"),
        (lambda t: write_official("msra_ner", [TAGGED], "x", label_list=["O"]), "the label -1"),
        (lambda t: write_official("lcqmc", [SCORED], "x", "valid"), "name, split: are"),
        (lambda t: Limits(queue=3), "queue: is 3; expected at least max_texts, 64"),
    ],
)
def test_arguments_that_make_no_sense(tokenizer, call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        call(tokenizer)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", [["--learning_rate=1e-4"], ["--learning_rate", "1e-4"]])
def test_a_flag_is_given_in_either_form(form, tmp_path, capsys):
    words = [*form, "--output_dir", str(tmp_path), "--model_name_or_path", "x"]
    ours, theirs = parse_arguments(words, cli.COMPRESS, "compress", lambda: CompressionArguments)
    trainer = theirs()
    assert trainer.learning_rate == 1e-4 and {"--learning_rate", "--output_dir"} <= ours.given
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(
        '{"architectures": ["AForSequenceClassification"], "id2label": {"0": "a"}}'
    )
    words = ["--device=abacus", f"--model_name_or_path={tmp_path / 'model'}"]
    assert cli.main(["compress", *words, f"--output_dir={tmp_path / 'out'}"]) == 2
    assert "abacus" in capsys.readouterr().err
