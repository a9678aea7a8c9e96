"""The peers' side of two benchmarks: Hugging Face's libraries on a CPU, in `.venv-peers`.

    .venv-peers/bin/python benchmarks/peers/hugging_face.py train JOB.json
    .venv-peers/bin/python benchmarks/peers/hugging_face.py tokenize JOB.json

train_throughput.py and data_pipeline.py write the job and read the JSON line that is printed.
`make peers` makes the environment. Paddle is not in it, nor PyTorch in the course's.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path


def train(job: dict) -> dict:
    """Real tokens and seconds of one epoch with Trainer, grouped by length.

    Args:
        job: "rows" ({"input_ids", "labels"}), "config" (of BertConfig), "batch_size", "tokens" (of
            the longest row), "learning_rate", "seed", "bf16".
    """
    import torch
    from transformers import (
        BertConfig,
        BertForSequenceClassification,
        DataCollatorWithPadding,
        PreTrainedTokenizerFast,
        Trainer,
        TrainerCallback,
        TrainingArguments,
        set_seed,
    )

    class Clock(TrainerCallback):
        start = end = None

        def on_step_begin(self, *_, **__):
            self.start = self.start or time.perf_counter()

        def on_step_end(self, *_, **__):
            self.end = time.perf_counter()

    set_seed(job["seed"])
    config = BertConfig(**job["config"])
    warm_up = BertForSequenceClassification(config)
    ids = torch.ones([job["batch_size"], job["tokens"]], dtype=torch.int64)
    warm_up(ids).logits.sum().backward()
    del warm_up
    clock = Clock()
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory,
            per_device_train_batch_size=job["batch_size"],
            num_train_epochs=1,
            learning_rate=job["learning_rate"],
            group_by_length=True,
            bf16=job["bf16"],
            seed=job["seed"],
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            dataloader_pin_memory=False,
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=arguments,
            train_dataset=job["rows"],
            data_collator=DataCollatorWithPadding(padder(PreTrainedTokenizerFast)),
            callbacks=[clock],
        )
        trainer.train()
    return {
        "tokens": sum(len(row["input_ids"]) for row in job["rows"]),
        "seconds": clock.end - clock.start,
        "steps": trainer.state.global_step,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "versions": versions("torch", "transformers"),
    }


def padder(kind):
    """A tokenizer that only pads: the rows are ids already."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

    return kind(
        tokenizer_object=Tokenizer(WordPiece({"[PAD]": 0}, unk_token="[PAD]")), pad_token="[PAD]"
    )


def tokenize(job: dict) -> dict:
    """Rows per second of the `tokenizers` library, and the ids, without special tokens.

    Args:
        job: "texts" and "vocab" (token -> id).
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    tokenizer = Tokenizer(WordPiece(job["vocab"], unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer, tokenizer.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
    rates = {}
    for name, encode in (
        ("one", lambda: [tokenizer.encode(text) for text in job["texts"]]),
        ("batch", lambda: tokenizer.encode_batch(job["texts"])),
    ):
        encode()
        start = time.perf_counter()
        ids = [encoded.ids for encoded in encode()]
        rates[name] = len(ids) / (time.perf_counter() - start)
    return {"rates": rates, "ids": ids, "versions": versions("tokenizers")}


def versions(*packages: str) -> dict[str, str]:
    from importlib.metadata import version

    return {package: version(package) for package in packages}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "tokenize"])
    parser.add_argument("job", type=Path)
    args = parser.parse_args()
    work = {"train": train, "tokenize": tokenize}[args.what]
    print(json.dumps(work(json.loads(args.job.read_text(encoding="utf-8")))))
