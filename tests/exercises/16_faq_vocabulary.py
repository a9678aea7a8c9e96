"""Two typical wrong answers for each exercise of chapter 16, with the hint that each must draw."""

WRONG = {
    "16-weakest": [
        # the strongest joint
        (
            "halves = [(word[:i], word[i:]) for i in range(1, len(word))]\n"
            "return max(np.log2(counts[word] * total / counts[a] / counts[b]) for a, b in halves)",
            "the smallest PMI, not the largest",
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
            "PMI is log2",
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
            "a cosine, not a product",
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
            "20,000 draws",
        ),
    ],
}
