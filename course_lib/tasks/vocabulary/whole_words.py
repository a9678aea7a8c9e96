"""A dictionary for a pretrained model, second way: pretraining continues with whole words hidden.

The vocabulary stays as it is; all characters of a word are hidden together.
"""

from collections.abc import Iterator, Sequence

from ...runtime import InputError
from ...runtime.errors import one_of
from ...training import fit
from ...training.prediction import check_texts
from ...training.pretraining import WordEncoder, create_pretraining_dataloader, make_sequences
from .cutting import cutter, lower

from paddlenlp.transformers import PretrainedModel


class DictionaryEncoder(WordEncoder):
    """A `WordEncoder` for which each word of a dictionary is one word, whatever jieba thinks.

    The longest word that fits always wins.

    Args:
        tokenizer: a BERT or ERNIE tokenizer of PaddleNLP, without added words.
        words: the dictionary; may be empty.
        rest: what is between the words is cut by "jieba", or into single tokens ("characters").

    Raises:
        InputError: the tokenizer has added words: they are one token and are not hidden in parts;
            one word instead of several; an unknown `rest`.
    """

    def __init__(self, tokenizer, words: Sequence[str], rest: str = "jieba") -> None:
        check_texts(words, "words")
        one_of("rest", rest, ("jieba", "characters"))
        if tokenizer.added_tokens_encoder:
            problem = f"has {len(tokenizer.added_tokens_encoder)} added words"
            raise InputError("tokenizer", problem, "the plain one")
        super().__init__(tokenizer)
        self._words = frozenset(map(lower, words))
        self._cut = cutter(words)
        self._jieba = self.cutter if rest == "jieba" else None
        self.cutter = self  # its `tokenize` says where words begin

    def tokenize(self, text: str) -> Iterator[tuple[str, int, int]]:
        """(word, begin, end) of each word of a text, as jieba's `tokenize` gives them."""
        place = 0
        for piece in self._cut(text):
            if lower(piece) in self._words:
                yield piece, place, place + len(piece)
            elif self._jieba is not None:
                for word, begin, end in self._jieba.tokenize(piece):
                    yield word, place + begin, place + end
            else:
                for offset, character in enumerate(piece, start=place):
                    yield character, offset, offset + 1
            place += len(piece)


def pretrain_words(
    model: PretrainedModel,
    tokenizer,
    texts: Sequence[str],
    words: Sequence[str],
    *,
    rest: str = "jieba",
    max_seq_length: int = 128,
    batch_size: int = 32,
    mask_rate: float = 0.15,
    learning_rate: float = 2e-4,
    epochs: int = 1,
    seed: int = 42,
    **options,
) -> dict[str, list]:
    """Continue pretraining a masked-LM model, in place; a dictionary word is hidden whole.

    Args:
        words, rest: as for `DictionaryEncoder`; without words jieba's are hidden, and with rest
            "characters" each token by itself, as the first BERT did.
        mask_rate: the share of the words that is hidden.
        **options: of `fit`, such as `max_steps`, or `output_dir` and `resume` for checkpoints.

    Returns:
        The history of `fit`; its accuracies count hidden tokens.

    Source: FAQ Q3.1, second way.
    """
    sequences = make_sequences(texts, DictionaryEncoder(tokenizer, words, rest), max_seq_length)
    positions = model.config.max_position_embeddings
    longest = max((len(ids) for ids, _ in sequences), default=0)
    if longest > positions:  # Paddle would read beyond the embedding, or crash
        problem = f"lets {longest} tokens pass"
        raise InputError("max_seq_length", problem, f"at most {positions}, the model's positions")
    loader = create_pretraining_dataloader(
        sequences, tokenizer, "train", batch_size, mask_rate, seed
    )
    return fit(model, loader, epochs=epochs, learning_rate=learning_rate, seed=seed, **options)
