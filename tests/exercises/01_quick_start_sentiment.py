"""Two typical wrong answers for each exercise of chapter 01, with the hint that each must draw."""

WRONG = {
    "01-unknown-share": [
        # counts instead of a share
        (
            "tokens = [token for text in texts for token in tokenizer.tokenize(text)]\n"
            "return len(tokens)",
            "between 0 and 1",
        ),
        # the mean over texts
        (
            "shares = []\n"
            "for tokens in map(tokenizer.tokenize, texts):\n"
            "    shares.append(tokens.count('[UNK]') / len(tokens))\n"
            "return sum(shares) / len(shares)",
            "over all texts together",
        ),
    ],
    "01-learning-rate": [
        # no warmup
        ("return peak * (total - step) / total", "At step 0 the rate is 0"),
        # falls over all steps, not over those after the warmup
        (
            "rising = warmup * total\n"
            "return peak * step / rising if step <= rising else peak * (total - step) / total",
            "the steps after the warmup only",
        ),
    ],
    "01-accuracy-by": [
        # divides by all examples
        (
            "right = {}\n"
            "for g, label, p in zip(groups, labels, predictions):\n"
            "    right[g] = right.get(g, 0) + (label == p) / len(labels)\n"
            "return right",
            "not by all",
        ),
        # leaves out groups without a right prediction
        (
            "right = {}\n"
            "for g, label, p in zip(groups, labels, predictions):\n"
            "    if label == p:\n"
            "        right[g] = right.get(g, 0) + 1\n"
            "return {g: n / list(groups).count(g) for g, n in right.items()}",
            "each group that occurs",
        ),
    ],
    "01-route": [
        # every sure one is positive
        (
            "return ['positive' if r['probability'] >= threshold else 'ask a person'"
            " for r in results]",
            "its own label",
        ),
        # a person is asked when the model is sure
        (
            "return [r['label'] if r['probability'] < threshold else 'ask a person'"
            " for r in results]",
            "0.55 is below the threshold",
        ),
        # strictly above the threshold
        (
            "return [r['label'] if r['probability'] > threshold else 'ask a person'"
            " for r in results]",
            "is enough",
        ),
    ],
}
