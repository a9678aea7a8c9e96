"""Chapter 12: a corpus cut into words, judged lists of words, classifiers on word vectors."""

import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from course_lib.chapters.ch03 import WordTokenizer
from course_lib.data import create_dataloader, load_reviews
from course_lib.data import people_daily as news
from course_lib.models import TextCNN
from course_lib.runtime import InputError, atomic_file, seed_everything
from course_lib.training import fit

import jieba
import numpy as np
import paddle
import pandas as pd
from paddle import nn
from paddlenlp.embeddings import TokenEmbedding
from paddlenlp.embeddings import token_embedding as upstream
from paddlenlp.transformers import PretrainedConfig

# gensim's word2vec: skip-gram with five negative samples. One worker, or each run gives other bits.
WORD2VEC = {
    "vector_size": 128, "window": 5, "min_count": 5, "sg": 1, "negative": 5, "sample": 1e-3,
    "alpha": 0.1, "epochs": 2, "seed": 42, "workers": 1,
}  # fmt: skip

# Written by hand, not chosen by any vectors; each word belongs to one group.
GROUPS = {
    "room": "房间 room, 床 bed, 卫生间 toilet, 浴室 bathroom, 空调 air conditioner, 窗户 window, "
    "地毯 carpet, 毛巾 towel, 被子 quilt, 热水 hot water, 隔音 sound insulation, 床单 sheet",
    "staff": "服务员 waiter, 前台 front desk, 态度 attitude, 服务 service, 热情 warm, 礼貌 polite, "
    "客服 customer service, 微笑 smile, 服务态度 service attitude, 保安 guard",
    "food": "早餐 breakfast, 餐厅 restaurant, 味道 taste, 菜 dish, 水果 fruit, 自助餐 buffet, "
    "咖啡 coffee, 牛奶 milk, 午餐 lunch, 晚餐 dinner",
    "location": "地铁 metro, 火车站 railway station, 机场 airport, 位置 location, 交通 transport, "
    "市中心 city center, 步行 on foot, 出租车 taxi, 地铁站 metro station, 路口 crossing",
    "hardware": "屏幕 screen, 键盘 keyboard, 硬盘 hard disk, 内存 memory, 显卡 graphics card, "
    "电池 battery, 鼠标 mouse, 摄像头 camera, cpu CPU, 光驱 disc drive",
    "software": "系统 system, 驱动 driver, 软件 software, xp XP, vista Vista, 安装 install, "
    "win7 Win7, 光盘 disc, 程序 program, 驱动程序 device driver",
    "book": "作者 author, 内容 content, 故事 story, 情节 plot, 文字 writing, 小说 novel, "
    "翻译 translation, 读者 reader, 文笔 style",
    "family": "孩子 child, 宝宝 baby, 儿子 son, 女儿 daughter, 妈妈 mom, 老公 hubby, 妻子 wife, "
    "父母 parents, 爸爸 dad, 丈夫 husband",
    "delivery": "快递 courier, 包装 packaging, 发货 dispatch, 送货 deliver, 卓越 Joyo, 订单 order, "
    "物流 logistics, 退货 return goods, 收到 receive",
    "feeling": "失望 disappointed, 遗憾 regret, 后悔 regretful, 愤怒 angry, 郁闷 gloomy, "
    "感动 moved, 高兴 glad, 惊喜 pleasant surprise, 满意 satisfied, 喜欢 like",
}
MODES = {  # how a classifier begins, and whether its word vectors learn
    "random": {"file": "random", "trainable": True},
    "frozen": {"file": "vectors", "trainable": False},
    "trained": {"file": "vectors", "trainable": True},
}
RATES = {"bag": 1e-2, "cnn": 2e-3}  # peak learning rates: usual ones, the same for all modes


def glosses() -> pd.DataFrame:
    """The judged words: columns "word", "gloss" and "group"."""
    entries = [(entry, group) for group, text in GROUPS.items() for entry in text.split(", ")]
    rows = [(*entry.split(" ", 1), group) for entry, group in entries]
    return pd.DataFrame(rows, columns=["word", "gloss", "group"])


def cut_reviews(texts: Sequence[str]) -> list[list[str]]:
    """The words of texts in lower case, by jieba's dictionary, without blanks."""
    jieba.setLogLevel(logging.WARNING)
    cuts = (jieba.cut(text.lower(), HMM=False) for text in texts)
    return [[word for word in cut if not word.isspace()] for cut in cuts]


def news_words(max_lines: int | None = None) -> list[list[str]]:
    """The words of People's Daily's training split, as they were cut by hand."""
    lines = news.split_lines()["train"][:max_lines]
    return [[word for word, _ in news.words(line)] for line in lines]


def write_vectors(path: Path, words: Sequence[str], vectors: np.ndarray) -> str:
    """Write the .npz that TokenEmbedding reads; return the name to call it by.

    Args:
        vectors: float [words, dim].
    """
    with atomic_file(path, "wb") as file:
        np.savez(file, vocab=np.array(words), embedding=vectors.astype("float32"))
    return str(path.with_suffix(""))


