"""Two typical wrong answers for each exercise of chapter 10, with the hint that each must draw."""

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
            "A path begins at the top",
        ),
        # nothing for what stands at the top
        (
            'return [f"{path}##{name}" for above in parents.get(name, [])'
            " for path in paths_to(above, parents)]",
            "What has no parents",
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
    ],
}
