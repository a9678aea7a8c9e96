"""Two typical wrong answers for each exercise of chapter 05, with the hint that each must draw."""

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
            "A number is declared as int",
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
            "1 - s + s / C for the label",
        ),
        # out of reach of the gradient
        (
            "targets = np.eye(logits.shape[-1])[labels.numpy()] * 0.9 + 0.1 / logits.shape[-1]\n"
            "logs = paddle.nn.functional.log_softmax(logits).numpy()\n"
            "return paddle.to_tensor(-(targets * logs).sum(-1).mean())",
            ".numpy() cuts the gradient off",
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
    ],
}
