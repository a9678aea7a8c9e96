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
        return [self.answer(request) for request in requests]

    def answer(self, request):
        logits = pb_utils.get_input_tensor_by_name(request, "LOGITS").as_numpy()
        if not np.isfinite(logits).all():  # argmax would take NaN for the best class
            error = pb_utils.TritonError("the model's scores are not finite numbers")
            return pb_utils.InferenceResponse(output_tensors=[], error=error)
        probabilities, chosen = self.decide(logits.astype("float32"))
        # for each text a JSON list, because a text may have several labels, or none
        names = [[self.labels[number] for number in np.flatnonzero(row)] for row in chosen]
        texts = [[json.dumps(labels, ensure_ascii=False).encode("utf-8")] for labels in names]
        tensors = [
            pb_utils.Tensor("PROBABILITIES", probabilities),
            pb_utils.Tensor("LABELS", np.array(texts, dtype=np.object_)),
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)

    def decide(self, logits):
        if self.problem == "multi_label":
            probabilities = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
            return probabilities, probabilities >= self.thresholds
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities = powers / powers.sum(axis=1, keepdims=True)
        best = probabilities.argmax(axis=1)
        return probabilities, np.arange(len(self.labels)) == best[:, None]
