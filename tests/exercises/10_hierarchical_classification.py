"""Typical wrong answers for each exercise of chapter 10, with the hint that each must draw."""

WRONG = {
    "10-paths": [
        # the first parent only
        (
            "if not parents.get(name):\n"
            "    return [name]\n"
            'return [f"{path}##{name}" for path in paths_to(parents[name][0], parents)]',
            "Four ways lead to",
        ),
        # one step upwards
        (
            "if not parents.get(name):\n"
            "    return [name]\n"
            'return [f"{above}##{name}" for above in parents[name]]',
            "begins at the top",
        ),
        # nothing for what stands at the top
        (
            'return [f"{path}##{name}" for above in parents.get(name, [])'
            " for path in paths_to(above, parents)]",
            "What has no parents",
        ),
        # a set
        (
            "if name not in parents:\n"
            "    return {name}\n"
            "return {f'{path}##{name}' for parent in parents[name] for path in paths_to(parent, "
            "parents)}",
            "a list of strings",
        ),
        # upwards
        (
            "if name not in parents:\n"
            "    return [name]\n"
            "return [f'{name}##{path}' for parent in parents[name] for path in paths_to(parent, "
            "parents)]",
            "ends in the name itself",
        ),
        # reads the chapter's graph
        (
            "if name not in edges:\n"
            "    return [name]\n"
            "return [f'{path}##{name}' for parent in edges[name] for path in paths_to(parent, "
            "edges)]",
            "Read `parents`",
        ),
        # changes what it was given
        (
            "if not parents.setdefault(name, []):\n"
            "    return [name]\n"
            "return [f'{path}##{name}' for parent in parents[name] for path in paths_to(parent, "
            "parents)]",
            "has changed `parents`",
        ),
    ],
    "10-micro-f1": [
        # the mean over the texts
        (
            "values = [2 * len(a & b) / (len(a) + len(b)) for a, b in zip(true, found)]\n"
            "return sum(values) / len(values)",
            "No mean over the texts",
        ),
        # the share of texts that are right in all labels
        ("return sum(a == b for a, b in zip(true, found)) / len(true)", "count labels, not texts"),
        # right ones count once
        (
            "right = sum(len(a & b) for a, b in zip(true, found))\n"
            "return right / sum(len(a) + len(b) for a, b in zip(true, found))",
            "Right labels count twice",
        ),
        # precision
        (
            "return sum(len(t & f) for t, f in zip(true, found)) / sum(map(len, found))",
            "Precision or recall alone",
        ),
        # leaves out texts without any found label
        (
            "pairs = [(t, f) for t, f in zip(true, found) if f]\n"
            "right = sum(len(t & f) for t, f in pairs)\n"
            "return 2 * right / sum(len(t) + len(f) for t, f in pairs)",
            "of all texts",
        ),
        # changes what it was given
        (
            "right = a = b = 0\n"
            "for t, f in zip(true, found):\n"
            "    a, b = a + len(t), b + len(f)\n"
            "    t &= f\n"
            "    right += len(t)\n"
            "return 2 * right / (a + b)",
            "has changed the sets",
        ),
        # over the labels of both together
        (
            "return 2 * sum(len(t & f) for t, f in zip(true, found)) / sum(len(t | f) for t, f "
            "in zip(true, found))",
            "F1 is not",
        ),
    ],
    "10-threshold": [
        # the best precision
        (
            "def precision(limit):\n"
            "    return true[probabilities >= limit].mean()\n"
            "return max(probabilities, key=precision)",
            "the best precision",
        ),
        # the best recall
        (
            "def recall(limit):\n"
            "    return (true & (probabilities >= limit)).sum()\n"
            "return min(probabilities, key=lambda one: (-recall(one), one))",
            "the best recall",
        ),
        # always one half
        ("return 0.5", "One half"),
        # accuracy in the place of F1
        (
            "def accuracy(limit):\n"
            "    return ((probabilities >= limit) == true).mean()\n"
            "return max(probabilities, key=accuracy)",
            "accuracy rewards",
        ),
        # above, not at least
        (
            "return max(probabilities, key=lambda l: f1_score(true, probabilities > l, "
            "zero_division=0))",
            "*equal* to the threshold",
        ),
        # a grid of hundredths
        (
            "return max(np.linspace(0, 1, 101), key=lambda l: f1_score(true, probabilities >= "
            "l, zero_division=0))",
            "other numbers may miss",
        ),
        # finds every text that has the label
        (
            "return probabilities[np.asarray(true, bool)].min()",
            "50 wrong ones pass",
        ),
        # the lowest probability is no candidate
        (
            "return max(np.unique(probabilities)[1:], key=lambda l: f1_score(true, "
            "probabilities >= l))",
            "the lowest one is a candidate",
        ),
        # sorts the probabilities, not the labels
        (
            "probabilities.sort()\n"
            "return max(probabilities, key=lambda l: f1_score(true, probabilities >= l))",
            "order of `probabilities` has changed",
        ),
    ],
    "10-orphans": [
        # the parent alone is asked for
        (
            "kept = set()\n"
            "for label in labels:\n"
            '    above = label.rpartition("##")[0]\n'
            "    if not above or above in labels:\n"
            "        kept.add(label)\n"
            "return kept",
            "but not its parent's parent",
        ),
        # adds what is missing
        (
            "full = set()\n"
            "for label in labels:\n"
            '    parts = label.split("##")\n'
            '    full |= {"##".join(parts[:end]) for end in range(1, len(parts) + 1)}\n'
            "return full",
            "here nothing is added",
        ),
        # the top alone is asked for
        (
            'return {label for label in labels if label.split("##")[0] in labels}',
            "not what is between",
        ),
        # changes what it was given
        (
            "for label in sorted(labels, key=len):\n"
            "    if '##' in label and label.rpartition('##')[0] not in labels:\n"
            "        labels.discard(label)\n"
            "return labels",
            "has changed the set",
        ),
        # right for three levels only
        (
            "def ok(l):\n"
            "    parts = l.split('##')\n"
            "    if len(parts) == 1:\n"
            "        return True\n"
            "    if len(parts) == 2:\n"
            "        return parts[0] in labels\n"
            "    return parts[0] in labels and '##'.join(parts[:2]) in labels\n"
            "\n"
            "return {l for l in labels if ok(l)}",
            "*every* part above",
        ),
        # the top and the parent only
        (
            "return {l for l in labels if '##' not in l or l.split('##')[0] in labels and "
            "l.rsplit('##', 1)[0] in labels}",
            "*every* part above",
        ),
        # a list
        (
            "return [l for l in labels if set(taxonomy.ancestors(l)) <= labels]",
            "Return a set",
        ),
    ],
}
