"""Typical wrong answers for each exercise of chapter 02, with the hint that each must draw."""

WRONG = {
    "02-stream": [
        # the running generator: one pass only
        (
            "def lines():\n"
            "    for path in paths:\n"
            '        with open(path, encoding="utf-8") as file:\n'
            "            for line in file:\n"
            '                yield {"text": line.rstrip("\\n")}\n'
            "return IterDataset(lines())",
            "hand over the function",
        ),
        # line breaks stay
        (
            "def lines():\n"
            "    for path in paths:\n"
            '        with open(path, encoding="utf-8") as file:\n'
            "            for line in file:\n"
            '                yield {"text": line}\n'
            "return IterDataset(lines)",
            "without \\n",
        ),
        # everything in memory
        (
            "texts = [line for path in paths for line in open(path).read().splitlines()]\n"
            'return MapDataset([{"text": text} for text in texts])',
            "an IterDataset",
        ),
        # whole files
        (
            "from pathlib import Path\n"
            "def lines():\n"
            "    for path in paths:\n"
            '        for text in Path(path).read_text(encoding="utf-8").splitlines():\n'
            '            yield {"text": text}\n'
            "return IterDataset(lines)",
            "read line by line",
        ),
        # function that returns a list
        (
            "def lines():\n"
            "    rows = []\n"
            "    for path in paths:\n"
            '        with open(path, encoding="utf-8") as file:\n'
            '            rows += [{"text": line.rstrip("\\n")} for line in file]\n'
            "    return rows\n"
            "return IterDataset(lines)",
            "read line by line",
        ),
        # last character cut
        (
            "def lines():\n"
            "    for path in paths:\n"
            '        with open(path, encoding="utf-8") as file:\n'
            "            for line in file:\n"
            '                yield {"text": line[:-1]}\n'
            "return IterDataset(lines)",
            "may have no",
        ),
        # rstrip takes spaces too
        (
            "def lines():\n"
            "    for path in paths:\n"
            '        with open(path, encoding="utf-8") as file:\n'
            "            for line in file:\n"
            '                yield {"text": line.rstrip()}\n'
            "return IterDataset(lines)",
            "with its spaces",
        ),
        # empty lines left out
        (
            "def lines():\n"
            "    for path in paths:\n"
            '        with open(path, encoding="utf-8") as file:\n'
            "            for line in file:\n"
            "                if line.strip():\n"
            '                    yield {"text": line.rstrip("\\n")}\n'
            "return IterDataset(lines)",
            "also for an empty line",
        ),
    ],
    "02-read-checked": [
        # no check at all
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        label, text = line.rstrip("\\n").split("\\t")\n'
            '        yield {"text": text, "label": int(label)}',
            "must be refused",
        ),
        # counts from 0
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for number, line in enumerate(file):\n"
            '        fields = line.rstrip("\\n").split("\\t")\n'
            '        if len(fields) != 2 or fields[0] not in ("0", "1"):\n'
            '            raise ValueError(f"line {number}")\n'
            '        yield {"text": fields[1], "label": int(fields[0])}',
            "counted from 1",
        ),
        # the label stays a string
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        label, text = line.rstrip("\\n").split("\\t")\n'
            '        yield {"text": text, "label": label}',
            "the label as an int",
        ),
        # a list
        (
            "rows = []\n"
            'with open(path, encoding="utf-8") as file:\n'
            "    for number, line in enumerate(file, 1):\n"
            '        fields = line.rstrip("\\n").split("\\t")\n'
            '        if len(fields) != 2 or fields[0] not in ("0", "1"):\n'
            '            raise ValueError(f"line {number}")\n'
            '        rows.append({"text": fields[1], "label": int(fields[0])})\n'
            "return rows",
            "a list is no generator",
        ),
        # tab not checked
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for number, line in enumerate(file, 1):\n"
            '        label, text = line.rstrip("\\n").split("\\t")\n'
            '        if label not in ("0", "1"):\n'
            '            raise ValueError(f"line {number}: label {label}")\n'
            '        yield {"text": text, "label": int(label)}',
            "A line without a tab: the message",
        ),
        # path instead of number
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        fields = line.rstrip("\\n").split("\\t")\n'
            '        if len(fields) != 2 or fields[0] not in ("0", "1"):\n'
            '            raise ValueError(f"{path}: bad line {line!r}")\n'
            '        yield {"text": fields[1], "label": int(fields[0])}',
            "the number of the bad line",
        ),
        # split at white space once
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for number, line in enumerate(file, 1):\n"
            '        fields = line.rstrip("\\n").split(maxsplit=1)\n'
            '        if len(fields) != 2 or fields[0] not in ("0", "1"):\n'
            '            raise ValueError(f"line {number}")\n'
            '        yield {"text": fields[1], "label": int(fields[0])}',
            "without a tab must be refused",
        ),
        # label in "01"
        (
            'with open(path, encoding="utf-8") as file:\n'
            "    for number, line in enumerate(file, 1):\n"
            '        fields = line.rstrip("\\n").split("\\t")\n'
            '        if len(fields) != 2 or fields[0] not in "01":\n'
            '            raise ValueError(f"line {number}")\n'
            '        yield {"text": fields[1], "label": int(fields[0])}',
            "An empty label: the message",
        ),
    ],
    "02-balanced": [
        # filter changes the data set that was passed in
        (
            "seen = {}\n"
            "def few(example):\n"
            '    seen[example["label"]] = seen.get(example["label"], 0) + 1\n'
            '    return seen[example["label"]] <= per_label\n'
            "return dataset.filter(few)",
            "filter works in place",
        ),
        # the first examples, whatever their labels
        (
            "rows = [dataset[i] for i in range(2 * per_label)]\n"
            "return MapDataset(rows, label_list=dataset.label_list)",
            "first two of each label",
        ),
        # the label_list is lost
        (
            "taken, rows = {}, []\n"
            "for i in range(len(dataset)):\n"
            '    label = dataset[i]["label"]\n'
            "    taken[label] = taken.get(label, 0) + 1\n"
            "    if taken[label] <= per_label:\n"
            "        rows.append(dataset[i])\n"
            "return MapDataset(rows)",
            "label_list on",
        ),
        # grouped by label
        (
            "rows = []\n"
            "for label in range(len(dataset.label_list)):\n"
            '    rows += [e for e in dataset if e["label"] == label][:per_label]\n'
            "return MapDataset(rows, label_list=dataset.label_list)",
            "Keep the order",
        ),
        # two labels
        (
            "rows, counts = [], [0, 0]\n"
            "for e in dataset:\n"
            '    if e["label"] < 2:\n'
            '        counts[e["label"]] += 1\n'
            '        if counts[e["label"]] <= per_label:\n'
            "            rows.append(e)\n"
            "return MapDataset(rows, label_list=dataset.label_list)",
            "first two of each label",
        ),
        # as few as the rarest
        (
            "from collections import Counter\n"
            'n = min(per_label, *Counter(e["label"] for e in dataset).values())\n'
            "taken, rows = {}, []\n"
            "for example in dataset:\n"
            '    label = example["label"]\n'
            "    taken[label] = taken.get(label, 0) + 1\n"
            "    if taken[label] <= n:\n"
            "        rows.append(example)\n"
            "return MapDataset(rows, label_list=dataset.label_list)",
            "one that has only two",
        ),
    ],
    "02-builder": [
        # numbers instead of names
        (
            'with open(filename, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        first, second, label = line.rstrip("\\n").split("\\t")\n'
            '        yield {"sentence1": first, "sentence2": second, "label": 1}',
            "the name of the label",
        ),
        # lcqmc's keys
        (
            'with open(filename, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        first, second, label = line.rstrip("\\n").split("\\t")\n'
            '        yield {"query": first, "title": second, "label": label}',
            "Three keys",
        ),
        # swapped
        (
            'with open(filename, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        second, first, label = line.rstrip("\\n").split("\\t")\n'
            '        yield {"sentence1": first, "sentence2": second, "label": label}',
            "the second is sentence2",
        ),
        # header skipped
        (
            'with open(filename, encoding="utf-8") as file:\n'
            "    next(file)\n"
            "    for line in file:\n"
            '        first, second, label = line.rstrip("\\n").split("\\t")\n'
            '        yield {"sentence1": first, "sentence2": second, "label": label}',
            "there is no header",
        ),
        # compared with the line break
        (
            'with open(filename, encoding="utf-8") as file:\n'
            "    for line in file:\n"
            '        first, second, label = line.split("\\t")\n'
            '        yield {"sentence1": first, "sentence2": second, "label": "same" if label == '
            '"same" else "different"}',
            "without its line break",
        ),
    ],
}
