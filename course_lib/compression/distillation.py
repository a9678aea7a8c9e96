"""Distillation: a smaller model learns to answer as a larger one, in several widths at once.

A teacher's probabilities say more than a label: how sure it is, and what the second choice is.
DynaBERT (Hou et al. 2020, arXiv:2004.04037) trains all widths of one model in turn on the same
batch. The weights of a narrow one are the first part of those of a wide one, so the parts are first
sorted by falling importance (`pruning.reorder`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext

from ..runtime import InputError
from ..training.prediction import LABELS
from ..training.trainer import CourseTrainer
from .pruning import kept, narrowed, prunable_layers

import paddle
from paddle.nn import functional


def soft_cross_entropy(
    student: paddle.Tensor,
    teacher: paddle.Tensor,
    temperature: float = 1.0,
    mask: paddle.Tensor | None = None,
    several: bool = False,
) -> paddle.Tensor:
    """Cross entropy of the student's probabilities against the teacher's.

    Args:
        student, teacher: logits of one shape [..., classes].
        temperature: both are divided by it before softmax; above 1 the small probabilities count
            more. The result is multiplied by its square, which keeps the size of the gradients.
        mask: [...], zero where there is only padding.
        several: each class is a choice between yes and no (sigmoid); their losses add up.

    Returns:
        The mean over all rows, or over those that the mask leaves (nats).
    """
    student, teacher = student / temperature, teacher / temperature
    if several:
        losses = functional.binary_cross_entropy_with_logits(
            student, functional.sigmoid(teacher), reduction="none"
        )
    else:
        losses = -functional.softmax(teacher) * functional.log_softmax(student)
    return temperature**2 * _mean(losses.sum(axis=-1), mask)


def _hidden_error(
    student: Sequence[paddle.Tensor], teacher: Sequence[paddle.Tensor], mask: paddle.Tensor
) -> paddle.Tensor:
    """Mean squared difference of hidden states, over the real tokens of all layers.

    Args:
        student, teacher: for each layer [batch_size, length, hidden].
        mask: [batch_size, length], zero where there is only padding.
    """
    pairs = zip(student, teacher, strict=True)
    errors = [_mean(((one - other) ** 2).mean(axis=-1), mask) for one, other in pairs]
    return sum(errors) / len(errors)


def _mean(values: paddle.Tensor, mask: paddle.Tensor | None) -> paddle.Tensor:
    return values.mean() if mask is None else (values * mask).sum() / mask.sum()


@contextmanager
def _hidden_states(model: paddle.nn.Layer) -> Iterator[list[paddle.Tensor]]:
    """Collect the outputs of the encoder's layers inside the block."""
    states: list[paddle.Tensor] = []
    with ExitStack() as stack:
        for layer in prunable_layers(model):
            handle = layer.register_forward_post_hook(lambda _, __, output: states.append(output))
            stack.callback(handle.remove)
        yield states


class DistillTrainer(CourseTrainer):
    """A Trainer whose loss is the distance from a teacher's logits and hidden states.

    The loss of a step is the mean over all widths of `soft_cross_entropy` of the logits +
    `hidden_weight` x `_hidden_error`; labels are not looked at. Everything else is CourseTrainer's:
    two runs on the same machine end with the same bits.

    Args:
        teacher: fine-tuned, with as many layers and the same hidden size as the model where hidden
            states are compared; it is used in evaluation mode.
        widths: shares of the model's width to train together, in falling importance (`reorder`);
            [1] trains the model as it is, a cut one for example.
        hidden_weight: 0 compares logits only; then the teacher may be any model of the same task.

    Raises:
        InputError: a width that keeps nothing; hidden states that do not fit each other.
    """

    def __init__(
        self,
        *args,
        teacher: paddle.nn.Layer,
        widths: Sequence[float] = (1.0,),
        hidden_weight: float = 0.1,
        **kwargs,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.teacher, self.widths = teacher, widths
        self.hidden_weight = hidden_weight
        for width in self.widths:
            kept(self.model, width)
        if hidden_weight:
            layers = [len(prunable_layers(one)) for one in (self.model, teacher)]
            sizes = [one.config.hidden_size for one in (self.model, teacher)]
            if len(set(layers)) > 1 or len(set(sizes)) > 1:
                problem = f"has {layers[1]} layers of {sizes[1]} for {layers[0]} of {sizes[0]}"
                raise InputError("teacher", problem, "the same, or hidden_weight=0")

    def compute_loss(self, model, inputs, return_outputs=False):
        names = {*LABELS, *self.label_names}
        inputs = {name: value for name, value in inputs.items() if name not in names}
        mask = (inputs["input_ids"] != self.model.config.pad_token_id).astype("float32")
        self.teacher.eval()
        collect = _hidden_states if self.hidden_weight else nullcontext
        with paddle.no_grad(), collect(self.teacher) as target_states:
            targets = _tuple(self.teacher(**inputs))
        losses = []
        for width in self.widths:
            with narrowed(self.model, width), collect(self.model) as states:
                outputs = model(**inputs)
            logits = _tuple(outputs)
            parts = [
                self._distance(one, other, mask) for one, other in zip(logits, targets, strict=True)
            ]
            loss = sum(parts) / len(parts)
            if self.hidden_weight:
                loss = loss + self.hidden_weight * _hidden_error(states, target_states, mask)
            losses.append(loss)
        loss = sum(losses) / len(losses)
        return (loss, (loss, outputs)) if return_outputs else loss

    def _distance(self, student: paddle.Tensor, teacher: paddle.Tensor, mask) -> paddle.Tensor:
        # a row a token: padding is no example; elsewhere a row is an example
        mask = mask if student.ndim == 3 else None
        several = self.model.config.problem_type == "multi_label_classification"
        return soft_cross_entropy(student, teacher, mask=mask, several=several)


def _tuple(outputs) -> tuple[paddle.Tensor, ...]:
    return tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