def classifier_files(
    folder: Path, words: Sequence[str], vectors: np.ndarray, reviews: Sequence[Sequence[str]]
) -> dict[str, str]:
    """Write "vectors", "random" ones of the same spread, and "words": those of the reviews.

    A word has to have a vector, and to occur three times in the reviews.
    """
    noise = np.random.RandomState(42).normal(0, vectors.std(), vectors.shape)
    counts, known = Counter(word for row in reviews for word in row), set(words)
    kept = [word for word, count in counts.most_common() if count > 2 and word in known]
    with atomic_file(folder / "words.txt") as file:
        file.write("\n".join(kept) + "\n")
    return {
        "vectors": write_vectors(folder / "vectors.npz", words, vectors),
        "random": write_vectors(folder / "random.npz", words, noise),
        "words": str(folder / "words.txt"),
    }


def load_embedding(name: str, **options) -> TokenEmbedding:
    """TokenEmbedding of PaddleNLP's name or a path; InputError without the file and a network."""
    file = Path(upstream.EMBEDDING_HOME, f"{name}.npz")
    if not file.is_file() and name not in upstream.EMBEDDING_NAME_LIST:
        raise InputError(name, f"{file} does not exist", "vectors written by write_vectors")
    try:
        return TokenEmbedding(name, **options)
    except (OSError, RuntimeError) as error:
        if file.is_file():
            raise
        url = f"{upstream.EMBEDDING_URL_ROOT}/{name}.tar.gz"
        raise InputError(name, "needs a network once", f"{file}, out of {url}") from error


class BagOfEmbeddings(nn.Layer):
    """The mean of a text's word vectors, brought to one scale, and one linear layer on it.

    Args:
        embedding: gives vectors for ids; may be frozen.
        pad_id: the id that does not count.
        label_list: names of the classes.
    """

    def __init__(self, embedding: nn.Layer, pad_id: int, label_list: Sequence[str]) -> None:
        super().__init__()
        self.config = PretrainedConfig(num_labels=len(label_list), pad_token_id=pad_id)
        self.config.id2label = dict(enumerate(label_list))
        self.embedding = embedding
        self.scale = nn.BatchNorm1D(embedding.weight.shape[1])
        self.classifier = nn.Linear(embedding.weight.shape[1], len(label_list))

    def forward(self, input_ids: paddle.Tensor, token_type_ids: paddle.Tensor | None = None):
        """Logits [texts, classes] of ids [texts, length], padded on the right."""
        mask = (input_ids != self.config.pad_token_id).astype("float32").unsqueeze(-1)
        total = (self.embedding(input_ids) * mask).sum(axis=1)
        return self.classifier(self.scale(total / mask.sum(axis=1).clip(min=1.0)))


def compare_vectors(
    files: Mapping[str, str],
    kind: str,
    counts: Sequence[int | None],
    seeds: Sequence[int],
    max_examples: int | None = None,
    max_steps: int | None = None,
) -> Iterator[tuple[int, str, int, np.ndarray]]:
    """Train a classifier of each mode on few and on many labels; score it on the same test reviews.

    Args:
        files: from `classifier_files`.
        kind: "bag" or "cnn".
        counts: labeled reviews; None is all. At least 200 steps are taken on them.

    Yields:
        (labels, mode, seed, which test reviews were right: bool [reviews]).
    """
    test_ds = load_reviews("test", max_examples=max_examples)
    kept = {"extended_vocab_path": files["words"], "keep_extended_vocab_only": True}
    tokenizer = WordTokenizer(load_embedding(files["vectors"], **kept).vocab)
    shared = {"max_seq_length": 64, "batch_size": 32}
    tested = create_dataloader(test_ds, tokenizer, "test", **shared)
    for seed in seeds:
        for count in counts:
            train_ds = load_reviews("train", max_examples=count, seed=seed)
            loader = create_dataloader(train_ds, tokenizer, "train", seed=seed, **shared)
            epochs = max(4, math.ceil(200 / len(loader)))
            for mode, begin in MODES.items():
                seed_everything(seed)
                table = load_embedding(files[str(begin["file"])], **kept)
                table.set_trainable(begin["trainable"])
                if kind == "bag":
                    model = BagOfEmbeddings(table, tokenizer.pad_token_id, train_ds.label_list)
                else:
                    model = TextCNN(len(table.vocab), 2, tokenizer.pad_token_id)
                    model.embedding = table
                options = {"learning_rate": RATES[kind], "seed": seed, "progress": False}
                fit(model, loader, epochs=epochs, max_steps=max_steps, **options)
                model.eval()
                with paddle.no_grad():
                    said = [model(ids, types).argmax(axis=-1).numpy() for ids, types, _ in tested]
                said = tested.batch_sampler.restore(np.concatenate(said))
                yield len(train_ds), mode, seed, np.equal(said, [e["label"] for e in test_ds])
