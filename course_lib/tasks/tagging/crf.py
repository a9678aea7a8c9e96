"""A linear-chain CRF whose loss fits its decoder: PaddleNLP's layer with its loss fixed."""

import paddle
from paddle import nn
from paddle.text import viterbi_decode
from paddlenlp.layers import LinearChainCrf, LinearChainCrfLoss


class Crf(LinearChainCrf):
    """Scores of each label after each other one, learned along with the scores of single labels.

    After John Lafferty, Andrew McCallum and Fernando Pereira, "Conditional Random Fields:
    Probabilistic Models for Segmenting and Labeling Sequence Data", ICML 2001. The score of a
    sequence of labels is the sum of its emissions and of `transitions[label, the next label]`.

    What is fixed: the normalizer of PaddleNLP 2.8.1's layer reads the transitions the other way
    round than its gold score and its decoder, so its loss is not a likelihood. Start and stop tags,
    which it scores wrongly too, are left out. Transitions start at 0: before training, the CRF
    changes nothing.

    Args:
        num_labels: K.
        crf_lr: how many times faster than the other weights the transitions learn.
    """

    def __init__(self, num_labels: int, crf_lr: float = 1.0) -> None:
        super().__init__(num_labels, crf_lr, with_start_stop_tag=False)
        self.transitions.set_value(paddle.zeros_like(self.transitions))

    def forward(self, inputs: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """Logarithm of the sum of exp(score) over all sequences of labels.

        Args:
            inputs: emissions, float32 [N, L, K].
            lengths: int64 [N], each from 1 to L; padding beyond them does not count.

        Returns:
            float32 [N].
        """
        transitions = self.transitions.unsqueeze(0)
        places = paddle.arange(inputs.shape[1]).unsqueeze(0)
        real = (places < lengths.unsqueeze(1)).unsqueeze(2).unbind(1)
        alpha, *emissions = inputs.unbind(1)
        for emission, here in zip(emissions, real[1:], strict=True):
            scores = alpha.unsqueeze(2) + transitions  # [N, from, to]
            alpha = paddle.where(here, paddle.logsumexp(scores, axis=1) + emission, alpha)
        return paddle.logsumexp(alpha, axis=1)

    def loss(
        self, inputs: paddle.Tensor, lengths: paddle.Tensor, labels: paddle.Tensor
    ) -> paddle.Tensor:
        """Negative log-likelihood of the labels, in nats, float32 [N].

        Args:
            inputs, lengths: as for `forward`.
            labels: int64 [N, L], from 0 to K - 1 beyond the lengths too.
        """
        if inputs.shape[1] == 1:  # PaddleNLP fails where there is no transition
            return nn.functional.cross_entropy(inputs[:, 0], labels[:, 0], reduction="none")
        return LinearChainCrfLoss(self)(inputs, lengths, labels)

    def decode(self, inputs: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """The best sequence of labels, int64 [N, longest of the lengths], 0 beyond each length.

        Paddle's operator; paddlenlp.layers.ViterbiDecoder gives the same, step by step in Python.
        """
        with paddle.no_grad():  # labels have no gradient
            return viterbi_decode(inputs, self.transitions, lengths, include_bos_eos_tag=False)[1]
