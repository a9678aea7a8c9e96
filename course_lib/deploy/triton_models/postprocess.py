"""From logits to probabilities and labels, in Triton's Python backend. Needs numpy only."""

import json
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.problem = parameters["problem"]["string_value"]
        self.thresholds = np.array(json.loads(parameters["thresholds"]["string_value"]), "float32")
        file = Path(__file__).parents[1] / "labels.txt"
        self.labels = file.read_text(encoding="utf-8").split("\n")[:-1]

    def execute(self, requests):
        responses = []
        for request in requests:
            logits = pb_utils.get_input_tensor_by_name(request, "LOGITS").as_numpy()
            probabilities, chosen = self.decide(logits.astype("float32"))
            # for each text a JSON list, because a text may have several labels, or none
            texts = [
                json.dumps(
                    [name for name, one in zip(self.labels, row, strict=True) if one],
                    ensure_ascii=False,
                )
                for row in chosen
            ]
            labels = np.array([[text.encode("utf-8")] for text in texts], dtype=np.object_)
            tensors = [
                pb_utils.Tensor("PROBABILITIES", probabilities),
                pb_utils.Tensor("LABELS", labels),
            ]
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
        return responses

    def decide(self, logits):
        if self.problem == "multi_label":
            probabilities = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
            return probabilities, probabilities >= self.thresholds
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        best = probabilities.argmax(axis=1)
        return probabilities, np.arange(len(self.labels)) == best[:, None]
