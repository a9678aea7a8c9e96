"""Two typical wrong answers for each exercise of chapter 15, with the hint that each must draw."""

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
            "class 0 has 2/3 and class 1 has 8/9",
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
            "one false alarm",
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
    ],
}
