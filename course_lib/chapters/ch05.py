"""Fine-tune the backbone on reviews with the Trainer: one script for one process or several.

    python -m course_lib.chapters.ch05 --output_dir outputs/a --train_examples 2000
    python -m course_lib.chapters.ch05 experiment.json --seed 7
    python -m paddle.distributed.launch --nproc_per_node 2 --backend gloo \\
        course_lib/chapters/ch05.py --output_dir outputs/b --device cpu

On GPUs leave out `--backend gloo` and say `--devices 0,1`; on several machines say also
`--nnodes 2 --master ADDRESS:PORT`, the same line on each. Batch sizes are those of one process.
"""

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from course_lib.data import convert_example, load_reviews
from course_lib.models import freeze_layers, load_backbone, trust_pickles
from course_lib.runtime import InputError, atomic_file, seed_everything, select_device
from course_lib.runtime.commands import exit_status
from course_lib.runtime.errors import real, whole
from course_lib.runtime.files import lock_directory, read_json
from course_lib.training.callbacks import ThroughputCallback
from course_lib.training.checks import check_arguments
from course_lib.training.reproducibility import digest
from course_lib.training.trainer import CourseTrainer

from paddlenlp.data import DataCollatorWithPadding
from paddlenlp.trainer import EvalPrediction, PdArgumentParser, TrainingArguments


@dataclass
class DataArguments:
    """What is read."""

    train_examples: int = field(default=None, metadata={"help": "how many, default all"})  # type: ignore[assignment]
    dev_examples: int = field(default=None, metadata={"help": "how many, default all"})  # type: ignore[assignment]
    max_seq_length: int = field(default=128, metadata={"help": "tokens; longer texts are cut"})


@dataclass
class ModelArguments:
    """What is trained."""

    model_name_or_path: str = field(  # type: ignore[assignment]
        default=None, metadata={"help": "a directory or a name of the hub, default the backbone"}
    )
    freeze_layers: int = field(default=0, metadata={"help": "encoder layers that do not learn"})
    dropout: float = field(default=0.0, metadata={"help": "of hidden states and attention"})
    trust_pickle: bool = field(
        default=False, metadata={"help": "let a foreign .pdparams run the code that it may hold"}
    )


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
        InputError: an argument, in the file or not, that does not exist or makes no sense; as
            `CourseTrainer.train`, `load_backbone` and `freeze_layers`.
    """
    args, data_args, model_args = read_arguments(sys.argv[1:] if arguments is None else arguments)
    seed_everything(args.seed)  # before the model: its new head is random
    train_ds = load_reviews("train", max_examples=data_args.train_examples)
    dev_ds = load_reviews("dev", max_examples=data_args.dev_examples)
    model, tokenizer = load_backbone(
        model_args.model_name_or_path,
        label_list=train_ds.label_list,
        trust_pickle=model_args.trust_pickle,
        hidden_dropout_prob=model_args.dropout,
        attention_probs_dropout_prob=model_args.dropout,
    )
    length = whole(
        "max_seq_length", data_args.max_seq_length, 3, model.config.max_position_embeddings
    )
    if model_args.freeze_layers:
        freeze_layers(model, model_args.freeze_layers)
    throughput = ThroughputCallback()
    trainer = CourseTrainer(
        model=model,
        args=args,
        train_dataset=[convert_example(e, tokenizer, length, return_dict=True) for e in train_ds],
        eval_dataset=[convert_example(e, tokenizer, length, return_dict=True) for e in dev_ds],
        data_collator=DataCollatorWithPadding(tokenizer),
        tokenizer=tokenizer,
        compute_metrics=accuracy,
        callbacks=[throughput],
        group_by_length=True,
    )
    with lock_directory(args.output_dir) if args.should_save else nullcontext():
        newest = args.resume_from_checkpoint == "newest"
        with trust_pickles(model_args.trust_pickle):
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


def read_arguments(
    words: Sequence[str],
) -> tuple[TrainingArguments, DataArguments, ModelArguments]:
    """The arguments of a command line, or of a JSON file before it, and the device chosen.

    Raises:
        InputError: an argument that does not exist or makes no sense; it names the file.
    """
    parser = PdArgumentParser(
        (TrainingArguments, DataArguments, ModelArguments), allow_abbrev=False
    )
    words, where = list(words), "the arguments"
    if words and words[0].endswith(".json"):
        where = words[0]
        words[:1] = _words(where)

    def refuse(problem: object) -> NoReturn:
        raise InputError(where, f"cannot be used ({problem})", "arguments of --help")

    parser.error = refuse  # argparse would print and exit
    try:
        args, data_args, model_args = parser.parse_args_into_dataclasses(words)
    except InputError:
        raise
    except ValueError as error:
        refuse(error)
    check_arguments(args)
    for name in ("train_examples", "dev_examples"):
        if getattr(data_args, name) is not None:
            whole(name, getattr(data_args, name), 1)
    real("dropout", model_args.dropout, lambda rate: 0 <= rate < 1, "0 or more and below 1")
    output, source = (Path(args.output_dir).resolve(), model_args.model_name_or_path)
    if source is not None and output in (Path(source).resolve(), *Path(source).resolve().parents):
        problem = f"holds the model that is trained, {source}"
        raise InputError(args.output_dir, problem, "an output_dir of its own")
    if args.world_size == 1:  # a launch has chosen the device of each process
        named = any(word.partition("=")[0] == "--device" for word in words)
        select_device(args.device if named else None)
    return args, data_args, model_args


def _words(file: str) -> list[str]:
    """A JSON object of arguments as the words of a command line."""
    settings = read_json(file, "a JSON file of arguments")
    if not isinstance(settings, dict):
        problem = f"holds a {type(settings).__name__}"
        raise InputError(file, problem, 'an object, such as {"learning_rate": 1e-4}')
    words = []
    for key, value in settings.items():
        values = value if isinstance(value, list) else [value]
        if not values or any(one is None or isinstance(one, (list, dict)) for one in values):
            problem = f"its {key} is {json.dumps(value, ensure_ascii=False)}"
            raise InputError(file, problem, f"a number or a text, or no {key}")
        words += [f"--{key}={values[0]}"] if len(values) == 1 else [f"--{key}", *map(str, values)]
    return words


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    """The share of right classes, of logits [N, classes] and labels [N]."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


if __name__ == "__main__":
    raise SystemExit(exit_status(lambda: print(json.dumps(main()))))
