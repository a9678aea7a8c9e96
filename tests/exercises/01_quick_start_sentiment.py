"""Typical wrong answers for each exercise of chapter 01, with the hint that each must draw."""

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
        # with special tokens
        (
            'ids = [i for text in texts for i in tokenizer(text)["input_ids"]]\n'
            "return ids.count(tokenizer.unk_token_id) / len(ids)",
            "a share of 0.2",
        ),
        # by characters
        (
            "tokens = [t for text in texts for t in tokenizer.tokenize(text)]\n"
            "return tokens.count(tokenizer.unk_token) / sum(map(len, texts))",
            "WiFi makes 4 tokens",
        ),
        # different tokens
        (
            "tokens = {t for text in texts for t in tokenizer.tokenize(text)}\n"
            "return (tokenizer.unk_token in tokens) / len(tokens)",
            "repeated tokens too",
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
        # fixed tenth
        (
            "rise = total // 10\n"
            "if step < rise:\n"
            "    return peak * step / rise\n"
            "return peak * (total - step) / (total - rise)",
            "use all the arguments",
        ),
        # cosine
        (
            "import math\n"
            "rise = warmup * total\n"
            "if step < rise:\n"
            "    return peak * step / rise\n"
            "return peak * (1 + math.cos(math.pi * (step - rise) / (total - rise))) / 2",
            "in a straight line",
        ),
        # warmup as steps
        (
            "if step < warmup:\n"
            "    return peak * step / warmup\n"
            "return peak * (total - step) / (total - warmup)",
            "Half way through the warmup",
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
        # both positive counts as right only
        (
            "right = {}\n"
            "for g, l, p in zip(groups, labels, predictions):\n"
            "    right.setdefault(g, []).append(l and p)\n"
            "return {g: sum(r) / len(r) for g, r in right.items()}",
            "a 0 for a 0",
        ),
        # counts
        (
            "out = {}\n"
            "for g, l, p in zip(groups, labels, predictions):\n"
            "    out[g] = out.get(g, 0) + (l == p)\n"
            "return out",
            "between 0 and 1",
        ),
        # list of pairs
        (
            "right = {}\n"
            "for g, l, p in zip(groups, labels, predictions):\n"
            "    right.setdefault(g, []).append(l == p)\n"
            "return [(g, sum(r) / len(r)) for g, r in right.items()]",
            "Return a dictionary",
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
        # fixed threshold
        (
            'return [r["label"] if r["probability"] >= 0.8 else "ask a person" for r in results]',
            "the threshold passed in",
        ),
        # results changed
        (
            "for r in results:\n"
            '    if r["probability"] < threshold:\n'
            '        r["label"] = "ask a person"\n'
            'return [r["label"] for r in results]',
            "make a new list",
        ),
    ],
}
