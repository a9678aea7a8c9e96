"""`python -m course_lib compress`: make a trained classifier smaller and faster, from files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.cli.shared import check_model_dir, checked_length, print_json, split_columns
from course_lib.compression.trainer import CompressTrainer
from course_lib.data import convert_example, load_reviews, read_examples
from course_lib.data.readers import listed
from course_lib.models import load_backbone, suggested_learning_rate
from course_lib.runtime import InputError, atomic_file, seed_everything, select_device
from course_lib.runtime.outputs import check_output_dir, claim

import paddle
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.datasets import MapDataset
from paddlenlp.trainer import CompressionArguments, PdArgumentParser
from paddlenlp.utils.log import logger


@dataclass
class DataArguments:
    """The model and its texts."""

    model_name_or_path: str = field(metadata={"help": "the model/ that train or quickstart wrote"})
    train_file: str = field(  # type: ignore[assignment]
        default=None,
        metadata={"help": "TSV, CSV or JSONL with text and label; default: the course's reviews"},
    )
    dev_file: str = field(default=None, metadata={"help": "the same, to compare the models on"})  # type: ignore[assignment]
    columns: str = field(  # type: ignore[assignment]
        default=None, metadata={"help": "names of the columns of files without a header"}
    )
    encoding: str = field(default="utf-8-sig", metadata={"help": "of the files"})
    max_seq_length: int = field(  # type: ignore[assignment]
        default=None, metadata={"help": "tokens; longer texts are cut; default: as in training"}
    )
    max_examples: int = field(  # type: ignore[assignment]
        default=None, metadata={"help": "at most so many texts of each of the course's splits"}
    )
    trust_pickle: bool = field(
        default=False, metadata={"help": "let a foreign .pdparams run the code that it may hold"}
    )


def main(words: Sequence[str]) -> None:
    """Compress by CompressionArguments; print a JSON line a model, the uncompressed one first.

    `compression.json` in the output directory holds the same list. The arguments are those of
    PaddleNLP's compression and of `DataArguments`, and the two files go together.

    Raises:
        InputError: as `CompressTrainer.compress`; a file or the model directory is not right.
    """
    parser = PdArgumentParser(
        (CompressionArguments, DataArguments),
        prog="python -m course_lib compress",
        description=__doc__.splitlines()[0],
        allow_abbrev=False,
    )
    logger.set_level("WARNING")
    args, data = parser.parse_args_into_dataclasses(list(words), look_for_args_file=False)
    if (data.train_file is None) != (data.dev_file is None):
        parser.error("--train_file and --dev_file go together")
    check_model_dir(Path(data.model_name_or_path))
    check_output_dir(Path(args.output_dir), "compress")
    select_device(args.device if "--device" in words else None)
    args.device = paddle.get_device().split(":")[0]
    model, tokenizer = load_backbone(
        data.model_name_or_path, trained=True, trust_pickle=data.trust_pickle
    )
    length = checked_length(
        data.max_seq_length or getattr(model.config, "max_seq_length", None), model
    )
    names = [model.config.id2label[index] for index in range(len(model.config.id2label))]
    if data.train_file is None:
        splits = [load_reviews(name, max_examples=data.max_examples) for name in ("train", "dev")]
        if names != splits[0].label_list:
            problem = f"has the labels {listed(names)}, the course's reviews have others"
            raise InputError(data.model_name_or_path, problem, "--train_file and --dev_file")
    else:
        reading = {"columns": split_columns(data.columns), "encoding": data.encoding}
        splits = [
            read_examples(path, names, **reading) for path in (data.train_file, data.dev_file)
        ]
    features = [
        MapDataset([convert_example(e, tokenizer, length, return_dict=True) for e in split])
        for split in splits
    ]
    if "--learning_rate" not in words:
        args.learning_rate = suggested_learning_rate(model)
    seed_everything(args.seed)
    with claim(Path(args.output_dir), "compress"):
        trainer = CompressTrainer(
            model=model,
            args=args,
            data_collator=DataCollatorWithPadding(tokenizer),
            train_dataset=features[0],
            eval_dataset=features[1],
            criterion=paddle.nn.CrossEntropyLoss(),
            tokenizer=tokenizer,
            group_by_length=True,
        )
        frame = trainer.compress()
        frame["path"] = [str(path) for path in frame["path"]]
        rows = json.loads(frame.convert_dtypes().to_json(orient="records", double_precision=4))
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
        with atomic_file(Path(args.output_dir, "compression.json")) as file:
            json.dump(rows, file, ensure_ascii=False, indent=1)
    print(f"{len(features[1])} texts to compare on, up to {length} tokens", file=sys.stderr)
    for row in rows:
        print_json(row)
