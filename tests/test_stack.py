"""The two stacks: what knows about versions, and that models of one are models of the other."""

import ast
import json
import os
import re
from pathlib import Path

from course_lib.models import patches  # noqa: F401 - puts the operators back
from course_lib.runtime import stack
from tools import stacks

import numpy as np
import paddle
import pytest
from paddle.nn import functional
from processes import run

ROOT = Path(__file__).parents[1]
VENV, OTHER, ON_TOP = ROOT / ".venv", ROOT / ".venv-paddle3", ROOT / ".venv/paddle3"
STACKS = [(VENV, ""), (OTHER, "") if OTHER.exists() else (VENV, str(ON_TOP))]


def asks_for_a_version(code: str) -> list[str]:
    """The lines that compare a version or name what only `runtime.stack` may know."""
    found = [word for word in ("PADDLE_3", "enable_pir", "in_pir_mode") if word in code]
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Compare | ast.If | ast.IfExp):
            tested = node if isinstance(node, ast.Compare) else node.test
            if re.search(r"__version__|\bversion\(|stack\.VERSION", ast.unparse(tested)):
                found.append(ast.unparse(tested))
    return found


def test_only_one_module_knows_about_versions():
    files = [*(ROOT / "course_lib").rglob("*.py")]
    texts = {path: path.read_text(encoding="utf-8") for path in files if path.name != "stack.py"}
    for path in (ROOT / "solutions").glob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        texts[path] = re.sub(r"^\s*[%!].*$", "", code, flags=re.MULTILINE)
    found = {path.name: asks_for_a_version(text) for path, text in texts.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert asks_for_a_version("if paddle.__version__ > '3':\n    pass")
    assert asks_for_a_version("x = 1 if version('paddlenlp') == '2.8.1' else 2")
    assert not asks_for_a_version("print(paddle.__version__)")


def test_what_ran_is_kept_under_its_stack(tmp_path, monkeypatch):
    monkeypatch.setattr(stacks, "RESULTS", tmp_path / "stacks.json")
    monkeypatch.setattr(stacks, "run", lambda path: {"Setup": stacks.RUNS, "1 A": "it|fails"})
    assert stacks.main(["run", "00"]) == 0
    (kept,) = json.loads((tmp_path / "stacks.json").read_text("utf-8"))[f"Paddle {stack.VERSION}"]
    assert kept == "00_environment"
    assert "| 00_environment | 1 A | it\\|fails |" in stacks.page()


def test_the_page_is_that_of_the_saved_runs():
    assert stacks.PAGE.read_text("utf-8") == stacks.page()


def test_static_programs_are_those_of_paddle_2_6_on_both():
    assert paddle.__version__ == stack.VERSION and not stack.described()[1]
    values = paddle.to_tensor(np.random.default_rng(0).normal(size=(4, 4)).astype("float32"))
    spec = [paddle.static.InputSpec([4, 4], "float32")]
    for _ in range(2):  # a second time, too
        static = paddle.jit.to_static(computed, input_spec=spec, full_graph=True)
        np.testing.assert_allclose(static(values).numpy(), computed(values).numpy(), atol=1e-5)


def computed(x):
    """With what Paddle 3 has moved into C++."""
    turned = paddle.matmul(x=x, y=x, transpose_x=True) + x.matmul(x.tanh())
    smooth = functional.gelu(x) + functional.gelu(x, approximate=True)
    bounded = paddle.maximum(paddle.sqrt(x.abs()), paddle.minimum(x, x * 2))
    product = paddle.multiply(paddle.exp(x), paddle.log(x.abs() + 1)) + paddle.rsqrt(x.abs() + 1)
    waves = paddle.cos(x) + paddle.sin(x) + functional.sigmoid(x) + paddle.erf(x)
    steps = paddle.ceil(x) + paddle.floor(x) + paddle.round(x) + paddle.sign(x)
    whole = paddle.matmul(x, x, transpose_y=True)
    sums = x.sum(axis=1, keepdim=True) + paddle.sum(x) + (x > 0).sum(-1, "float32") + x.amax(0)
    sums += paddle.logsumexp(x, 0) + x.argmax(-1).astype(x.dtype) + x.argmax().astype(x.dtype)
    sums += x.argmin(0).astype(x.dtype)
    moved = paddle.tril(x) + paddle.triu(x, 1) * 2
    moved += x[1:2].expand_as(x)
    smooth += functional.softplus(x, 2) + functional.normalize(x, axis=-1) + paddle.expm1(x)
    told = (
        paddle.logical_and(x > 0, paddle.isfinite(x).all()) & paddle.isnan(x).any(1).logical_not()
    )
    parts = turned + smooth + moved + bounded + product + waves + steps + sums
    return paddle.where(paddle.greater_than(whole, x), parts, whole) + told.astype(x.dtype)


def test_layers_are_called_as_in_paddle_2_6_and_an_lstm_becomes_static():
    words = paddle.nn.Embedding(10, 4, 0, False, None, "words")(paddle.to_tensor([[1, 2, 0]]))
    normal = paddle.nn.LayerNorm(4, 1e-5, None, None, "normal")(words)
    lstm = paddle.nn.LSTM(4, 3, direction="bidirect")
    expected, spec = lstm(normal)[0].numpy(), [paddle.static.InputSpec([None, None, 4], "float32")]
    static = paddle.jit.to_static(lstm, input_spec=spec, full_graph=True)
    np.testing.assert_allclose(static(normal)[0].numpy(), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("version", "flag", "problem"),
    [
        ("2.6.2", "", ""),
        ("3.3.1", "0", ""),
        ("3.3.1", "1", "FLAGS_enable_pir_api is on"),
        ("2.5.0", "", "tested on 2.6 and 3"),
    ],
)
def test_the_doctor_can_say_which_stack_it_is(version, flag, problem, monkeypatch):
    monkeypatch.setattr(stack, "VERSION", version)
    monkeypatch.setattr(stack, "PADDLE_3", version[0] == "3")
    monkeypatch.setenv("FLAGS_enable_pir_api", flag)
    about, found = stack.described()
    assert version in about and problem in found and bool(problem) == bool(found)


@pytest.mark.slow
@pytest.mark.skipif(
    not VENV.exists() or not (OTHER.exists() or ON_TOP.exists()),
    reason="needs both stacks: make test-paddle3-short",
)
def test_what_one_stack_writes_the_other_reads(tmp_path):
    ours = ("FLAGS_enable_pir_api", "MKL_DEBUG_CPU_TYPE")
    environment = {name: value for name, value in os.environ.items() if name not in ours}

    def script(form: tuple[Path, str], *arguments) -> dict:
        python, paths = form[0] / "bin/python", {"PYTHONPATH": form[1]}
        command = (python, ROOT / "tests/both_stacks.py", *arguments)
        done = run(*command, env=environment | paths)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    for number, (writer, reader) in enumerate((STACKS, reversed(STACKS))):
        place = tmp_path / str(number)
        written, read = script(writer, "write", place), script(reader, "read", place)
        assert written["stack"] != read["stack"]
        assert written["runs in int8"] and read["runs in int8"]
        for name in ("paddle", "onnx"):
            np.testing.assert_allclose(read[name], written[name], atol=1e-5, err_msg=name)
        best = [np.argmax(each["int8"], 1).tolist() for each in (written, read)]
        assert best[0] == best[1], "INT8 answers alike, not to the bit"
        for (label, score), (other, same) in zip(written["model"], read["model"], strict=True):
            assert label == other and abs(score - same) < 1e-5
        losses = [each["history"]["dev_loss"] for each in (written, read)]
        np.testing.assert_allclose(*losses, atol=1e-4)
