"""Typical wrong answers for each exercise of chapter 19, with the hint that each must draw."""

WRONG = {
    "19-only-brands": [
        # names in place of ids
        (
            "names = [tagger.label_list[y] for y in example['labels']]\n"
            "names = [n if n.startswith('BRAND') else 'O' for n in names]\n"
            "return {**example, 'labels': names}",
            "Labels are ids",
        ),
        # an id compared with names
        (
            "o = tagger.label_list.index('O')\n"
            "brand = ('BRAND-B', 'BRAND-I')\n"
            "return {**example, 'labels': [y if y in brand else o for y in example['labels']]}",
            "compare ids with ids",
        ),
        # the other tokens left out
        (
            "names = tagger.label_list\n"
            "brand = {names.index('BRAND-B'), names.index('BRAND-I')}\n"
            "return {**example, 'labels': [y for y in example['labels'] if y in brand]}",
            "Each token keeps one label",
        ),
        # only the labels
        (
            "names = [tagger.label_list[y] for y in example['labels']]\n"
            "o = tagger.label_list.index('O')\n"
            "return [y if n[:5] == 'BRAND' else o for y, n in zip(example['labels'], names)]",
            "Return a dictionary",
        ),
        # the example itself is changed
        (
            "names = tagger.label_list\n"
            "brand = {names.index('BRAND-B'), names.index('BRAND-I')}\n"
            "for i, y in enumerate(example['labels']):\n"
            "    if y not in brand:\n"
            "        example['labels'][i] = names.index('O')\n"
            "return example",
            "Leave the example as it was",
        ),
        # the inside of a brand is forgotten
        (
            "names = tagger.label_list\n"
            "b, o = names.index('BRAND-B'), names.index('O')\n"
            "return {'tokens': example['tokens'],"
            " 'labels': [y if y == b else o for y in example['labels']]}",
            "A brand has two labels",
        ),
        # 0 is no O here
        (
            "names = tagger.label_list\n"
            "brand = {names.index('BRAND-B'), names.index('BRAND-I')}\n"
            "return {'tokens': example['tokens'],"
            " 'labels': [y if y in brand else 0 for y in example['labels']]}",
            "Everything but 携程 is O",
        ),
    ],
    "19-viterbi": [
        # each token by itself
        ("return emissions.argmax(axis=1).tolist()", "add the transitions"),
        # transitions the other way round
        (
            "best, back = emissions[0], []\n"
            "for e in emissions[1:]:\n"
            "    step = best[:, None] + transitions.T\n"
            "    back.append(step.argmax(axis=0))\n"
            "    best = step.max(axis=0) + e\n"
            "row = [int(best.argmax())]\n"
            "for b in reversed(back):\n"
            "    row.append(int(b[row[-1]]))\n"
            "return row[::-1]",
            "turn it",
        ),
        # from left to right, never looking back
        (
            "row = [int(emissions[0].argmax())]\n"
            "for e in emissions[1:]:\n"
            "    row.append(int((transitions[row[-1]] + e).argmax()))\n"
            "return row",
            "never looks back",
        ),
        # the label with the best score so far, at every place
        (
            "best, row = emissions[0], [int(emissions[0].argmax())]\n"
            "for e in emissions[1:]:\n"
            "    best = (best[:, None] + transitions).max(axis=0) + e\n"
            "    row.append(int(best.argmax()))\n"
            "return row",
            "does each step keep where it came from",
        ),
        # sums up in the emissions themselves
        (
            "back = []\n"
            "for last, e in zip(emissions, emissions[1:]):\n"
            "    step = last[:, None] + transitions\n"
            "    back.append(step.argmax(axis=0))\n"
            "    e += step.max(axis=0)\n"
            "row = [int(emissions[-1].argmax())]\n"
            "for b in reversed(back):\n"
            "    row.append(int(b[row[-1]]))\n"
            "return row[::-1]",
            "Leave the emissions as they are",
        ),
    ],
    "19-touchpad": [
        # three terms
        (
            "for name in ('触控板', '触板'):\n"
            "    tree.add(name, '部件', parent='笔记本')\n"
            "return tree.add('触摸板', '部件', parent='笔记本')",
            "use aliases",
        ),
        # one name is forgotten
        (
            "return tree.add('触摸板', '部件', parent='笔记本', aliases=['触控板'])",
            "is not found",
        ),
        # below the computer
        (
            "return tree.add('触摸板', '部件', parent='电脑', aliases=['触控板', '触板'])",
            "Its parent is 笔记本",
        ),
        # the name of the term
        (
            "tree.add('触摸板', '部件', parent='笔记本', aliases=['触控板', '触板'])\n"
            "return '触摸板'",
            "Return the term",
        ),
        # a tree of its own
        (
            "tree = TermTree.read(file)\n"
            "return tree.add('触摸板', '部件', parent='笔记本', aliases=['触控板', '触板'])",
            "Nothing was added",
        ),
    ],
    "19-bioes": [
        # the end is included
        (
            "found, start = [], None\n"
            "for i, label in enumerate(labels):\n"
            "    if label[0] in 'BS':\n"
            "        start = i\n"
            "    if label[0] in 'ES':\n"
            "        found.append((start, i, label[2:]))\n"
            "return found",
            "The end is excluded",
        ),
        # S is not read
        (
            "found, start = [], None\n"
            "for i, label in enumerate(labels):\n"
            "    if label[0] == 'B':\n"
            "        start = i\n"
            "    if label[0] == 'E':\n"
            "        found.append((start, i + 1, label[2:]))\n"
            "return found",
            "are two entities",
        ),
        # the type cut short
        (
            "found = []\n"
            "for i, label in enumerate(labels):\n"
            "    if label[0] in 'BS':\n"
            "        start = i\n"
            "    if label[0] in 'ES':\n"
            "        found.append((start, i + 1, label.split('-')[-1]))\n"
            "return found",
            "first hyphen only",
        ),
        # uses the labels up
        (
            "found, i = [], 0\n"
            "while labels:\n"
            "    label = labels.pop(0)\n"
            "    if label[0] in 'BS':\n"
            "        start = i\n"
            "    i += 1\n"
            "    if label[0] in 'ES':\n"
            "        found.append((start, i, label[2:]))\n"
            "return found",
            "Leave the labels as they are",
        ),
        # the prefix left on
        (
            "found = []\n"
            "for i, label in enumerate(labels):\n"
            "    if label[0] in 'BS':\n"
            "        start = i\n"
            "    if label[0] in 'ES':\n"
            "        found.append((start, i + 1, label))\n"
            "return found",
            "Types have no B- or S-",
        ),
    ],
    "19-windows": [
        # rounded down
        ("return max(1, 1 + (length - room) // stride)", "round up"),
        # as many as fit without overlap
        ("return -(-length // room)", "begin at 0, 90, 180"),
        # a window at every beginning
        ("return -(-length // stride)", "just fits is one window"),
        # the stride taken for the overlap
        (
            "return 1 if length <= room else 1 - (room - length) // max(1, room - stride)",
            "not what they share",
        ),
        # a passage that is shorter than the room
        ("return 1 - (room - length) // stride", "not none"),
    ],
}
