"""Typical wrong answers for each exercise of chapter 04, with the hint that each must draw."""

WRONG = {
    "04-new-weights": [
        # what the file has too much
        (
            "return [name for name in file_names if name not in model_names]",
            "not new, unused",
        ),
        # forgets that a bare encoder's file has no prefix
        (
            "return [name for name in model_names if name not in file_names]",
            "A bare encoder's file has pooler.weight",
        ),
        # a set has no order
        (
            "there = set(file_names) | {prefix + name for name in file_names}\n"
            "return sorted(set(model_names) - there)",
            "Keep the model's order",
        ),
        # fixed prefix
        (
            'known = set(file_names) | {"ernie." + n for n in file_names}\n'
            "return [n for n in model_names if n not in known]",
            "The prefix is an argument",
        ),
        # endswith
        (
            "return [n for n in model_names if not any(n.endswith(f) for f in file_names)]",
            "compare whole names",
        ),
        # lstrip
        (
            "return [n for n in model_names if n not in file_names and n.lstrip(prefix) not in "
            "file_names]",
            "a whole word",
        ),
        # set
        (
            "return set(model_names) - set(file_names) - {prefix + n for n in file_names}",
            "Return a list",
        ),
    ],
    "04-token-loss": [
        # divides by all tokens
        (
            "kept = labels != -100\n"
            "p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)\n"
            "return -np.log(p[kept, labels[kept]]).sum() / len(labels)",
            "Divide by the tokens that have a label only",
        ),
        # forgets the minus
        (
            "kept = labels != -100\n"
            "p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)\n"
            "return np.log(p[kept, labels[kept]]).mean()",
            "it is never negative",
        ),
        # one loss a token
        (
            "kept = labels != -100\n"
            "p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)\n"
            "return -np.log(p[kept, labels[kept]])",
            "take the mean",
        ),
        # softmax over the tokens
        (
            "kept = labels != -100\n"
            "p = np.exp(logits) / np.exp(logits).sum(axis=0, keepdims=True)\n"
            "return -np.log(p[kept, labels[kept]]).mean()",
            "Paddle says",
        ),
        # O left out too
        (
            "keep = labels > 0\n"
            "p = np.exp(logits[keep])\n"
            "p = p / p.sum(-1, keepdims=True)\n"
            "return float(-np.log(p[np.arange(keep.sum()), labels[keep]]).mean())",
            "Label 0 counts",
        ),
        # labels changed in place
        (
            "keep = labels != -100\n"
            "labels[labels == -100] = 0\n"
            "p = np.exp(logits)\n"
            "p = p / p.sum(-1, keepdims=True)\n"
            "return float(-np.log(p[np.arange(len(labels)), labels])[keep].mean())",
            "work on copies",
        ),
        # paddle tensor
        (
            "return cross_entropy(paddle.to_tensor(logits), paddle.to_tensor(labels))",
            "computed with NumPy",
        ),
    ],
    "04-best-span": [
        # each end on its own
        ("return int(np.argmax(start)), int(np.argmax(end))", "cannot end before it begins"),
        # one token too many
        (
            "pairs = [(i, j) for i in range(len(start)) for j in range(i, len(end))\n"
            "         if j <= i + longest]\n"
            "return max(pairs, key=lambda p: start[p[0]] + end[p[1]])",
            "the same token",
        ),
        # the best first token, then the best last one behind it
        (
            "i = int(np.argmax(start))\nreturn i, i + int(np.argmax(end[i : i + longest]))",
            "may belong to a poor span",
        ),
        # best begins at 0 with a default span
        (
            "best, span = 0, (0, 0)\n"
            "for i in range(len(start)):\n"
            "    for j in range(i, min(i + longest, len(end))):\n"
            "        if start[i] + end[j] > best:\n"
            "            best, span = start[i] + end[j], (i, j)\n"
            "return span",
            "all scores are negative",
        ),
        # longest off by one below
        (
            "n = len(start)\n"
            "return max(((i, j) for i in range(n) for j in range(i, min(n, i + max(longest - 1, "
            "1)))), key=lambda p: start[p[0]] + end[p[1]])",
            "allows spans of two tokens",
        ),
        # end excluded
        (
            "n = len(start)\n"
            "i, j = max(((i, j) for i in range(n) for j in range(i, min(n, i + longest))), "
            "key=lambda p: start[p[0]] + end[p[1]])\n"
            "return i, j + 1",
            "at (2, 3), not at (2, 4)",
        ),
    ],
    "04-biases": [
        # the other way round
        (
            "for name, p in model.named_parameters():\n"
            "    p.stop_gradient = name.endswith('bias') or name.startswith('classifier.')\n"
            "return 0.01",
            "The head is new",
        ),
        # freezes the new head too
        (
            "for name, p in model.named_parameters():\n"
            "    p.stop_gradient = not name.endswith('bias')\n"
            "return trainable(model) / sum(p.size for p in model.parameters())",
            "The head is new",
        ),
        # counts tensors
        (
            "kept = 0\n"
            "for name, p in model.named_parameters():\n"
            "    p.stop_gradient = not (name.endswith('bias') or name.startswith('classifier.'))\n"
            "    kept += not p.stop_gradient\n"
            "return kept / len(model.parameters())",
            "not tensors",
        ),
        # changes nothing
        ("return 0.01", "still train that should be frozen"),
        # biases frozen
        (
            "for name, p in model.named_parameters():\n"
            '    p.stop_gradient = not name.startswith("classifier.")\n'
            "return sum(p.size for p in model.parameters() if not p.stop_gradient) / sum(p.size "
            "for p in model.parameters())",
            "biases are frozen",
        ),
        # frozen share
        (
            "for name, p in model.named_parameters():\n"
            '    p.stop_gradient = not (name.endswith("bias") or name.startswith("classifier."))\n'
            "return sum(p.size for p in model.parameters() if p.stop_gradient) / sum(p.size for "
            "p in model.parameters())",
            "the share that is frozen",
        ),
        # computed before freezing
        (
            "share = sum(p.size for p in model.parameters() if not p.stop_gradient) / sum(p.size "
            "for p in model.parameters())\n"
            "for name, p in model.named_parameters():\n"
            '    p.stop_gradient = not (name.endswith("bias") or name.startswith("classifier."))\n'
            "return share",
            "Count after freezing",
        ),
    ],
    "04-parameters": [
        # no pooler
        (
            "h, f = config['hidden_size'], config['intermediate_size']\n"
            "rows = config['vocab_size'] + config['max_position_embeddings']\n"
            "rows += config['type_vocab_size']\n"
            "layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h\n"
            "return rows * h + 2 * h + config['num_hidden_layers'] * layer",
            "The pooler is missing",
        ),
        # no layer norms
        (
            "h, f = config['hidden_size'], config['intermediate_size']\n"
            "rows = config['vocab_size'] + config['max_position_embeddings']\n"
            "rows += config['type_vocab_size']\n"
            "layer = 4 * (h * h + h) + 2 * h * f + f + h\n"
            "return rows * h + config['num_hidden_layers'] * layer + h * h + h",
            "The layer norm of the embeddings is missing",
        ),
        # no biases in the layers
        (
            "h, f = config['hidden_size'], config['intermediate_size']\n"
            "rows = config['vocab_size'] + config['max_position_embeddings']\n"
            "rows += config['type_vocab_size']\n"
            "layer = 4 * h * h + 2 * h * f + 4 * h\n"
            "return rows * h + 2 * h + config['num_hidden_layers'] * layer + h * h + h",
            "The biases of the layers are missing",
        ),
        # one layer only
        (
            "h, f = config['hidden_size'], config['intermediate_size']\n"
            "rows = config['vocab_size'] + config['max_position_embeddings']\n"
            "rows += config['type_vocab_size']\n"
            "layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h\n"
            "return rows * h + 2 * h + 3 * layer + h * h + h",
            "Use num_hidden_layers",
        ),
        # f is 4h
        (
            "g = lambda k: config[k] if isinstance(config, dict) else getattr(config, k)\n"
            'v, h, f, n = g("vocab_size"), g("hidden_size"), g("intermediate_size"), '
            'g("num_hidden_layers")\n'
            'rows = v + g("max_position_embeddings") + g("type_vocab_size")\n'
            "f = 4 * h\n"
            "return rows * h + 2 * h + n * (4 * (h * h + h) + h * f + f + f * h + h + 4 * h) + h "
            "* h + h",
            "The 3 layers have",
        ),
        # types forgotten
        (
            "g = lambda k: config[k] if isinstance(config, dict) else getattr(config, k)\n"
            'v, h, f, n = g("vocab_size"), g("hidden_size"), g("intermediate_size"), '
            'g("num_hidden_layers")\n'
            'rows = v + g("max_position_embeddings") + g("type_vocab_size")\n'
            "return (rows - g('type_vocab_size')) * h + 2 * h + n * (4 * (h * h + h) + h * f + f "
            "+ f * h + h + 4 * h) + h * h + h",
            "Embeddings and pooler have",
        ),
    ],
}
