"""From texts to ids, in Triton's Python backend. Needs paddlenlp and its tokenizer's files here."""

import json
import zlib
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils

zlib.compress(b"")  # before paddle, whose own zlib breaks later imports otherwise
from paddlenlp.transformers import AutoTokenizer  # noqa: E402

STEP = 16  # tokens; Triton puts requests into one batch only where their shapes are equal


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.max_length = int(config["parameters"]["max_length"]["string_value"])
        self.outputs = [output["name"] for output in config["output"]]
        if any(Path(__file__).parent.glob("*.pickle")):  # AutoTokenizer would run what it holds
            raise RuntimeError("a pickle lies beside the tokenizer")
        self.tokenizer = AutoTokenizer.from_pretrained(str(Path(__file__).parent))

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        texts = pb_utils.get_input_tensor_by_name(request, "TEXT").as_numpy().reshape(-1)
        try:
            rows = [self.encode(text.decode("utf-8")) for text in texts]
        except ValueError as error:  # a byte that is no UTF-8 is one, too
            return pb_utils.InferenceResponse(
                output_tensors=[], error=pb_utils.TritonError(f"TEXT: {error}")
            )
        longest = max(len(row["input_ids"]) for row in rows)
        length = min(self.max_length, -(-longest // STEP) * STEP)
        padding = {
            "input_ids": self.tokenizer.pad_token_id,
            "token_type_ids": self.tokenizer.pad_token_type_id,
        }
        tensors = []
        for name in self.outputs:
            table = np.full((len(rows), length), padding[name], dtype=np.int64)
            for line, row in zip(table, rows, strict=True):
                line[: len(row[name])] = row[name]
            tensors.append(pb_utils.Tensor(name, table))
        return pb_utils.InferenceResponse(output_tensors=tensors)

    def encode(self, text):
        row = self.tokenizer(
            text, max_length=self.max_length, truncation=True, return_token_type_ids=True
        )
        if len(row["input_ids"]) <= self.tokenizer.num_special_tokens_to_add(pair=False):
            raise ValueError("an empty text, or nothing in it can be seen")
        return row
