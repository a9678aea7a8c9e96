"""Two typical wrong answers for each exercise of chapter 02, with the hint that each must draw."""

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
    ],
}
