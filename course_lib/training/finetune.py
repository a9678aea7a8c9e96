"""Fine-tune the backbone on reviews with the Trainer: one script for one process or several.

    python -m course_lib.training.finetune --output_dir outputs/a --train_examples 2000
    python -m course_lib.training.finetune experiment.json --seed 7
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo \\
        course_lib/training/finetune.py --output_dir outputs/b --device cpu

On GPUs leave out `--backend gloo` and say `--devices 0,1`; on several machines say also
`--nnodes 2 --master ADDRESS:PORT`, the same line on each. Batch sizes are those of one process.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.data import convert_example, load_reviews
from course_lib.models import freeze_layers, load_backbone
from course_lib.runtime import InputError, atomic_file, seed_everything, select_device
from course_lib.training.trainer import CourseTrainer, ThroughputCallback

import paddle
from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import EvalPrediction, PdArgumentParser, TrainingArguments


@dataclass
class DataArguments:
    """What is read."""

    train_examples: int = field(default=None, metadata={"help": "so many reviews, default all"})
    dev_examples: int = field(default=None, metadata={"help": "so many reviews, default all"})
    max_seq_length: int = field(default=128, metadata={"help": "tokens; longer texts are cut"})


@dataclass
class ModelArguments:
    """What is trained."""

    model_name_or_path: str = field(
        default=None, metadata={"help": "a directory or a name of the hub, default the backbone"}
    )
    freeze_layers: int = field(default=0, metadata={"help": "encoder layers that do not learn"})
    dropout: float = field(default=0.0, metadata={"help": "of hidden states and attention"})


def main(arguments: Sequence[str] | None = None) -> dict:
    """Train, evaluate and save.

    Args:
        arguments: as on the command line (the default); one JSON file may come first. With
            `--resume_from_checkpoint newest` a run goes on from its newest whole checkpoint.

    Returns:
        "loss": what was logged in this call; "eval_loss" and "eval_accuracy" on dev;
        "tokens_per_second"; "weights", a digest of the trained weights. The first process of a
        launch also writes it to `all_results.json` in the output directory.

    Raises:
        InputError: as `CourseTrainer.train`, `load_backbone` and `freeze_layers`.
    """
    parser = PdArgumentParser((TrainingArguments, DataArguments, ModelArguments))
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0].endswith(".json"):
        if not Path(words[0]).is_file():
            raise InputError(words[0], "does not exist", "a JSON file of arguments")
        words[:1] = parser.read_json(words[0])
    args, data_args, model_args = parser.parse_args_into_dataclasses(words)
    source, output = model_args.model_name_or_path, Path(args.output_dir).resolve()
    if source is not None and output in (Path(source).resolve(), *Path(source).resolve().parents):
        problem = f"holds the model that is trained, {source}"
        raise InputError(args.output_dir, problem, "an output_dir of its own")
    if args.world_size == 1:  # a launch has chosen the device of each process
        select_device(args.device if "--device" in words else None)
    seed_everything(args.seed)  # before the model: its new head is random
    train_ds = load_reviews("train", max_examples=data_args.train_examples)
    dev_ds = load_reviews("dev", max_examples=data_args.dev_examples)
    model, tokenizer = load_backbone(
        model_args.model_name_or_path,
        label_list=train_ds.label_list,
        hidden_dropout_prob=model_args.dropout,
        attention_probs_dropout_prob=model_args.dropout,
    )
    if model_args.freeze_layers:
        freeze_layers(model, model_args.freeze_layers)

    def features(examples):
        length = data_args.max_seq_length
        return [convert_example(e, tokenizer, length, return_dict=True) for e in examples]

    throughput = ThroughputCallback()
    trainer = CourseTrainer(
        model=model,
        args=args,
        train_dataset=features(train_ds),
        eval_dataset=features(dev_ds),
        data_collator=DataCollatorWithPadding(tokenizer),
        tokenizer=tokenizer,
        compute_metrics=accuracy,
        callbacks=[throughput],
        group_by_length=True,
    )
    newest = args.resume_from_checkpoint == "newest"
    trainer.train(resume_from_checkpoint=newest or args.resume_from_checkpoint)
    scores = trainer.evaluate()
    trainer.save_model()
    result = {
        "loss": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
        "eval_loss": scores["eval_loss"],
        "eval_accuracy": scores["eval_accuracy"],
        "tokens_per_second": throughput.tokens_per_second,
        "weights": digest(model),
    }
    if args.should_save:
        with atomic_file(Path(args.output_dir, "all_results.json")) as file:
            json.dump(result, file, indent=1)
    return result


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    """The share of right classes, of logits [N, classes] and labels [N]."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def digest(model: paddle.nn.Layer) -> str:
    """SHA-256 of all weights: two models with one digest are equal bit for bit."""
    sha = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        sha.update(name.encode() + value.numpy().tobytes())
    return sha.hexdigest()


if __name__ == "__main__":
    try:
        result = main()
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
    print(json.dumps(result))
