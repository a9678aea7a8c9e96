"""Masked language modeling on one's own texts."""

import copy

import course_lib
from course_lib.models import build_vocabulary
from course_lib.tasks.vocabulary import pretrain_words
from course_lib.training.pretraining import (
    WordEncoder,
    create_pretraining_dataloader,
    hide_words,
    make_sequences,
)

import numpy as np
import pytest
from paddlenlp.transformers import ErnieConfig, ErnieForMaskedLM

TEXTS = [
    "酒店的房间很干净，服务员非常热情。",
    "早餐一般，但是位置不错，离地铁站很近！",
    "Windows XP 驱动下载 3.5GB，太慢了…",
    "这本小说的故事情节引人入胜",
] * 6
SIZES = {
    "hidden_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def tokenizer(make_tokenizer):
    return make_tokenizer(build_vocabulary(TEXTS, min_count=1), do_lower_case=True)


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return WordEncoder(tokenizer)


def new_model(tokenizer) -> ErnieForMaskedLM:
    course_lib.runtime.seed_everything(7)
    return ErnieForMaskedLM(ErnieConfig(vocab_size=tokenizer.vocab_size, **SIZES))


def words(encoder: WordEncoder, text: str) -> list[str]:
    ids, starts = encoder(text)
    tokens = encoder.tokenizer.convert_ids_to_tokens(ids)
    found: list[str] = []
    for token, start in zip(tokens, starts, strict=True):
        piece = token.removeprefix("##")
        if start:
            found.append(piece)
        else:
            found[-1] += piece
    return found


def test_words_come_from_the_dictionary(encoder):
    assert words(encoder, "酒店的房间很干净")[:3] == ["酒店", "的", "房间"]
    assert words(encoder, "Windows XP 驱动") == ["windows", "xp", "驱动"]
    assert "引人入胜" in words(encoder, "故事情节引人入胜")


def test_added_words_are_read_and_drawn(tokenizer):
    tokenizer = copy.deepcopy(tokenizer)
    word = tokenizer.vocab_size
    tokenizer.add_tokens(["地铁站"])
    encode = WordEncoder(tokenizer)
    assert encode("离地铁站近") == ([*encode("离")[0], word, *encode("近")[0]], [True] * 3)
    sequences = make_sequences(["离地铁很近"] * 4000, encode)
    loader = create_pretraining_dataloader(sequences, tokenizer, mask_rate=0.9)
    read = np.concatenate([batch["input_ids"].numpy().ravel() for batch in loader])
    assert word in read, "one of the random tokens that stand for hidden ones"


def test_whole_words_are_hidden_at_the_stated_rates(tokenizer, encoder):
    (ids, starts), *_ = make_sequences(["酒店的房间很干净，服务员非常热情。"], encoder)
    settings = {
        "vocab_size": tokenizer.vocab_size,
        "mask_id": tokenizer.mask_token_id,
        "special_ids": tokenizer.all_special_ids,
    }
    word = np.cumsum(starts) - 1
    special = np.isin(ids, tokenizer.all_special_ids)
    hidden_tokens = masked = same = 0
    for seed in range(3000):
        random = np.random.default_rng(seed)
        read, positions = hide_words(ids, starts, random, **settings)
        assert len(positions)
        assert not special[positions].any()
        touched = set(word[positions])
        assert set(positions) == {p for p in range(len(ids)) if word[p] in touched}
        untouched = np.setdiff1d(np.arange(len(ids)), positions)
        assert (read[untouched] == ids[untouched]).all()
        assert not np.isin(read[positions], [0, 1, 2, 4]).any()
        hidden_tokens += len(positions)
        masked += (read[positions] == tokenizer.mask_token_id).sum()
        same += (read[positions] == ids[positions]).sum()
    assert masked / hidden_tokens == pytest.approx(0.8, abs=0.02)
    assert same / hidden_tokens == pytest.approx(0.1, abs=0.02)
    assert hidden_tokens / 3000 / (~special).sum() == pytest.approx(0.17, abs=0.03)


def test_long_texts_are_cut_and_nothing_is_lost(encoder):
    text = "早餐一般，但是位置不错" * 5
    sequences = make_sequences([text, "   "], encoder, max_seq_length=16)
    assert all(len(ids) <= 16 and len(ids) == len(starts) for ids, starts in sequences)
    assert [i for ids, _ in sequences for i in ids[1:-1]] == encoder(text)[0]


def test_training_masks_change_by_epoch_and_dev_masks_do_not(encoder, tokenizer):
    sequences = make_sequences(TEXTS, encoder)

    def epoch(loader, number):
        loader.batch_sampler.set_epoch(number)
        return np.concatenate([np.sort(batch["labels"].numpy()) for batch in loader]).tolist()

    train = create_pretraining_dataloader(sequences, tokenizer, batch_size=8)
    assert epoch(train, 0) == epoch(train, 0)
    assert epoch(train, 0) != epoch(train, 1)
    dev = create_pretraining_dataloader(sequences, tokenizer, "dev", batch_size=8)
    assert epoch(dev, 0) == epoch(dev, 1)


def test_labels_stand_at_the_masked_positions(encoder, tokenizer):
    sequences = make_sequences(TEXTS, encoder)
    loader = create_pretraining_dataloader(sequences, tokenizer, "dev", batch_size=5)
    batches = loader.batch_sampler.batches(0)
    for batch, members in zip(loader, batches, strict=True):
        width = batch["input_ids"].shape[1]
        true = np.zeros((len(members), width), dtype="int64")
        for row, index in enumerate(members):
            true[row, : len(sequences[index][0])] = sequences[index][0]
        positions = batch["masked_positions"].numpy()
        assert (true.reshape(-1)[positions] == batch["labels"].numpy()).all()


def test_it_learns_and_resumes_exactly(tokenizer, tmp_path):
    settings = {"batch_size": 8, "epochs": 8, "learning_rate": 5e-3, "progress": False}
    settings |= {"words": [], "checkpoint_every": 5}
    model = new_model(tokenizer)
    whole = pretrain_words(model, tokenizer, TEXTS, output_dir=tmp_path, **settings)
    assert np.mean(whole["loss"][-3:]) < np.mean(whole["loss"][:3]) - 0.5
    step = tmp_path / "checkpoint-00000021"
    resumed = pretrain_words(new_model(tokenizer), tokenizer, TEXTS, resume=step, **settings)
    assert resumed == whole
