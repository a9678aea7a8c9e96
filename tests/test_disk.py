"""No writer is silent about a full disk: a limit on the size of files stands in for one."""

import re
import resource
from contextlib import contextmanager
from pathlib import Path

from course_lib.compression import quantize_static
from course_lib.compression.quantization import quantize_embeddings
from course_lib.deploy import export_model
from course_lib.deploy.onnx import convert
from course_lib.models import load_backbone, save_model
from course_lib.recipes.saving import save_plain, save_state
from course_lib.recipes.sentence_index import SentenceIndex
from course_lib.runtime import InputError
from course_lib.training.checkpoint import Checkpoint, model_arrays, save_checkpoint

import numpy as np
import paddle
import pytest

TEXTS = ["房间很干净，服务很好", "太差了", "书很好看", "电脑坏了，客服不理人，再也不来了"]


@contextmanager
def file_limit(size):
    """Python ignores the signal, so that writing more than `size` bytes is an error of the disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def model():
    paddle.seed(0)
    model, tokenizer = load_backbone(
        "fresh", vocab_texts=TEXTS * 3, label_list=["negative", "positive"], num_hidden_layers=1
    )
    model.eval()
    return model, tokenizer


@pytest.fixture(scope="module")
def exported(model, tmp_path_factory):
    return export_model(model[0], tmp_path_factory.mktemp("model"), model[1], 64)


def index(count):
    vectors = np.random.RandomState(0).normal(size=(count, 64)).astype("float32")
    made = SentenceIndex(64, "flat")
    made.add(vectors / np.linalg.norm(vectors, axis=1)[:, None], [str(n) for n in range(count)])
    return made


def optimizers(model):
    schedule = paddle.optimizer.lr.LinearWarmup(0.1, 2, 0.0, 0.1)
    return paddle.optimizer.SGD(schedule, parameters=model.parameters()), schedule


WRITERS = {  # what they write has one file of more than a megabyte or so at least
    "export": lambda model, tokenizer, made, to: export_model(model, to, tokenizer, 64),
    "quantize": lambda model, tokenizer, made, to: quantize_static(
        made, to, [dict(tokenizer(text)) for text in TEXTS]
    ),
    "embeddings": lambda model, tokenizer, made, to: quantize_embeddings(made, to),
    "onnx": lambda model, tokenizer, made, to: convert(made),
    "model": lambda model, tokenizer, made, to: save_model(model, tokenizer, to),
    "checkpoint": lambda model, tokenizer, made, to: save_checkpoint(
        to, 1, Checkpoint(model_arrays(model), {}, {})
    ),
    "plain": lambda model, tokenizer, made, to: save_plain(model, to),
    "state": lambda model, tokenizer, made, to: save_state(to, model, *optimizers(model), 1),
    "index": lambda model, tokenizer, made, to: index(2000).save(to),
}


def contents(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.mark.parametrize("size", [0.3, 0.9])
@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_off_is_an_error_and_replaces_nothing(
    name, size, model, exported, tmp_path
):
    """Paddle's and faiss's writers say nothing, and what is cut off loads, and answers."""
    to = tmp_path / "to"
    WRITERS[name](*model, exported, to)
    where = exported.parent if name == "onnx" else tmp_path
    before = contents(where)
    sizes = [
        len(content) for path, content in before.items() if name != "onnx" or path.suffix == ".onnx"
    ]
    with file_limit(int(max(sizes) * size)), pytest.raises(InputError) as error:
        WRITERS[name](*model, exported, to)
    assert re.search(r"cannot be written \(.*; [\d,.]+ MB are free there\)", error.value.problem)
    assert Path(error.value.where).is_relative_to(where)
    assert ".tmp-" not in error.value.where and ".export-" not in error.value.where
    assert before == contents(where)
