"""Tiny tasks and a CompressTrainer for each, that the tests of compression share."""

import copy
import functools

from course_lib.compression import CompressTrainer
from course_lib.data import convert_example, convert_qa_examples

import numpy as np
import paddlenlp.transformers as transformers
import training_runs as runs
from paddlenlp.data import DataCollatorForTokenClassification, DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments

CONFIG = {"num_attention_heads": 4, "intermediate_size": 32}


@functools.cache
def _trained():
    model, tokenizer = runs.model_and_tokenizer(1, **CONFIG, initializer_range=0.1)
    loader, _ = runs.loaders(tokenizer, 200)
    runs.fit(model, loader, epochs=4, learning_rate=3e-3, progress=False)
    return model, tokenizer


def trained():
    """A tiny classifier that has learnt its task, and its tokenizer."""
    model, tokenizer = _trained()
    return copy.deepcopy(model), tokenizer


def features(tokenizer, rows: int = 40, seed: int = 0) -> MapDataset:
    data = runs.dataset(rows, seed)
    examples = [convert_example(row, tokenizer, 32, return_dict=True) for row in data]
    return MapDataset(examples, label_list=data.label_list)


def token_task():
    """Characters, of which some are entities of two kinds."""
    _, tokenizer = trained()
    random = np.random.RandomState(0)
    rows = []
    for example in runs.dataset(40):
        ids = tokenizer(example["text"][:12])["input_ids"]
        labels = [-100, *random.randint(0, 5, len(ids) - 2).tolist(), -100]
        rows.append({"input_ids": ids, "token_type_ids": [0] * len(ids), "labels": labels})
    data = MapDataset(rows, label_list=["O", "B-PER", "I-PER", "B-LOC", "I-LOC"])
    model = transformers.ErnieForTokenClassification(small(tokenizer, num_labels=5))
    return model, tokenizer, data, DataCollatorForTokenClassification(tokenizer)


def answer_task(family="Bert"):
    """Questions with their answers, in windows."""
    _, tokenizer = trained()
    texts = [example["text"] for example in runs.dataset(20)]
    examples = [
        {"question": "今天", "context": text, "answers": [text[at:][:2]], "answer_starts": [at]}
        for at, text in zip([0, 1, 2, 3] * 5, texts, strict=True)
    ]
    data = MapDataset(convert_qa_examples(examples, tokenizer, 24, 8, 4))
    config = small(tokenizer, getattr(transformers, f"{family}Config"))
    model = getattr(transformers, f"{family}ForQuestionAnswering")(config)
    return model, tokenizer, data, DataCollatorWithPadding(tokenizer), examples


def small(tokenizer, kind=transformers.ErnieConfig, **config):
    runs.seed_everything(1)
    return kind(
        vocab_size=tokenizer.vocab_size,
        hidden_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=64,
        **config,
    )


def sequence_task(family="Electra"):
    _, words = trained()  # an export traces ELECTRA's head, too
    kind = getattr(transformers, f"{family}ForSequenceClassification")
    wide = {"embedding_size": 24} if family == "ErnieGram" else {}  # no projection behind them
    model = kind(small(words, kind.config_class, **wide))
    return model, words, features(words), DataCollatorWithPadding(words)


def compressor(directory, strategy="dynabert", task=None, **options) -> CompressTrainer:
    if task is None:
        model, tokenizer = trained()
        task = model, tokenizer, features(tokenizer), DataCollatorWithPadding(tokenizer)
    model, tokenizer, data, collator, *examples = task
    own = {
        name: options.pop(name)
        for name in ("model", "train_dataset", "eval_dataset", "criterion", "callbacks")
        if name in options
    }
    settings = {
        "strategy": strategy,
        "width_mult_list": ["1/2"],
        "algo_list": ["abs_max"],
        "batch_num_list": [2],
        "batch_size_list": [4],
        "max_steps": 3,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-3,
        "device": "cpu",
        "disable_tqdm": True,
        "report_to": [],
        **options,
    }
    own = {"model": model, "train_dataset": data, "eval_dataset": data, **own}
    if examples:
        own["eval_examples"] = examples[0]
    args = CompressionArguments(str(directory), **settings)
    return CompressTrainer(args=args, data_collator=collator, tokenizer=tokenizer, **own)
