"""Two typical wrong answers for each exercise of chapter 04, with the hint that each must draw."""

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
            "The layer norms are missing",
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
            "Use the layers",
        ),
    ],
}
