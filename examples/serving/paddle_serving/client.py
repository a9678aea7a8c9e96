"""Ask the service for the labels of some texts, over HTTP: python client.py TEXT [TEXT ...]"""

import json
import sys
import urllib.request

URL = "http://127.0.0.1:18080/reviews/prediction"  # the port is in config.yml


def ask(texts, url=URL):
    """A list of texts -> {"labels": [[...], ...], "probabilities": [[...], ...]}"""
    body = json.dumps({"key": ["texts"], "value": [json.dumps(texts, ensure_ascii=False)]})
    with urllib.request.urlopen(url, data=body.encode("utf-8"), timeout=10) as response:
        answer = json.load(response)
    if answer.get("err_no"):
        raise RuntimeError(f"{answer['err_no']}: {answer.get('err_msg')}")
    return {
        key: json.loads(value)
        for key, value in zip(answer["key"], answer["value"])  # noqa: B905
    }


if __name__ == "__main__":
    print(json.dumps(ask(sys.argv[1:]), ensure_ascii=False, indent=1))
