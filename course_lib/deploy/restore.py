"""From the files of a static export back to a model in Python that can be trained on.

A program calls its weights `linear_7.w_0`, by a counter that depends on what else the process had
built before; the model in Python calls them `ernie.encoder.layers.1.self_attn.k_proj.weight`. What
the two have in common is the order in which they use them. So a new model of the same class is
turned into a program too, and the weights of both are paired in their order of use. (PaddleNLP's
FAQ, Q3.10, has a script with a table of names, for one model.)
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path

from course_lib.deploy.files import DESCRIPTION, PROGRAM, WEIGHTS
from course_lib.deploy.predictor import Predictor
from course_lib.models.files import check_sizes, read_config
from course_lib.models.patches import quiet_paddlenlp
from course_lib.runtime import InputError

import numpy as np
import paddle
import paddlenlp.transformers
from paddlenlp.transformers import PretrainedConfig, PretrainedModel

PROBE = np.arange(16).reshape(2, 8)  # ids of the batch that file and model must answer alike
TOLERANCE = 1e-4  # of those answers: their kernels add in another order


def load_static(
    path: str | os.PathLike,
    model_class: type[PretrainedModel] | None = None,
    config: PretrainedConfig | None = None,
) -> PretrainedModel:
    """Make a model of a program's weights, equal to the last bit.

    Weights that the program does not use are not in its file: under a head for tokens or questions
    the encoder's pooler is fresh, and drawn from paddle's generator without moving it on.

    Args:
        path: as for `Predictor`: a directory of `export_model`, or the common path of two files.
        model_class: by default the one that deploy.json or config.json beside the program names.
        config: by default config.json beside the program.

    Returns:
        The model, in evaluation mode; its logits are the program's. A pruned model (see
        `compression.prune`) is as small as its file.

    Raises:
        InputError: a file is missing or damaged; the program is quantized, so that its weights are
            rounded; it is of another class or another configuration; a weight is missing or has
            another shape.
    """
    predictor = Predictor(path, int8=False, mkldnn=False)
    directory, name = predictor.path.parent, predictor.path.name
    program, weights = directory / f"{name}{PROGRAM}", directory / f"{name}{WEIGHTS}"
    settings_file = directory / "config.json"
    if predictor.quantized:
        raise InputError(program, "is quantized: its weights are rounded", "the FP32 export")
    kind = _class(predictor, model_class, {} if config is not None else read_config(settings_file))
    if config is None:
        with quiet_paddlenlp():
            config = kind.config_class.from_pretrained(str(directory))
    values = _read_weights(program, weights)
    shapes = {name: value.shape for name, value in values.items()}
    check_sizes(settings_file, config.to_dict(), shapes)
    random = paddle.get_rng_state()
    try:
        with quiet_paddlenlp():
            model = kind(config)
    except Exception as error:  # a setting of another type, or out of range: anything
        reason = " ".join(str(error).split())[-120:]
        problem = f"no {kind.__name__} can be built of it ({reason})"
        raise InputError(settings_file, problem, "what export_model wrote") from None
    finally:
        paddle.set_rng_state(random)  # weights that are overwritten should change nothing else
    model.eval()
    theirs = _order_of_use(paddle.base.core.ProgramDesc(program.read_bytes()))
    ours = _order_of_use(*_trace(model, predictor))
    if [use for use, _ in theirs] != [use for use, _ in ours]:
        same = sum(1 for one, two in zip(theirs, ours, strict=False) if one[0] == two[0])
        problem = f"uses {len(theirs)} weights, and not as {kind.__name__} uses its {len(ours)}"
        problem += f" (after the first {same} in order)" if same else ""
        raise InputError(program, problem, "the class and the configuration it was exported from")
    structured = {value.name: name for name, value in model.named_parameters()}
    pairs = zip((name for _, name in ours), (name for _, name in theirs), strict=True)
    _fill(model, {structured[our]: values[their] for our, their in pairs}, weights)
    _compare(model, predictor)
    return model


def _class(predictor: Predictor, model_class, settings: dict) -> type[PretrainedModel]:
    """The class to build: the given one, or the one that the export names."""
    exported = predictor.description.get("class")
    if model_class is not None:
        if exported not in (None, *(base.__name__ for base in model_class.__mro__)):
            problem = f"is {model_class.__name__}"
            raise InputError("model_class", problem, f"{exported}, as exported")
        return model_class
    name = exported or (settings.get("architectures") or [None])[0]
    kind = getattr(paddlenlp.transformers, str(name), None)
    if not (isinstance(kind, type) and issubclass(kind, PretrainedModel)):
        problem = f"names the class {name!r}, which PaddleNLP does not have"
        file = predictor.path.parent / DESCRIPTION
        raise InputError(file, problem, "model_class, a model of PaddleNLP")
    return kind


def _trace(model: paddle.nn.Layer, predictor: Predictor):
    """The program of a model, and the names of its outputs."""
    unknown = set(predictor.input_names) - set(inspect.signature(model.forward).parameters)
    if unknown:
        problem = f"its program wants {', '.join(sorted(unknown))}"
        raise InputError(predictor.path, problem, f"inputs that {type(model).__name__} takes")
    spec = [paddle.static.InputSpec([None, None], "int64", name) for name in predictor.input_names]
    static = paddle.jit.to_static(model, input_spec=spec, full_graph=True)
    traced = static.forward.concrete_program
    model.__dict__.pop("forward", None)  # to_static puts a static one into the layer
    return traced.main_program.desc, [output.name for output in traced.outputs]


def _order_of_use(program, outputs: list[str] | None = None) -> list[tuple[tuple[str, str], str]]:
    """The weights that a program's outputs depend on, each at its first use.

    Returns:
        ((operator, the role of the weight in it), name) in the order of the operators.
    """
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


def _read_weights(program: Path, weights: Path) -> dict[str, np.ndarray]:
    """A .pdiparams file's arrays by name. (paddle.load would also run the pickle beside it.)"""
    scope = paddle.static.Scope()
    paddle.enable_static()
    try:
        with paddle.static.scope_guard(scope):
            described = paddle.static.deserialize_program(program.read_bytes())
            executor = paddle.static.Executor(paddle.CPUPlace())
            paddle.static.deserialize_persistables(described, weights.read_bytes(), executor)
            names = [value.name for value in described.list_vars() if value.persistable]
            names = [name for name in names if name not in ("feed", "fetch")]
            return {name: np.array(scope.find_var(name).get_tensor()) for name in names}
    except Exception as error:  # paddle's own kinds, with pages of C++ in them
        reason = " ".join(str(error).split())[-200:]
        raise InputError(weights, f"cannot be read ({reason})", "what export_model wrote") from None
    finally:
        paddle.disable_static()


