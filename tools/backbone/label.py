"""Let LAC label the prepared corpus: one of its tags for each token, on a GPU in seconds.

    python tools/backbone/label.py weights --tokenizer DIRECTORY --output lac.npz   (here, Paddle)
    python tools/backbone/label.py tags --corpus corpus.npz --lac lac.npz --output tags.npy

LAC (Jiao, Sun and Ke, arXiv:1807.01882) reads characters. `weights` keeps the embeddings of the
vocabulary's own single characters; every other token is unknown to it and gets no label (NONE).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

NONE = 255
LONGEST = 254  # tokens that LAC reads at once
BATCH = 1024


def write_weights(tokenizer_directory: Path, output: Path) -> None:
    """Write LAC's arrays in PyTorch's layout, with an embedding for each token of ours."""
    import course_lib  # noqa: F401  before paddle
    from course_lib.tasks.tagging import LacTagger

    tagger = LacTagger()
    tokens = (tokenizer_directory / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]
    single = np.array([len(token) == 1 for token in tokens])
    ids = [tagger.encode([t if len(t) == 1 else "\0"])[0] for t in tokens]
    state = tagger.state_dict()
    arrays = {name: value.numpy() for name, value in state.items() if "cell" not in name}
    arrays["embedding.weight"] = arrays["embedding.weight"][ids]
    np.savez_compressed(output, single=single, labels=np.array(tagger.label_list), **arrays)


def write_tags(corpus: Path, lac: Path, output: Path) -> None:
    """Write one tag (uint8) for each id of the corpus: the best path through LAC's CRF."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    data, weights = np.load(corpus), np.load(lac)
    model = _Lac(weights).to(device).eval()
    ids, ends = data["ids"].astype(np.int64), data["ends"]
    pieces = [
        (begin, min(begin + LONGEST, end))
        for start, end in zip(np.append(0, ends[:-1]), ends, strict=True)
        for begin in range(start, end, LONGEST)
    ]
    pieces.sort(key=lambda piece: piece[0] - piece[1])
    tags = np.full(len(ids), NONE, dtype=np.uint8)
    with torch.no_grad():
        for first in range(0, len(pieces), BATCH):
            rows = pieces[first : first + BATCH]
            lengths = np.array([end - begin for begin, end in rows])
            at = np.array([begin for begin, _ in rows])[:, None] + np.arange(lengths.max())
            inside = np.arange(lengths.max()) < lengths[:, None]
            batch = torch.tensor(ids[np.where(inside, at, 0)], device=device)
            best = model(batch, torch.tensor(lengths)).to(torch.uint8).cpu().numpy()
            tags[at[inside]] = best[inside]
    tags[~weights["single"][ids]] = NONE
    np.save(output, tags)


def _Lac(weights):
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Lac(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(*weights["embedding.weight"].shape)
            self.gru = nn.GRU(128, 128, 2, batch_first=True, bidirectional=True)
            self.classifier = nn.Linear(*weights["classifier.weight"].shape)
            own = {name: weights[name] for name in self.state_dict()}
            own["classifier.weight"] = own["classifier.weight"].T
            self.load_state_dict({name: torch.tensor(value) for name, value in own.items()})
            self.register_buffer("moves", torch.tensor(weights["crf.transitions"]))

        def forward(self, ids, lengths):
            packed = pack_padded_sequence(self.embedding(ids), lengths, batch_first=True)
            scores = self.classifier(pad_packed_sequence(self.gru(packed)[0], True)[0])
            lengths = lengths.to(ids.device)
            best, back = scores[:, 0], []
            for step in range(1, scores.shape[1]):
                value, source = (best[:, :, None] + self.moves).max(1)
                going = (step < lengths)[:, None]
                best = torch.where(going, value + scores[:, step], best)
                back.append(torch.where(going, source, torch.arange(len(self.moves)).to(source)))
            path = [best.argmax(1)]
            for source in reversed(back):
                path.append(source.gather(1, path[-1][:, None])[:, 0])
            return torch.stack(path[::-1], 1)

    return Lac()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("weights", "tags"))
    for name in ("--tokenizer", "--corpus", "--lac", "--output"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args()
    if options.what == "weights":
        write_weights(options.tokenizer, options.output)
    else:
        write_tags(options.corpus, options.lac, options.output)


if __name__ == "__main__":
    main()
