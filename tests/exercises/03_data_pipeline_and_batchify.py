"""Typical wrong answers for each exercise of chapter 03, with the hint that each must draw."""

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
        # size - 1 as the step
        (
            "found, first = [], 0\n"
            "while True:\n"
            "    end = min(first + size, length)\n"
            "    found.append((first, end))\n"
            "    if end == length:\n"
            "        return found\n"
            "    first += size - 1",
            "tokens apart",
        ),
        # last moved back
        (
            "found, first = [], 0\n"
            "while first + size < length:\n"
            "    found.append((first, first + size))\n"
            "    first += step\n"
            "found.append((max(0, length - size), length))\n"
            "return found",
            "do not move it back",
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
        # a call for each
        (
            "out = []\n"
            "for e in examples:\n"
            '    f = dict(tokenizer(e["text"], max_length=max_length, truncation=True))\n'
            '    out.append({"input_ids": f["input_ids"], "token_type_ids": f["token_type_ids"], '
            '"labels": e["label"]})\n'
            "return out",
            "Call the tokenizer once",
        ),
        # padded
        (
            'encoded = tokenizer([e["text"] for e in examples], max_length=max_length, '
            "truncation=True, padding=True)\n"
            'return [{"input_ids": i, "token_type_ids": t, "labels": e["label"]} for i, t, e in '
            'zip(encoded["input_ids"], encoded["token_type_ids"], examples)]',
            "Do not pad",
        ),
        # cut by hand: no [SEP]
        (
            'encoded = tokenizer([e["text"] for e in examples])\n'
            'return [{"input_ids": i[:max_length], "token_type_ids": t[:max_length], "labels": '
            'e["label"]} for i, t, e in zip(encoded["input_ids"], encoded["token_type_ids"], '
            "examples)]",
            "let it cut",
        ),
        # examples changed
        (
            'encoded = tokenizer([e["text"] for e in examples], max_length=max_length, '
            "truncation=True)\n"
            'for i, t, e in zip(encoded["input_ids"], encoded["token_type_ids"], examples):\n'
            '    del e["text"]\n'
            '    e.update(input_ids=i, token_type_ids=t, labels=e.pop("label"))\n'
            "return examples",
            "make new ones",
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
            "return pad([row[:short] for row in ids]), pad([row[:short] for row in labels])",
            "not (2, 3)",
        ),
        # samples grow
        (
            "longest = max(len(ids) for ids, _ in samples)\n"
            "for i, l in samples:\n"
            "    while len(i) < longest:\n"
            "        i.append(pad_id)\n"
            "        l.append(-100)\n"
            "return np.array([i for i, _ in samples]), np.array([l for _, l in samples])",
            "have changed",
        ),
        # first is the longest
        (
            "longest = len(samples[0][0])\n"
            "return (np.array([(i + [pad_id] * longest)[:longest] for i, _ in samples]), "
            "np.array([(l + [-100] * longest)[:longest] for _, l in samples]))",
            "not (2, 3)",
        ),
        # float
        (
            "longest = max(len(ids) for ids, _ in samples)\n"
            "ids = np.zeros((len(samples), longest)) + pad_id\n"
            "labels = np.zeros((len(samples), longest)) - 100\n"
            "for row, (i, l) in enumerate(samples):\n"
            "    ids[row, : len(i)] = i\n"
            "    labels[row, : len(l)] = l\n"
            "return ids, labels",
            "not floats",
        ),
        # label 0 becomes -100
        (
            "longest = max(len(ids) for ids, _ in samples)\n"
            "ids = np.array([i + [pad_id] * (longest - len(i)) for i, _ in samples])\n"
            "labels = np.array([l + [0] * (longest - len(l)) for _, l in samples])\n"
            "labels[labels == 0] = -100\n"
            "return ids, labels",
            "only padding gets -100",
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
        # strict
        (
            "batches = []\n"
            "for i in order:\n"
            "    if batches and max(lengths[j] for j in batches[-1] + [i]) * (len(batches[-1]) + "
            "1) < max_tokens:\n"
            "        batches[-1].append(i)\n"
            "    else:\n"
            "        batches.append([i])\n"
            "return batches",
            "exactly max_tokens is allowed",
        ),
        # empty batch in front of a row that is too long
        (
            "batches, batch, longest = [], [], 0\n"
            "for i in order:\n"
            "    if max(longest, lengths[i]) * (len(batch) + 1) > max_tokens:\n"
            "        batches.append(batch)\n"
            "        batch, longest = [], 0\n"
            "    batch.append(i)\n"
            "    longest = max(longest, lengths[i])\n"
            "batches.append(batch)\n"
            "return batches",
            "no empty one",
        ),
        # order ignored
        (
            "batches = []\n"
            "for i in range(len(lengths)):\n"
            "    if batches and max(lengths[j] for j in batches[-1] + [i]) * (len(batches[-1]) + "
            "1) <= max_tokens:\n"
            "        batches[-1].append(i)\n"
            "    else:\n"
            "        batches.append([i])\n"
            "return batches",
            "The order [2, 1, 0]",
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
        # twice
        (
            'return "".join(text[i] for i in offsets[start:end])',
            "from the one character",
        ),
        # end is included in the input
        (
            "return text[offsets[start] : offsets[min(end, len(offsets) - 1)] + 1]",
            "not from",
        ),
    ],
}
