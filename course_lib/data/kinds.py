"""The tasks by name, and what the files of models call them; without Paddle."""

HEADS = {  # how the classes of models end, after "For"
    **dict.fromkeys(("text", "pair"), "SequenceClassification"),
    "tokens": "TokenClassification",
    "qa": "QuestionAnswering",
}
KINDS = {  # the word in deploy.json
    "text": "sequence classification",
    "pair": "pair classification",
    "tokens": "token classification",
    "qa": "question answering",
}


def find_task(class_name: str, mark: str | None = None) -> str | None:
    """The task of models of a class; None where the course knows no such class.

    Args:
        mark: `task` of the model's configuration, which tells pairs from single texts.
    """
    for name, head in HEADS.items():
        if f"For{head}" in class_name and mark in (None, name):
            return name
    return None
