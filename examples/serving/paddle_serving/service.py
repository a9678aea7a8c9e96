"""A classifier as a Paddle Serving pipeline: texts in, labels and probabilities out.

Needs paddle_serving_server, paddle_serving_app and paddlenlp; reads config.yml and export/ here.
"""

import json
import zlib
from pathlib import Path

import numpy as np

zlib.compress(b"")  # before paddle, whose own zlib breaks later imports otherwise
from paddle_serving_server.web_service import Op, WebService  # noqa: E402

HERE = Path(__file__).resolve().parent
MODEL = json.loads((HERE / "export" / "deploy.json").read_text(encoding="utf-8"))


class ClassifierOp(Op):
    def init_op(self):
        from paddlenlp.transformers import AutoTokenizer

        if any((HERE / "export").glob("*.pickle")):  # AutoTokenizer would run what it holds
            raise RuntimeError("a pickle lies beside the tokenizer")
        self.tokenizer = AutoTokenizer.from_pretrained(str(HERE / "export"))

    def preprocess(self, input_dicts, data_id, log_id):
        """{"texts": a JSON list} -> ids [texts, length]; never by eval, as older examples do."""
        (request,) = input_dicts.values()
        try:
            texts = json.loads(request["texts"])
            if not isinstance(texts, list) or not texts:
                raise ValueError("not a list of texts")
            rows = [
                self.tokenizer(
                    text,
                    max_length=MODEL["max_length"],
                    truncation=True,
                    return_token_type_ids=True,
                )
                for text in texts
                if isinstance(text, str)
            ]
            empty = self.tokenizer.num_special_tokens_to_add(pair=False)
            if len(rows) < len(texts) or any(len(row["input_ids"]) <= empty for row in rows):
                raise ValueError("a text is empty or not a string")
        except (KeyError, TypeError, ValueError) as error:
            return {}, True, 400, f"texts: {error!r}"
        length = max(len(row["input_ids"]) for row in rows)
        padding = {
            "input_ids": self.tokenizer.pad_token_id,
            "token_type_ids": self.tokenizer.pad_token_type_id,
        }
        feed = {}
        for name in MODEL["inputs"]:
            feed[name] = np.full((len(rows), length), padding[name], dtype="int64")
            for line, row in zip(feed[name], rows):  # noqa: B905, strict is of Python 3.10
                line[: len(row[name])] = row[name]
        return feed, False, None, ""

    def postprocess(self, input_data, fetch_data, data_id, log_id):
        """Logits -> JSON, because the pipeline sends strings."""
        logits = np.asarray(fetch_data["logits"], dtype="float32")
        if not np.isfinite(logits).all():  # argmax would take NaN for the best class
            return {}, 500, "the model's scores are not finite numbers"
        if MODEL["problem"] == "multi_label":
            probabilities = 1 / (1 + np.exp(-np.clip(logits, -80, 80)))
            chosen = probabilities >= np.float32(MODEL["thresholds"] or 0.5)
        else:
            powers = np.exp(logits - logits.max(axis=1, keepdims=True))
            probabilities = powers / powers.sum(axis=1, keepdims=True)
            chosen = np.arange(logits.shape[1]) == logits.argmax(axis=1)[:, None]
        labels = [[MODEL["labels"][number] for number in np.flatnonzero(row)] for row in chosen]
        answer = {
            "labels": json.dumps(labels, ensure_ascii=False),
            "probabilities": json.dumps(probabilities.tolist()),
        }
        return answer, None, ""


class ClassifierService(WebService):
    def get_pipeline_response(self, read_op):
        return ClassifierOp(name="reviews", input_ops=[read_op])


if __name__ == "__main__":
    service = ClassifierService(name="reviews")
    service.prepare_pipeline_config(str(HERE / "config.yml"))
    service.run_service()
