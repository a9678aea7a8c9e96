"""Typical wrong answers for each exercise of chapter 05, with the hint that each must draw."""

_CALLBACK = """
def __init__(self, seconds):
    self.seconds = seconds

def on_train_begin(self, args, state, control, **kwargs):
    self.started = time.perf_counter()

def on_step_end(self, args, state, control, **kwargs):
    if {condition}:
        {flags} = True
"""

WRONG = {
    "05-arguments": [
        # no help texts
        ("freeze_layers: int = 0\nlabel_smoothing: float = 0.0", "Give each field a help text"),
        # a number declared as text
        (
            "freeze_layers: str = field(default='0', metadata={'help': 'layers'})\n"
            "label_smoothing: float = field(default=0.0, metadata={'help': 'share'})",
            "declared as int",
        ),
        # bool
        (
            'freeze_layers: bool = field(default=False, metadata={"help": "layers"})\n'
            'label_smoothing: float = field(default=0.0, metadata={"help": "share"})',
            "declared as int",
        ),
        # default 2
        (
            'freeze_layers: int = field(default=2, metadata={"help": "layers"})\n'
            'label_smoothing: float = field(default=0.0, metadata={"help": "share"})',
            "freeze_layers has the default",
        ),
        # int smoothing
        (
            'freeze_layers: int = field(default=0, metadata={"help": "layers"})\n'
            'label_smoothing: int = field(default=0, metadata={"help": "share"})',
            "declared as float",
        ),
        # misspelt
        (
            'freeze_layer: int = field(default=0, metadata={"help": "layers"})\n'
            'label_smoothing: float = field(default=0.0, metadata={"help": "share"})',
            "with these names",
        ),
    ],
    "05-updates": [
        # forgets the last, smaller batch
        (
            "return max(examples // (batch * processes) // accumulate, 1) * epochs",
            "The last, smaller batch counts",
        ),
        # rounds once, at the end
        (
            "return -(-examples * epochs // (batch * processes * accumulate))",
            "round down",
        ),
        # at least one forgotten
        (
            "import math\nreturn math.ceil(examples / (batch * processes)) // accumulate * epochs",
            "at least one update",
        ),
        # processes forgotten
        (
            "import math\nreturn max(math.ceil(examples / batch) // accumulate, 1) * epochs",
            "Two processes",
        ),
        # steps of all epochs, then accumulated
        (
            "import math\n"
            "return max(math.ceil(examples / (batch * processes)) * epochs // accumulate, 1)",
            "at least one update",
        ),
    ],
    "05-smoothing": [
        # one loss an example
        (
            "targets = paddle.nn.functional.one_hot(labels, logits.shape[-1]) * 0.9"
            " + 0.1 / logits.shape[-1]\n"
            "return -(targets * paddle.nn.functional.log_softmax(logits)).sum(-1)",
            "One number for the batch",
        ),
        # the share goes to the other classes only
        (
            "classes = logits.shape[-1]\n"
            "hot = paddle.nn.functional.one_hot(labels, classes)\n"
            "targets = hot * 0.9 + (1 - hot) * 0.1 / (classes - 1)\n"
            "return -(targets * paddle.nn.functional.log_softmax(logits)).sum(-1).mean()",
            "the label's class too",
        ),
        # out of reach of the gradient
        (
            "targets = np.eye(logits.shape[-1])[labels.numpy()] * 0.9 + 0.1 / logits.shape[-1]\n"
            "logs = paddle.nn.functional.log_softmax(logits).numpy()\n"
            "return paddle.to_tensor(-(targets * logs).sum(-1).mean())",
            ".numpy() and float() cut",
        ),
        # plain
        (
            "return paddle.nn.functional.cross_entropy(logits, labels)",
            "The targets are not smoothed",
        ),
        # three classes
        (
            "F = paddle.nn.functional\n"
            "logp = F.log_softmax(logits, axis=-1)\n"
            "target = F.one_hot(labels, logits.shape[-1]) * 0.9 + 0.1 / 3\n"
            "return -(target * logp).sum(-1).mean()",
            "4 classes",
        ),
        # mean of all numbers
        (
            "F = paddle.nn.functional\n"
            "C = logits.shape[-1]\n"
            "logp = F.log_softmax(logits, axis=-1)\n"
            "target = F.one_hot(labels, C) * 0.9 + 0.1 / C\n"
            "return -(target * logp).mean()",
            "The targets are not smoothed",
        ),
    ],
    "05-macro-f1": [
        # accuracy
        (
            "best = prediction.predictions.argmax(-1)\n"
            "return {'macro_f1': float((best == prediction.label_ids).mean())}",
            "That is the accuracy",
        ),
        # classes that occur only
        (
            "from sklearn.metrics import f1_score\n"
            "best = prediction.predictions.argmax(-1)\n"
            "return {'macro_f1': f1_score(prediction.label_ids, best, average='macro')}",
            "counts with F1 0",
        ),
        # a bare number
        (
            "from sklearn.metrics import f1_score\n"
            "best = prediction.predictions.argmax(-1)\n"
            "return f1_score(prediction.label_ids, best, average='macro')",
            "Return a dictionary",
        ),
        # weighted
        (
            "from sklearn.metrics import f1_score\n"
            "logits = prediction.predictions\n"
            'return {"macro_f1": f1_score(prediction.label_ids, logits.argmax(-1), '
            'labels=range(logits.shape[-1]), average="weighted", zero_division=0)}',
            "Every class counts the same",
        ),
        # three classes
        (
            "from sklearn.metrics import f1_score\n"
            'return {"macro_f1": f1_score(prediction.label_ids, '
            'prediction.predictions.argmax(-1), labels=[0, 1, 2], average="macro", '
            "zero_division=0)}",
            "counts with F1 0",
        ),
        # absent counts as 1
        (
            "from sklearn.metrics import f1_score\n"
            "logits = prediction.predictions\n"
            'return {"macro_f1": f1_score(prediction.label_ids, logits.argmax(-1), '
            'labels=range(logits.shape[-1]), average="macro", zero_division=1)}',
            "counts with F1 0",
        ),
    ],
    "05-time-limit": [
        # the wrong way round
        (
            _CALLBACK.format(
                condition="time.perf_counter() - self.started < self.seconds",
                flags="control.should_training_stop",
            ),
            "An hour is enough",
        ),
        # nothing is kept
        (
            _CALLBACK.format(
                condition="time.perf_counter() - self.started > self.seconds",
                flags="control.should_training_stop",
            ),
            "should_evaluate and should_save",
        ),
        # clock at init
        (
            "def __init__(self, seconds):\n"
            "    import time; self.seconds, self.start = seconds, time.time()\n"
            "\n"
            "def on_train_begin(self, args, state, control, **kwargs):\n"
            "    pass\n"
            "\n"
            "def on_step_end(self, args, state, control, **kwargs):\n"
            "    pass\n"
            "    if __import__('time').time() - self.start > self.seconds:\n"
            "        control.should_training_stop = True\n"
            "        control.should_evaluate = True\n"
            "        control.should_save = True",
            "Start the clock in on_train_begin",
        ),
        # flags assigned: others' requests undone
        (
            "def __init__(self, seconds):\n"
            "    self.seconds = seconds\n"
            "\n"
            "def on_train_begin(self, args, state, control, **kwargs):\n"
            "    import time; self.start = time.time()\n"
            "\n"
            "def on_step_end(self, args, state, control, **kwargs):\n"
            "    pass\n"
            "    if True:\n"
            "        late = __import__('time').time() - self.start > self.seconds\n"
            "        control.should_training_stop = late\n"
            "        control.should_evaluate = late\n"
            "        control.should_save = late",
            "leave the flags",
        ),
        # no save
        (
            "def __init__(self, seconds):\n"
            "    self.seconds = seconds\n"
            "\n"
            "def on_train_begin(self, args, state, control, **kwargs):\n"
            "    import time; self.start = time.time()\n"
            "\n"
            "def on_step_end(self, args, state, control, **kwargs):\n"
            "    pass\n"
            "    if __import__('time').time() - self.start > self.seconds:\n"
            "        control.should_training_stop = True\n"
            "        control.should_evaluate = True",
            "should_save as well",
        ),
    ],
}
