"""Typical wrong answers for each exercise of chapter 15, with the hint that each must draw."""

WRONG = {
    "15-macro-f1": [
        # the accuracy
        ("return (labels == answers).mean()", "That is the accuracy"),
        # the F1 of the frequent class
        (
            "right = ((labels == 1) & (answers == 1)).sum()\n"
            "return 2 * right / ((labels == 1).sum() + (answers == 1).sum())",
            "the F1 of class 1 alone",
        ),
        # the mean of the recalls
        (
            "return np.mean([(answers[labels == one] == one).mean() for one in (0, 1)])",
            "the mean of the recalls",
        ),
        # the classes of labels only
        (
            "return np.mean([2 * ((labels == c) & (answers == c)).sum() / ((labels == c).sum() "
            "+ (answers == c).sum()) for c in np.unique(labels)])",
            "even if one is never true",
        ),
        # nothing for a class that is never answered
        (
            "out = []\n"
            "for c in (0, 1):\n"
            "    tp = np.sum((labels == c) & (answers == c))\n"
            "    p = tp / np.sum(answers == c)\n"
            "    r = tp / np.sum(labels == c)\n"
            "    out.append(2 * p * r / (p + r))\n"
            "return np.mean(out)",
            "never answered has F1 0",
        ),
    ],
    "15-leaked": [
        # how many instead of which share
        (
            'known = {row["text"] for row in train}\n'
            'return sum(row["text"] in known for row in dev)',
            "divide by the number of texts in dev",
        ),
        # divided by train
        (
            'known = {row["text"] for row in train}\n'
            'return sum(row["text"] in known for row in dev) / len(train)',
            "not in train",
        ),
        # parts of texts
        (
            'everything = "".join(row["text"] for row in train)\n'
            'return sum(row["text"] in everything for row in dev) / len(dev)',
            "Whole texts",
        ),
        # different texts instead of rows
        (
            'known, asked = ({row["text"] for row in rows} for rows in (train, dev))\n'
            "return len(known & asked) / len(dev)",
            "Count every row of dev",
        ),
        # whole examples, with the label
        (
            "rows = list(train)\nreturn np.mean([r in rows for r in dev])",
            "the label may differ",
        ),
        # the share that is clean
        (
            "seen = {r['text'] for r in train}\n"
            "return np.mean([r['text'] not in seen for r in dev])",
            "not in train",
        ),
        # copies in train counted
        (
            "count = Counter(r['text'] for r in train)\n"
            "return sum(count[r['text']] for r in dev) / len(dev)",
            "one leak",
        ),
    ],
    "15-cheapest": [
        # the prices exchanged
        (
            "def cost(limit):\n"
            "    found = chance >= limit\n"
            "    return alarm * (is_rare & ~found).sum() + missed * (~is_rare & found).sum()\n"
            "return min((step / 100 for step in range(1, 100)), key=cost)",
            "which error do you multiply",
        ),
        # the number of errors
        (
            "def cost(limit):\n"
            "    return ((chance >= limit) != is_rare).sum()\n"
            "return min((step / 100 for step in range(1, 100)), key=cost)",
            "two prices",
        ),
        # the highest of equally cheap ones
        (
            "def cost(limit):\n"
            "    found = chance >= limit\n"
            "    return missed * (is_rare & ~found).sum() + alarm * (~is_rare & found).sum()\n"
            "return min((step / 100 for step in range(99, 0, -1)), key=cost)",
            "take the lowest",
        ),
        # shares of a class
        (
            "ts = np.arange(1, 100) / 100\n"
            "costs = [missed * np.mean(chance[is_rare] < t) + alarm * np.mean(chance[~is_rare] "
            ">= t) for t in ts]\n"
            "return ts[np.argmin(costs)]",
            "count reviews",
        ),
        # one threshold more
        (
            "ts = np.arange(1, 101) / 100\n"
            "costs = [missed * np.sum(is_rare & (chance < t)) + alarm * np.sum(~is_rare & "
            "(chance >= t)) for t in ts]\n"
            "return ts[np.argmin(costs)]",
            "0.01, 0.02 to 0.99",
        ),
        # the cost itself
        (
            "ts = np.arange(1, 100) / 100\n"
            "return min(missed * np.sum(is_rare & (chance < t)) + alarm * np.sum(~is_rare & "
            "(chance >= t)) for t in ts)",
            "Return the threshold",
        ),
        # a review at the threshold does not reach it
        (
            "ts = np.arange(1, 100) / 100\n"
            "costs = [missed * np.sum(is_rare & (chance <= t)) + alarm * np.sum(~is_rare & "
            "(chance > t)) for t in ts]\n"
            "return ts[np.argmin(costs)]",
            "equals the threshold",
        ),
    ],
    "15-drop-one": [
        # always the last
        ("return text[:-1] if len(text) > 1 else text", "draw the place"),
        # never the last one
        (
            "if len(text) < 2:\n"
            "    return text\n"
            "place = random.randint(len(text) - 1)\n"
            "return text[:place] + text[place + 1 :]",
            "the first and the last as well",
        ),
        # every copy of the character, and texts of one
        (
            "place = random.randint(len(text))\nreturn text[:place] + text[place + 1 :]",
            "Nothing would be left",
        ),
        # shuffles the rest
        (
            "place = random.randint(len(text))\n"
            "return (text[place + 1 :] + text[:place])[::-1] if len(text) > 1 else text",
            "stay in their order",
        ),
        # the first that looks like it
        (
            "if len(text) == 1:\n"
            "    return text\n"
            "return text.replace(text[random.randint(len(text))], '', 1)",
            "second 甲 is never left out",
        ),
        # NumPy's own random numbers
        (
            "if len(text) == 1:\n"
            "    return text\n"
            "k = np.random.randint(len(text))\n"
            "return text[:k] + text[k + 1 :]",
            "`random` that is given",
        ),
    ],
}
