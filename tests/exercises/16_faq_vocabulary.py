"""Typical wrong answers for each exercise of chapter 16, with the hint that each must draw."""

WRONG = {
    "16-weakest": [
        # the strongest joint
        (
            "halves = [(word[:i], word[i:]) for i in range(1, len(word))]\n"
            "return max(np.log2(counts[word] * total / counts[a] / counts[b]) for a, b in halves)",
            "take the smallest PMI",
        ),
        # nats
        (
            "halves = [(word[:i], word[i:]) for i in range(1, len(word))]\n"
            "return min(np.log(counts[word] * total / (counts[a] * counts[b])) for a, b in halves)",
            "the logarithm to the base 2",
        ),
        # forgets the total
        (
            "halves = [(word[:i], word[i:]) for i in range(1, len(word))]\n"
            "return min(np.log2(counts[word] / (counts[a] * counts[b])) for a, b in halves)",
            "in the PMI of this section",
        ),
        # the first joint and the last
        (
            "return min(np.log2(counts[word] * total / (counts[word[:i]] * counts[word[i:]])) "
            "for i in (1, len(word) - 1))",
            "the middle one as well",
        ),
        # the last joint
        (
            "i = len(word) - 1\n"
            "return np.log2(counts[word] * total / (counts[word[:i]] * counts[word[i:]]))",
            "can be the first one",
        ),
        # nothing is below 0
        (
            "best = 0\n"
            "for i in range(1, len(word)):\n"
            "    best = min(best, np.log2(counts[word] * total / (counts[word[:i]] * "
            "counts[word[i:]])))\n"
            "return best",
            "Take the smallest",
        ),
        # neighbouring characters
        (
            "return min(np.log2(counts[word[i : i + 2]] * total / (counts[word[i]] * "
            "counts[word[i + 1]])) for i in range(len(word) - 1))",
            "the word is the pair",
        ),
    ],
    "16-from-right": [
        # from the left
        (
            "pieces = []\n"
            "while text:\n"
            "    fits = [word for word in dictionary if text.startswith(word)]\n"
            "    pieces.append(max(fits, key=len, default=text[0]))\n"
            "    text = text[len(pieces[-1]):]\n"
            "return pieces",
            "begin at the end",
        ),
        # the pieces in the order in which they were found
        (
            "pieces = []\n"
            "while text:\n"
            "    fits = [word for word in dictionary if text.endswith(word)]\n"
            "    pieces.append(max(fits, key=len, default=text[-1]))\n"
            "    text = text[:-len(pieces[-1])]\n"
            "return pieces",
            "in its order",
        ),
        # the first word that fits
        (
            "pieces = []\n"
            "while text:\n"
            "    fits = [word for word in dictionary if text.endswith(word)]\n"
            "    pieces.insert(0, (fits or [text[-1]])[0])\n"
            "    text = text[:-len(pieces[0])]\n"
            "return pieces",
            "Take the longest word",
        ),
        # the last word of the list that fits
        (
            "pieces = []\n"
            "while text:\n"
            "    fits = [w for w in dictionary if text.endswith(w)]\n"
            "    word = fits[-1] if fits else text[-1]\n"
            "    pieces.append(word)\n"
            "    text = text[: -len(word)]\n"
            "return pieces[::-1]",
            "Take the longest word",
        ),
        # characters together
        (
            "pieces, between = [], ''\n"
            "while text:\n"
            "    fits = [w for w in dictionary if text.endswith(w)]\n"
            "    if fits:\n"
            "        word = max(fits, key=len)\n"
            "        if between:\n"
            "            pieces.append(between)\n"
            "        pieces.append(word)\n"
            "        between, text = '', text[: -len(word)]\n"
            "    else:\n"
            "        between, text = text[-1] + between, text[:-1]\n"
            "if between:\n"
            "    pieces.append(between)\n"
            "return pieces[::-1]",
            "cut into characters",
        ),
        # strips characters, not the word
        (
            "pieces = []\n"
            "while text:\n"
            "    fits = [w for w in dictionary if text.endswith(w)]\n"
            "    word = max(fits, key=len, default=text[-1])\n"
            "    pieces.append(word)\n"
            "    text = text.rstrip(word)\n"
            "return pieces[::-1]",
            "Take the word off once",
        ),
        # sorts what it was given
        (
            "dictionary.sort(key=len, reverse=True)\n"
            "pieces = []\n"
            "while text:\n"
            "    fits = [w for w in dictionary if text.endswith(w)]\n"
            "    word = fits[0] if fits else text[-1]\n"
            "    pieces.append(word)\n"
            "    text = text[: -len(word)]\n"
            "return pieces[::-1]",
            "Leave the dictionary",
        ),
    ],
    "16-nearest": [
        # the farthest first
        (
            "lengths = np.linalg.norm(matrix, axis=1) * np.linalg.norm(vector)\n"
            "return np.argsort((matrix @ vector) / lengths)[:count].tolist()",
            "sort the other way round",
        ),
        # a dot product
        (
            "return np.argsort(-(matrix @ vector))[:count].tolist()",
            "a cosine, neither a product",
        ),
        # divides in place
        (
            "matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)\n"
            "return np.argsort(-(matrix @ vector))[:count]",
            "Leave matrix and vector",
        ),
        # leaves out the nearest
        (
            "cos = matrix @ vector / np.linalg.norm(matrix, axis=1) / np.linalg.norm(vector)\n"
            "return np.argsort(-cos)[1 : count + 1]",
            "keep the nearest one",
        ),
        # the nearest last
        (
            "cos = matrix @ vector / np.linalg.norm(matrix, axis=1) / np.linalg.norm(vector)\n"
            "return np.argsort(cos)[-count:]",
            "The nearest first",
        ),
        # the cosines
        (
            "cos = matrix @ vector / np.linalg.norm(matrix, axis=1) / np.linalg.norm(vector)\n"
            "return np.sort(cos)[::-1][:count]",
            "not cosines",
        ),
    ],
    "16-spread": [
        # as if each token were hidden by itself
        (
            "return (sum(lengths) * rate * (1 - rate)) ** 0.5 / sum(lengths)",
            "square its length",
        ),
        # tokens instead of a share
        (
            "return sum(n**2 * rate * (1 - rate) for n in lengths) ** 0.5",
            "divide by the number of tokens",
        ),
        # the variance
        (
            "return sum(n**2 * rate * (1 - rate) for n in lengths) / sum(lengths) ** 2",
            "That is the variance",
        ),
        # the rate of the book
        (
            "return np.sqrt(sum(n**2 for n in lengths) * 0.15 * 0.85) / sum(lengths)",
            "use the rate",
        ),
        # divided by the number of words
        (
            "return np.sqrt(sum(n**2 for n in lengths) * rate * (1 - rate)) / len(lengths)",
            "20,000 draws",
        ),
        # adds standard deviations
        (
            "return sum(np.sqrt(n**2 * rate * (1 - rate)) for n in lengths) / sum(lengths)",
            "20,000 draws",
        ),
    ],
}