def _fill(model: PretrainedModel, values: dict[str, np.ndarray], file) -> None:
    """Put arrays into a model; the encoder's layers become as small as a cut model's are."""
    heads = getattr(model.config, "heads_per_layer", None)
    neurons = getattr(model.config, "neurons_per_layer", None)
    layers = dict(model.named_sublayers(include_self=True))
    body = f"{model.base_model_prefix}.encoder.layers."
    for name, value in values.items():
        owner, _, role = name.rpartition(".")
        parameter = getattr(layers[owner], role)
        shape = list(value.shape)
        if parameter.shape != shape and heads and neurons and name.startswith(body):
            zero = paddle.ParamAttr(initializer=paddle.nn.initializer.Constant(0.0))
            parameter = layers[owner].create_parameter(shape, attr=zero)
            setattr(layers[owner], role, parameter)
        if parameter.shape != shape or value.dtype != parameter.numpy().dtype:
            problem = f"{name} is {value.dtype} {shape}"
            raise InputError(file, problem, f"float32 {parameter.shape} by the configuration")
        parameter.set_value(value)
    if not (heads and neurons):
        return
    sizes: tuple[list, list] = ([], [])
    for layer in layers[body.rstrip(".")]:
        attention = layer.self_attn
        attention.num_heads = attention.out_proj.weight.shape[0] // attention.head_dim
        sizes[0].append(attention.num_heads)
        sizes[1].append(layer.linear2.weight.shape[0])
    if sizes != (heads, neurons):
        problem = f"has layers of {sizes[0]} heads and {sizes[1]} neurons"
        raise InputError(file, problem, f"{heads} and {neurons}, as the configuration says")


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
