"""From the files of a static export back to a model in Python that can be trained on.

A program calls its weights `linear_7.w_0`, by a counter that depends on what else the process had
built before; the model in Python calls them `ernie.encoder.layers.1.self_attn.k_proj.weight`. What
the two have in common is the order in which they use them. So a new model of the same class is
turned into a program too, and the weights of both are paired in their order of use.
"""

from __future__ import annotations

import os
from pathlib import Path

from course_lib.deploy.files import DESCRIPTION, PROGRAM, WEIGHTS, file_of
from course_lib.deploy.predictor import Predictor
from course_lib.models.files import check_sizes, read_config
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError

import numpy as np
import paddle
import paddlenlp.transformers
from paddlenlp.transformers import PretrainedModel

PROBE = np.arange(16).reshape(2, 8)  # ids of the batch that file and model must answer alike
TOLERANCE = 1e-4  # of those answers: their kernels add in another order


def load_static(path: str | os.PathLike) -> PretrainedModel:
    """Make a model of a program's weights, equal to the last bit.

    Weights that the program does not use are not in its file: under a head for tokens or questions
    the encoder's pooler is fresh.

    Args:
        path: as for `Predictor`: a directory of `export_model`, or the common path of two files.
            deploy.json beside it names the class, config.json has the settings.

    Returns:
        The model, in evaluation mode; its logits are the program's. A pruned model (see
        `compression.prune`) is as small as its file.

    Raises:
        InputError: a file is missing or damaged; the program is quantized, so that its weights are
            rounded; it is of another class or another configuration; a weight is missing or has
            another shape.
    """
    predictor = Predictor(path, int8=False, mkldnn=False)
    program, weights = (file_of(predictor.path, ending) for ending in (PROGRAM, WEIGHTS))
    if predictor.quantized:
        raise InputError(program, "is quantized: its weights are rounded", "the FP32 export")
    values = _read_weights(predictor.path)
    model = _build(predictor, {name: value.shape for name, value in values.items()})
    theirs = _order_of_use(paddle.base.core.ProgramDesc(program.read_bytes()))
    ours = _order_of_use(*_trace(model, predictor.input_names))
    if [use for use, _ in theirs] != [use for use, _ in ours]:
        problem = f"uses {len(theirs)} weights, and not as {type(model).__name__} its {len(ours)}"
        raise InputError(program, problem, "the class and the configuration it was exported from")
    structured = {value.name: name for name, value in model.named_parameters()}
    pairs = zip((name for _, name in ours), (name for _, name in theirs), strict=True)
    _fill(model, {structured[our]: values[their] for our, their in pairs}, weights)
    _compare(model, predictor)
    return model


def _build(predictor: Predictor, shapes: dict[str, tuple[int, ...]]) -> PretrainedModel:
    """A new model of the class and the settings that lie beside a program."""
    directory = predictor.path.parent
    name = predictor.description.get("class")
    kind: type[PretrainedModel] | None = getattr(paddlenlp.transformers, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, PretrainedModel)):
        problem = f"names the class {name!r}, which PaddleNLP does not have"
        raise InputError(directory / DESCRIPTION, problem, "a model of PaddleNLP")
    file = directory / "config.json"
    check_sizes(file, read_config(file), shapes)
    try:
        with quiet_paddlenlp():
            model = kind(kind.config_class.from_pretrained(str(directory)))
    except Exception as error:  # a setting of another type, or out of range: anything
        problem = f"no {name} can be built of it ({' '.join(str(error).split())[-120:]})"
        raise InputError(file, problem, "what export_model wrote") from None
    model.eval()
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


def _read_weights(prefix: Path) -> dict[str, np.ndarray]:
    """A .pdiparams file's arrays by name. (paddle.load would also run the pickle beside it.)"""
    scope = paddle.static.Scope()
    paddle.enable_static()
    try:
        with paddle.static.scope_guard(scope):
            executor = paddle.static.Executor(paddle.CPUPlace())
            described, *_ = paddle.static.load_inference_model(str(prefix), executor)
            names = [value.name for value in described.list_vars() if value.persistable]
            names = [name for name in names if name not in ("feed", "fetch")]
            return {name: np.array(scope.find_var(name).get_tensor()) for name in names}
    except Exception as error:  # paddle's own kinds, with pages of C++ in them
        problem = f"cannot be read ({' '.join(str(error).split())[-200:]})"
        raise InputError(prefix, problem, "what export_model wrote") from None
    finally:
        paddle.disable_static()


def _fill(model: PretrainedModel, values: dict[str, np.ndarray], file) -> None:
    """Put arrays into a model; the encoder's layers become as small as a cut model's are."""
    cut = getattr(model.config, "heads_per_layer", None)
    layers = dict(model.named_sublayers(include_self=True))
    body = f"{model.base_model_prefix}.encoder.layers."
    for name, value in values.items():
        owner, _, role = name.rpartition(".")
        parameter = getattr(layers[owner], role)
        shape = list(value.shape)
        if parameter.shape != shape and cut and name.startswith(body):
            zero = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0))
            parameter = layers[owner].create_parameter(shape, attr=zero)
            setattr(layers[owner], role, parameter)
        if parameter.shape != shape or value.dtype != parameter.numpy().dtype:
            problem = f"{name} is {value.dtype} {shape}"
            raise InputError(file, problem, f"float32 {parameter.shape} by the configuration")
        parameter.set_value(value)
    for layer in layers[body.rstrip(".")] if cut else ():
        attention = layer.self_attn
        attention.num_heads = attention.out_proj.weight.shape[0] // attention.head_dim


def _compare(model: PretrainedModel, predictor: Predictor) -> None:
    """Run one small batch through both: heads, activations and the like have no weights to check.

    Raises:
        InputError: the answers differ.
    """
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
