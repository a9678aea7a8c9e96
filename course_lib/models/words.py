"""Words instead of characters: a tokenizer over a vocabulary of words."""

from __future__ import annotations

from course_lib.runtime import InputError
from course_lib.runtime.visible import is_blank

from paddlenlp.data import JiebaTokenizer, Vocab


class WordTokenizer:
    """PaddleNLP's JiebaTokenizer, corrected, in the shape that the course's functions expect.

    `create_dataloader`, `fit`, `evaluate` and `predict` take it as they take ErnieTokenizer. There
    is no [CLS] and no [SEP]; white space is dropped.

    What is corrected: jieba finds a word only when all beginnings of it are in its dictionary, too
    (笔 and 笔记 for 笔记本), with the frequency 0 when they are no words. JiebaTokenizer leaves
    them out, so many words of the vocabulary are never found and become [UNK] in pieces. And
    jieba's hidden Markov model glues characters that it does not know together into words that are
    not in the vocabulary; it is switched off. What stays: jieba always cuts at symbols other than
    +#&._%- (冯·诺依曼), so no such word is ever found.

    Args:
        vocabulary: with a pad_token and an unk_token.

    Raises:
        InputError: the vocabulary lacks one of the two, or its ids are not 0, 1, 2, ...
    """

    pad_token_type_id = 0

    def __init__(self, vocabulary: Vocab) -> None:
        for name in ("pad_token", "unk_token"):
            if getattr(vocabulary, name, None) is None:
                raise InputError("vocabulary", f"has no {name}", f'{name}="..." when it is made')
        if set(vocabulary.token_to_idx.values()) != set(range(len(vocabulary.token_to_idx))):
            problem = "its ids leave numbers out (a file that repeats a token, say)"
            raise InputError("vocabulary", problem, "each token once, ids 0, 1, 2, ...")
        self.vocabulary = vocabulary
        self.vocab_size = len(vocabulary)
        self.pad_token_id = vocabulary[vocabulary.pad_token]
        self.unk_token_id = vocabulary[vocabulary.unk_token]
        self._jieba = JiebaTokenizer(vocabulary)
        frequencies = self._jieba.tokenizer.FREQ
        for word in list(frequencies):
            for end in range(1, len(word)):
                frequencies.setdefault(word[:end], 0)

    def tokenize(self, text: str) -> list[str]:
        """Cut a text into words, known or not."""
        return [word for word in self._jieba.cut(text, use_hmm=False) if not is_blank(word)]

    def __call__(
        self,
        text: str,
        max_length: int | None = None,
        truncation: bool = False,
        return_token_type_ids: bool = True,
    ) -> dict[str, list[int]]:
        """Encode one text.

        Args:
            max_length: of the ids, when `truncation`.

        Returns:
            `{"input_ids", "token_type_ids"}`, two lists of one length, at least 1: a text without
            any word is [UNK]. The types are all 0.
        """
        ids = self.vocabulary.to_indices(self.tokenize(text)) or [self.unk_token_id]
        if truncation and max_length is not None:
            ids = ids[:max_length]
        encoded = {"input_ids": ids}
        if return_token_type_ids:
            encoded["token_type_ids"] = [0] * len(ids)
        return encoded
