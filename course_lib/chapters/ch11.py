"""Chapter 11: a service in a process of its own, a static model made dynamic again, and a figure.

A program calls its weights `linear_7.w_0`, by a counter that depends on what else the process had
built before; the model in Python calls them `ernie.encoder.layers.1.self_attn.k_proj.weight`. What
the two have in common is the order in which they use them. So a new model of the same class is
turned into a program too, and the weights of both are paired in their order of use.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from course_lib.compression.program import load_program, static_mode
from course_lib.compression.pruning import build
from course_lib.deploy import Predictor
from course_lib.deploy.files import DESCRIPTION, PROGRAM, file_of
from course_lib.models.files import check_weights, shapes_of
from course_lib.notebook.style import BESIDE, MUTED, SERIES, CourseFigure, drawable
from course_lib.runtime import InputError, machine

import numpy as np
import paddle
from paddlenlp.transformers import PretrainedModel

PROBE = np.arange(16).reshape(2, 8)  # ids of the batch that file and model must answer alike
TOLERANCE = 1e-4  # of those answers: their kernels add in another order


@contextmanager
def running(
    model_dir: str | os.PathLike, *options: str, command: Sequence[str] = ("course_lib", "serve")
) -> Iterator[tuple[str, subprocess.Popen]]:
    """Run `python -m course_lib serve` as a process of its own, inside the block.

    Args:
        options: more of its arguments, such as "--max_batch", "1".
        command: another module that serves, and what comes before the directory.

    Yields:
        Its address, at a free port, and the process.

    Raises:
        InputError: it does not start; the message is its own.
    """
    words = [sys.executable, "-m", *command, str(model_dir), "--port", "0", *options]
    with tempfile.TemporaryFile() as errors:
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": errors, "text": True}
        process: Any = subprocess.Popen(words, env=machine.child_environment(), **pipes)
        try:
            line = process.stdout.readline()  # empty once it has ended
            if not line:
                errors.seek(0)
                reason = errors.read().decode(errors="replace").strip().splitlines()[-1:]
                raise InputError("serve", f"does not start: {' '.join(reason)}", "a service")
            yield line.split()[-1], process
        finally:
            process.terminate()
            try:
                process.wait(60)  # longer than it waits for its last answers
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def latency_curves(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    ylabel: str = "latency, ms",
    notes: Sequence[str] = (),
) -> CourseFigure:
    """Show what a service's clients wait against how much it answers, one line a service.

    Args:
        lines: by name (texts per second, milliseconds) for each load, in rising order of the load.
        ylabel: which latency it is.
        notes: written beside the points of the last line, such as the number of clients.
    """
    with CourseFigure(figsize=(7.2, 4.0)) as figure:
        axes = figure.subplots()
        for number, (name, points) in enumerate(lines.items()):
            style = {"markersize": 5, **SERIES[number]}
            axes.plot(*zip(*points, strict=True), label=drawable(name), **style)
        for note, (x, y) in zip(notes, points, strict=False):
            below = {**BESIDE, "xytext": (0, -11), "ha": "center"}
            axes.annotate(str(note), (x, y), color=MUTED, fontsize=8, **below)
        axes.set(xlabel="texts per second", ylabel=ylabel, yscale="log")
        axes.margins(y=0.12)  # room for a note below the lowest point
        axes.set_xlim(0, 1.06 * max(x for points in lines.values() for x, _ in points))
        axes.grid(axis="y", which="both")
        figure.legend(loc="outside upper center", ncols=2)
        summary = "; ".join(
            f"{name}: {points[0][1]:.0f} ms at {points[0][0]:.0f} texts per second to "
            f"{points[-1][1]:.0f} ms at {points[-1][0]:.0f}"
            for name, points in lines.items()
        )
        return figure.finish(f"{ylabel} against throughput. {summary}.", plain=axes.yaxis)


def load_static(path: str | os.PathLike) -> PretrainedModel:
    """Make a model of a program's weights, equal to the last bit.

    Weights that the program does not use are not in its file: under a head for tokens or questions
    the encoder's pooler is fresh.

    Args:
        path: as for `Predictor`. deploy.json beside it names the class, config.json the settings.

    Returns:
        The model, in evaluation mode; its logits are the program's. A pruned model is as small as
        its file.

    Raises:
        InputError: a file is missing or damaged; the program is quantized, so that its weights are
            rounded; it is of another class or another configuration.
    """
    predictor = Predictor(path, int8=False, mkldnn=False)
    program, directory = file_of(predictor.path, PROGRAM), predictor.path.parent
    if predictor.quantized:
        raise InputError(program, "is quantized: its weights are rounded", "the FP32 export")
    with static_mode() as executor:
        described, _, _ = load_program(predictor.path, executor)
        theirs, scope = _order_of_use(described.desc), paddle.static.global_scope()
        values = {name: np.array(scope.find_var(name).get_tensor()) for _, name in theirs}
    model = build(directory, predictor.description.get("class"), directory / DESCRIPTION)
    ours = _order_of_use(*_trace(model, predictor.input_names))
    if [use for use, _ in theirs] != [use for use, _ in ours]:
        problem = f"uses {len(theirs)} weights, and not as {type(model).__name__} its {len(ours)}"
        raise InputError(program, problem, "the class and the configuration it was exported from")
    names = {parameter.name: name for name, parameter in model.named_parameters()}
    pairs = zip((name for _, name in ours), (name for _, name in theirs), strict=True)
    values = {names[our]: values[their] for our, their in pairs}
    shapes = {name: value.shape for name, value in values.items()}
    wanted = {name: shape for name, shape in shapes_of(model).items() if name in values}
    check_weights(program, shapes, wanted, "the configuration it was exported from")
    for name, parameter in model.named_parameters():
        if name in values:
            parameter.set_value(values[name])
    _compare(model, predictor)
    return model


def _trace(model: PretrainedModel, inputs: list[str]):
    """The program of a model, and the names of its outputs."""
    spec = [paddle.static.InputSpec([None, None], "int64", name) for name in inputs]
    traced = paddle.jit.to_static(model, input_spec=spec, full_graph=True).forward.concrete_program
    model.__dict__.pop("forward", None)  # to_static puts a static one into the layer
    return traced.main_program.desc, [output.name for output in traced.outputs]


def _order_of_use(program, outputs: list[str] | None = None) -> list[tuple[tuple[str, str], str]]:
    """((operator, role in it), name) of the weights that the outputs need, as they are used."""
    block = program.block(0)
    operators = [block.op(index) for index in range(block.op_size())]
    needed = set(outputs or ())
    used = []
    for operator in reversed(operators):
        if operator.type() == "fetch" or needed & set(operator.output_arg_names()):
            used.append(operator)
            needed |= set(operator.input_arg_names())
    weights = {value.name() for value in block.all_vars() if value.persistable()}
    uses: dict[str, tuple[str, str]] = {}
    for operator in reversed(used):
        if operator.type() in ("feed", "fetch"):
            continue
        for role in sorted(operator.input_names()):
            for name in operator.input(role):
                if name in weights:
                    uses.setdefault(name, (operator.type(), role))
    return [(use, name) for name, use in uses.items()]


def _compare(model: PretrainedModel, predictor: Predictor) -> None:
    """Run one batch through both: heads, activations and the like have no weights to check."""
    ids = PROBE[:, : model.config.max_position_embeddings] % model.config.vocab_size
    batch = {**dict.fromkeys(predictor.input_names, ids * 0), "input_ids": ids}
    expected = predictor.run(batch)
    with paddle.no_grad():
        outputs = model(**{name: paddle.to_tensor(value) for name, value in batch.items()})
    outputs = outputs if isinstance(outputs, (tuple, list)) else [outputs]
    for output, answer in zip(outputs, expected, strict=True):
        distance = float(np.abs(output.numpy() - answer).max())
        if not distance <= TOLERANCE * max(1.0, float(np.abs(answer).max())):
            problem = f"its program and the model of these settings differ by {distance:.2g}"
            raise InputError(predictor.path, problem, "the configuration it was exported from")
