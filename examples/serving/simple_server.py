"""PaddleNLP's own SimpleServer on an export, to compare with the course's service.

    python examples/serving/simple_server.py MODEL_DIR

It runs offline, on FP32 files of `export_model`. Observed in PaddleNLP 2.8.1; the course's tests
check most of it:

- A request is {"data": {"text": ...}, "parameters": {"max_seq_len": 128, "batch_size": 1}}. The
  answer holds the number of the class and its probability, but no name.
- Without "max_seq_len" or "batch_size" among the parameters it answers 500: a condition in its
  handler is inverted (`if "batch_size" not in parameters:` it reads it from there). With them it
  ignores their values: texts are cut at 128 tokens, and a batch is one text.
- Requests take turns at a lock, and each text is a run of its own: no dynamic batching.
- Bad JSON gets 422, and JSON that is nested too deeply 400, in words. A text that is not a string,
  and data that are not a dictionary, get 500. An empty text, control characters and half a
  surrogate pair are classified as if they were texts. There is no limit on the size of a body or
  the number of texts.
- With a file of `quantize_static` it does not start (AttributeError in paddle.jit.load). In its
  code INT8 is switched on for "fp16", and bfloat16 for "int8": the two are interchanged.
- It uses half of the cores.
"""

from __future__ import annotations

import argparse

import course_lib  # noqa: F401 - before paddle
from course_lib.deploy.service import listen

import uvicorn
from paddlenlp import SimpleServer
from paddlenlp.server import CustomModelHandler, MultiClassificationPostHandler


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model_dir", help="the directory that export_model wrote")
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    args = parser.parse_args()
    app = SimpleServer()
    app.register(
        "classify",
        model_path=args.model_dir,
        tokenizer_name=args.model_dir,
        model_handler=CustomModelHandler,
        post_handler=MultiClassificationPostHandler,
    )
    listener = listen("127.0.0.1", args.port)
    listener.listen()  # who connects from now on waits until it accepts
    print(f"serving at http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
