"""Train chapter 22's encoder: vectors for search, vectors of tokens for reranking, and answers.

    python -m pip install torch safetensors tokenizers jieba      # in an environment of their own
    python benchmarks/desk_encoder.py train --texts TEXTS --output RUN --seconds 160 \\
        --machine "one NVIDIA H200"
    python benchmarks/desk_encoder.py ship --run RUN              # with the course's environment

TEXTS is a folder of NAME.txt.gz files, one paragraph per line (`SOURCES`). The paragraphs that
answer test questions are left out. Every step has three losses: a query and its paragraph have near
mean vectors among 768; the same by the tokens' vectors among 256 (late interaction); and two scores
at each token of 192 passages find an answer. Queries are sentences that were taken out of the
paragraph (half of them stay in), the line above it, or some of its words in the form of a question;
one in a hundred is a question of the train split. `ship` writes data/desk/encoder.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import gzip
import json
import random
import re
import sys
import time
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("trpl-zh-cn", "hf-course-zh", "paddle-docs", "d2l-zh", "python-docs-zh-cn")
SOURCES += ("pingcap-docs-cn",)
BATCH, LATE, GAPS = 768, 256, 192
QUERY, TEXT, WINDOW = 48, 128, 160  # tokens at most
TEMPERATURE, LATE_TEMPERATURE = 0.05, 0.03
REAL, REAL_GAPS = 0.01, 0.04  # shares of questions of the train split
RATE, WARM_UP = 3e-4, 100
SENTENCE = re.compile(r"[^。！？；!?]+[。！？；!?]*")
CLAUSE = re.compile(r"[^，。；：！？,;!?]+")
LINK = re.compile(r"\[([^\[\]]+)\](?:\[[^\[\]]*\]|\([^()]*\))")
FRAMES = [
    "{}",
    "怎么{}？",
    "{}怎么办？",
    "{}是什么？",
    "什么是{}？",
    "为什么{}？",
    "{}有什么用？",
    "如何{}？",
    "{}吗？",
    "{}用哪个？",
    "{}该怎么写？",
    "{}会怎么样？",
    "{}有什么区别？",
    "{}多少？",
    "能不能{}？",
    "{}可以吗？",
    "我想{}，该怎么做？",
    "{}默认是什么？",
    "请问{}",
    "{}在哪里？",
    "{}要注意什么？",
    "{}有什么好处？",
]
GAP_FRAMES = "{}什么？ {}多少？ {}怎样？ 什么{}？ {}哪个？ 为什么{}？ 怎么{}？ {}吗？".split()  # noqa: SIM905


def read_desk() -> tuple[dict[str, str], list[dict]]:
    """Paragraphs by id, and the questions of all splits."""
    folder = ROOT / "data" / "desk"
    content = bz2.decompress((folder / "paragraphs.tsv.bz2").read_bytes()).decode()
    paragraphs = dict(line.split("\t") for line in content.splitlines())
    with open(folder / "questions.tsv", encoding="utf-8", newline="") as handle:
        return paragraphs, list(csv.DictReader(handle, delimiter="\t", quoting=csv.QUOTE_NONE))


class Examples:
    """Draws queries with their paragraphs, and questions with answers."""

    def __init__(self, texts: Path) -> None:
        import jieba
        from tokenizers import Tokenizer, normalizers, pre_tokenizers
        from tokenizers.models import WordPiece

        vocabulary = (ROOT / "data/backbone/vocab.txt").read_text(encoding="utf-8").split("\n")
        self.ids = {word: number for number, word in enumerate(vocabulary)}
        self.tokenizer = Tokenizer(WordPiece(self.ids, unk_token="[UNK]"))
        self.tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        self.tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        paragraphs, questions = read_desk()
        held = {
            paragraphs[name]
            for row in questions
            if row["split"] == "test"
            for name in row["paragraphs"].split()
        }
        self.real = [
            (row["question"], paragraphs[row["paragraphs"].split()[0]], row["answer"])
            for row in questions
            if row["split"] == "train"
        ]
        self.texts: list[tuple[list[str], str]] = []  # the words, and the line above
        counts: Counter[str] = Counter()
        for source in SOURCES:
            above = ""
            with gzip.open(texts / f"{source}.txt.gz", "rt", encoding="utf-8") as handle:
                for line in handle:
                    text = LINK.sub(r"\1", line).replace("*", "").replace("\t", " ")
                    text = re.sub(r"^[💡⚠️\s]+", "", text).strip()
                    chinese = len(re.findall("[\u4e00-\u9fff]", text))
                    if text in held or len(text) < 4 or chinese < 0.3 * len(text):
                        above = ""
                        continue
                    text = text[:400]
                    if len(text) >= 30:
                        self.texts.append((jieba.lcut(text), above))
                        counts.update(set(self.texts[-1][0]))
                    above = text
        total = len(self.texts)
        self.rarity = {word: float(np.log(total / count)) for word, count in counts.items()}

    def encode(self, texts: list[str], length: int) -> np.ndarray:
        """Ids [texts, L] with [CLS] and [SEP], padded with 0."""
        ends = self.ids["[CLS]"], self.ids["[SEP]"]
        found = self.tokenizer.encode_batch(texts)
        return padded([[ends[0], *one.ids[: length - 2], ends[1]] for one in found])

    def pair(self, rng: random.Random) -> tuple[str, str]:
        """A query and the paragraph that it belongs to."""
        if rng.random() < REAL:
            return rng.choice(self.real)[:2]
        words, above = rng.choice(self.texts)
        text, kind = "".join(words), rng.random()
        if kind < 0.3 and above:
            return above[-80:], text
        if kind < 0.65:
            sentences = [one for one in SENTENCE.findall(text) if len(one) >= 8]
            if len(sentences) > 1:
                chosen = rng.choice(sentences)
                rest = text if rng.random() < 0.5 else text.replace(chosen, "", 1)
                if len(rest) >= 15:
                    return chosen[:60], rest
        count = rng.randint(3, 14)
        first = rng.randrange(max(1, len(words) - count))
        near = [word for word in words[first : first + count] if re.match(r"\w", word)]
        kept = [w for w in near if rng.random() < 0.35 + 0.1 * min(6, self.rarity[w])] or near
        if rng.random() < 0.25:
            rng.shuffle(kept)
        if rng.random() < 0.25:
            kept = kept + [w for w in rng.sample(words, min(2, len(words))) if re.match(r"\w", w)]
        spaced = "".join(f"{word} " if word.isascii() else word for word in kept)
        if rng.random() < 0.3 and kept:  # other words have to do
            gone = {*rng.sample(kept, max(1, len(kept) // 2))}
            text = "".join(word for word in words if word not in gone)
        return rng.choice(FRAMES).format(spaced) or "无", text or "无"

    def question(self, rng: random.Random) -> tuple[str, str, int, int]:
        """A question, a passage, and the first and last + 1 character of the answer in it."""
        if rng.random() < REAL_GAPS:
            question, text, answer = rng.choice(self.real)
            return question, text, text.index(answer), text.index(answer) + len(answer)
        while True:
            words = rng.choice(self.texts)[0]
            text = "".join(words)
            again = [w for w in {*words} if len(w) > 1 < words.count(w) and self.rarity[w] > 3]
            if again and rng.random() < 0.6:  # a word that the rest holds, too
                word = rng.choice(sorted(again))
                places = [one.span() for one in SENTENCE.finditer(text) if word in one.group()]
                if len(places) > 1:
                    first, last = rng.choice(places)
                    gap = "【？】" if rng.random() < 0.5 else "什么"
                    rest = text[:first] + text[last:]
                    if word in rest and len(rest) > 15:
                        start = rest.index(word)
                        asked = text[first:last].replace(word, gap, 1)
                        return asked[:70], rest, start, start + len(word)
                continue
            spans = [one.span() for one in CLAUSE.finditer(text) if 8 <= len(one.group()) <= 40]
            if spans:  # one part of a clause asks for the other
                first, last = rng.choice(spans)
                cut = rng.randint(first + 3, last - 3)
                answer = (cut, last) if rng.random() < 0.7 else (first, cut)
                asked = text[first:cut] if answer[0] == cut else text[cut:last]
                if rng.random() < 0.5:
                    asked = text[max(0, first - 25) : first] + asked
                asked = "".join(one for one in asked if rng.random() < 0.8)
                return rng.choice(GAP_FRAMES).format(asked)[:70], text, *answer

    def questions(self, rng: random.Random, count: int) -> tuple[np.ndarray, ...]:
        """Ids, types, which tokens may answer, first and last token of the answer."""
        rows: list[tuple[list[int], int, int, int]] = []
        while len(rows) < count:
            asked, text, start, end = self.question(rng)
            found = self.tokenizer.encode(text)
            head = self.tokenizer.encode(asked).ids[: QUERY - 2]
            head = [self.ids["[CLS]"], *head, self.ids["[SEP]"]]
            offsets = found.offsets[: WINDOW - len(head) - 1]
            first = [n for n, (a, b) in enumerate(offsets) if a <= start < b]
            last = [n for n, (a, b) in enumerate(offsets) if a < end <= b]
            if first and last:
                ids = [*head, *found.ids[: len(offsets)], self.ids["[SEP]"]]
                rows.append((ids, len(head), len(head) + first[0], len(head) + last[0]))
        ids = padded([row[0] for row in rows])
        places, heads = np.arange(ids.shape[1]), np.array([row[1] for row in rows])[:, None]
        types = (places >= heads) & (ids != 0)
        inside = types & (places < np.array([len(row[0]) - 1 for row in rows])[:, None])
        return ids, types.astype("int64"), inside, np.array([row[2:] for row in rows])


def padded(rows: list[list[int]]) -> np.ndarray:
    """Ids [rows, L] of rows of their own lengths."""
    result = np.zeros((len(rows), max(map(len, rows))), "int64")
    for place, row in enumerate(rows):
        result[place, : len(row)] = row
    return result


def seeded_weights() -> dict:
    """The encoder's weights in data/backbone, by PyTorch's names."""
    from safetensors.torch import load_file

    parts = {f"self_attn.{one[0]}_proj.": f"attention.self.{one}." for one in ("query", "key")}
    parts |= {"self_attn.v_proj.": "attention.self.value.", "linear2.": "output.dense."}
    parts |= {"self_attn.out_proj.": "attention.output.dense.", "norm2.": "output.LayerNorm."}
    parts |= {"norm1.": "attention.output.LayerNorm.", "linear1.": "intermediate.dense."}
    parts |= {"layer_norm.": "LayerNorm.", "encoder.layers.": "encoder.layer."}
    weights = {}
    for name, value in load_file(ROOT / "data/backbone/model.safetensors").items():
        if name.startswith("ernie."):
            bare = name.removeprefix("ernie.")
            for ours, theirs in parts.items():
                bare = bare.replace(ours, theirs)
            turned = value.ndim == 2 and not bare.startswith("embeddings.")
            weights[bare] = (value.T if turned else value).float().contiguous()
    return weights


def train(options: argparse.Namespace) -> None:  # noqa: PLR0915
    """Train for `--seconds` and write the weights and a record of the run."""
    sys.path.insert(0, str(ROOT / "tools" / "backbone"))
    import torch
    import torch.nn.functional as F
    from encoder import Encoder, Shape, set_dropout
    from safetensors.torch import save_file

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    examples = Examples(options.texts)
    config = json.loads((ROOT / "data/backbone/config.json").read_text())
    shape = {name: config[name] for name in Shape.__dataclass_fields__ if name in config}
    model = torch.nn.ModuleDict({"bert": Encoder(Shape(**shape))})
    model["bert"].load_state_dict(seeded_weights())
    model["qa"] = torch.nn.Linear(config["hidden_size"], 2)
    torch.nn.init.normal_(model["qa"].weight, std=0.02)
    torch.nn.init.zeros_(model["qa"].bias)
    set_dropout(model.to(device).train(), 0.1)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            rng = random.Random(1000 + (worker.id if worker else 0))
            while True:
                queries, texts = zip(*[examples.pair(rng) for _ in range(BATCH)], strict=True)
                pair = examples.encode([*queries], QUERY), examples.encode([*texts], TEXT)
                yield tuple(map(torch.tensor, (*pair, *examples.questions(rng, GAPS))))

    def vectors(ids):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            states = model["bert"](ids)[0]
        states, real = states.float(), (ids != 0)[..., None].float()
        mean = (states * real).sum(1) / real.sum(1)
        return F.normalize(mean, dim=-1), F.normalize(states, dim=-1) * real, real[..., 0]

    def late(queries, real, texts):
        parts = []
        for start in range(0, len(queries), 32):
            part = slice(start, start + 32)
            best = torch.einsum("iqd,jkd->ijqk", queries[part], texts).amax(-1)
            parts.append((best * real[part, None]).sum(-1) / real[part].sum(-1)[:, None])
        return torch.cat(parts)

    def both_ways(scores):
        right = torch.arange(len(scores), device=device)
        return (F.cross_entropy(scores, right) + F.cross_entropy(scores.T, right)) / 2

    matrices = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    stream = torch.utils.data.DataLoader(Stream(), batch_size=None, num_workers=options.workers)
    start, step, losses = time.monotonic(), 0, []
    for batch in stream:
        done = (time.monotonic() - start) / options.seconds
        if done >= 1:
            break
        for group in optimizer.param_groups:
            group["lr"] = RATE * min((step + 1) / WARM_UP, (1 - done) / 0.9)
        queries, texts, ids, types, inside, right = (one.to(device) for one in batch)
        one, one_tokens, real = vectors(queries)
        two, two_tokens, _ = vectors(texts)
        twins = (texts[:, None, :48] == texts[None, :, :48]).all(-1)
        twins &= ~torch.eye(len(texts), dtype=torch.bool, device=device)
        by_mean = both_ways((one @ two.T / TEMPERATURE).masked_fill(twins, -1e4))
        scores = late(one_tokens[:LATE], real[:LATE], two_tokens[:LATE]) / LATE_TEMPERATURE
        by_token = both_ways(scores.masked_fill(twins[:LATE, :LATE], -1e4))
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            ends = model["qa"](model["bert"](ids, types)[0])
        ends = ends.float().masked_fill(~inside[..., None], -1e4)
        answer = sum(F.cross_entropy(ends[..., n], right[:, n]) for n in (0, 1)) / 2
        optimizer.zero_grad()
        (by_mean + by_token + answer / 2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        losses = [round(float(each), 3) for each in (by_mean, by_token, answer)]
        if step % 100 == 0:
            print(step, *losses, flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    weights = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    save_file(weights, options.output / "model.safetensors")
    record = {"machine": options.machine, "date": date.today().isoformat(), "steps": step}
    record |= {"seconds": options.seconds, "paragraphs": len(examples.texts), "losses": losses}
    (options.output / "record.json").write_text(json.dumps(record))


def ship(options: argparse.Namespace) -> None:
    """Write data/desk/encoder, a PaddleNLP directory with a head for question answering."""
    import course_lib  # noqa: F401  before paddle
    from course_lib.models import load_backbone, save_model
    from course_lib.models.convert import to_paddle
    from course_lib.models.files import read_weights, write_weights
    from course_lib.runtime.manifest import describe_files, read_manifest, write_manifest

    weights = read_weights(options.run / "model.safetensors")
    weights = {
        name.replace("qa.", "classifier."): value.astype("float32")
        for name, value in weights.items()
    }
    model, tokenizer = load_backbone(head="QuestionAnswering")
    missing = model.set_state_dict(to_paddle(weights))
    assert missing == ([], []), missing
    target = ROOT / "data" / "desk" / "encoder"
    save_model(model, tokenizer, target)
    half = read_weights(target / "model.safetensors")
    half = {name: value.astype("float16") for name, value in half.items()}
    write_weights(target / "model.safetensors", half, "np")
    write_manifest(target, describe_files(target, read_manifest(target)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("train")
    command.add_argument("--texts", type=Path, required=True)
    command.add_argument("--output", type=Path, required=True)
    command.add_argument("--seconds", type=float, default=160)
    command.add_argument("--workers", type=int, default=14)
    command.add_argument("--machine", required=True)
    command.set_defaults(run_command=train)
    command = commands.add_parser("ship")
    command.add_argument("--run", type=Path, required=True)
    command.set_defaults(run_command=ship)
    options = parser.parse_args()
    options.run_command(options)


if __name__ == "__main__":
    main()
