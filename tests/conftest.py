"""Fixtures that several files share. A test must not change the tokenizer: make a copy."""

import logging

from course_lib import runtime

import pytest
import threadpoolctl


@pytest.fixture(scope="module")
def one_thread():
    """Two threads that wait for each other in every tiny operation take ages on a busy machine."""
    with threadpoolctl.threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def quiet():
    """PaddleNLP logs its errors only."""
    logger = logging.getLogger("PaddleNLP")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.fixture(scope="session")
def tokenizer():
    """The tokenizer of the backbone that the course ships; some files have one of their own."""
    from paddlenlp.transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(runtime.data_dir() / "backbone"))


@pytest.fixture(scope="session")
def make_tokenizer(tmp_path_factory):
    """A function that returns a tokenizer with just these tokens, special ones included."""
    from paddlenlp.transformers import ErnieTokenizer

    def make(tokens, **options):
        path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
        path.write_text("\n".join(dict.fromkeys(tokens)) + "\n", encoding="utf-8")
        return ErnieTokenizer(str(path), **options)

    return make
