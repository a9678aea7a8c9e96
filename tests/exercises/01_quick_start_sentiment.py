"""Two typical wrong answers for each exercise of chapter 01."""

WRONG = {
    "01-unknown-share": [
        # counts instead of a share
        "return sum(tokenizer.tokenize(text).count(tokenizer.unk_token) for text in texts)",
        # the mean over texts, not over tokens
        "shares = []\n"
        "for tokens in map(tokenizer.tokenize, texts):\n"
        "    shares.append(tokens.count('[UNK]') / len(tokens))\n"
        "return sum(shares) / len(shares)",
    ],
    "01-learning-rate": [
        # no warmup
        "return peak * (total - step) / total",
        # falls over all steps, not over those after the warmup
        "rising = warmup * total\n"
        "return peak * step / rising if step < rising else peak * (total - step) / total",
    ],
    "01-accuracy-by": [
        # divides by all examples
        "right = {}\n"
        "for g, label, p in zip(groups, labels, predictions):\n"
        "    right[g] = right.get(g, 0) + (label == p) / len(labels)\n"
        "return right",
        # leaves out groups without a right prediction
        "right = {}\n"
        "for g, label, p in zip(groups, labels, predictions):\n"
        "    if label == p:\n"
        "        right[g] = right.get(g, 0) + 1\n"
        "return {g: n / list(groups).count(g) for g, n in right.items()}",
    ],
    "01-route": [
        # a person is asked when the model is sure
        "return [r['label'] if r['probability'] < threshold else 'ask a person' for r in results]",
        # strictly above the threshold
        "return [r['label'] if r['probability'] > threshold else 'ask a person' for r in results]",
    ],
}
