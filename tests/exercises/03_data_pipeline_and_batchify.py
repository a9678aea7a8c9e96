"""Two typical wrong answers for each exercise of chapter 03, with the hint that each must draw."""

WRONG = {
    "03-windows": [
        # goes on after the end has been reached
        (
            "return [(i, min(i + size, length)) for i in range(0, length, step)]",
            "Stop as soon as a window reaches the end",
        ),
        # whole windows only
        (
            "return [(i, i + size) for i in range(0, length - size + 1, step)]",
            "The tokens after the last whole window",
        ),
        # no window is shortened
        (
            "return [(i, i + size) for i in range(0, max(length - size, 0) + step, step)]",
            "beyond the text",
        ),
    ],
    "03-convert-batch": [
        # columns instead of rows
        (
            "return tokenizer([e['text'] for e in examples], max_length=max_length,"
            " truncation=True)",
            "see return_dict",
        ),
        # every row gets the first label
        (
            "rows = tokenizer([e['text'] for e in examples], max_length=max_length,"
            " truncation=True, return_dict=False)\n"
            "for row in rows:\n"
            "    row['labels'] = 1 - examples[0]['label']\n"
            "return rows",
            "the label of its own example",
        ),
        # not cut
        (
            "rows = tokenizer([e['text'] * 9 for e in examples], return_dict=False)\n"
            "for row, e in zip(rows, examples):\n"
            "    row['labels'] = e['label']\n"
            "return rows",
            "Cut at max_length",
        ),
    ],
    "03-batchify-tagged": [
        # labels padded with 0
        (
            "ids, labels = zip(*samples)\nreturn pad(ids, pad_id), pad(labels)",
            "must be -100",
        ),
        # ids padded with 0 whatever pad_id is
        (
            "ids, labels = zip(*samples)\nreturn pad(ids), pad(labels, -100)",
            "with pad_id",
        ),
        # cut to the shortest
        (
            "ids, labels = zip(*samples)\n"
            "short = min(map(len, ids))\n"
            "return [row[:short] for row in ids], [row[:short] for row in labels]",
            "not (2, 3)",
        ),
    ],
    "03-budget-batches": [
        # counts the sum of the lengths
        (
            "batches, total = [[]], 0\n"
            "for index in order:\n"
            "    if batches[-1] and total + lengths[index] > max_tokens:\n"
            "        batches.append([])\n"
            "        total = 0\n"
            "    batches[-1].append(index)\n"
            "    total += lengths[index]\n"
            "return batches",
            "not the sum of lengths",
        ),
        # forgets the last batch
        (
            "batches, batch = [], []\n"
            "for index in order:\n"
            "    if batch and max(lengths[i] for i in [*batch, index]) * (len(batch) + 1)"
            " > max_tokens:\n"
            "        batches.append(batch)\n"
            "        batch = []\n"
            "    batch.append(index)\n"
            "return batches",
            "Every index once",
        ),
        # the longest of all batches before counts for ever
        (
            "batches, longest = [[]], 0\n"
            "for index in order:\n"
            "    longest = max(longest, lengths[index])\n"
            "    if batches[-1] and longest * (len(batches[-1]) + 1) > max_tokens:\n"
            "        batches.append([])\n"
            "    batches[-1].append(index)\n"
            "return batches",
            "a fresh longest",
        ),
    ],
    "03-cut-original": [
        # the positions of the normalised text
        ("return text[start:end]", "Positions moved"),
        # the offset behind the last character, which the last one has not got, and half of one
        ("return text[offsets[start] : offsets[end % len(offsets)]]", "from the one character"),
        # fails at the end only
        (
            "last = offsets[end] if end < len(offsets) else offsets[end - 1]\n"
            "return text[offsets[start] : max(last, offsets[start] + (end < len(offsets)))]",
            "nothing behind it",
        ),
    ],
}
