"""Typical wrong answers for each exercise of chapter 17, with the hint that each must draw."""

WRONG = {
    "17-without-embeddings": [
        # generated names: the embeddings' own layer norm is called layer_norm_N
        (
            "return [p for p in model.parameters() if 'embedding' not in p.name]",
            "The layer norm of the embeddings moved",
        ),
        # freezes the whole encoder
        (
            "return [p for n, p in model.named_parameters() if not n.startswith('ernie.')]",
            "leave out embeddings only",
        ),
        # the other way round
        (
            "return [p for n, p in model.named_parameters() if n.startswith('ernie.embeddings.')]",
            "Nothing was trained",
        ),
        # freezes in the model itself
        (
            "for p in model.ernie.embeddings.parameters():\n"
            "    p.stop_gradient = True\n"
            "return [p for p in model.parameters() if not p.stop_gradient]",
            "freeze none",
        ),
        # the word anywhere in the name
        (
            "return [p for n, p in model.named_parameters() if 'embeddings' not in n]",
            "label_embeddings.weight is missing",
        ),
        # names
        (
            "return [n for n, p in model.named_parameters() if not "
            "n.startswith('ernie.embeddings')]",
            "not their names",
        ),
    ],
    "17-batch-for": [
        # forgets what is taken already
        (
            "size = 1\n"
            "while 2 * size * an_example <= budget:\n"
            "    size *= 2\n"
            "return size if an_example <= budget else 0",
            "120 are taken before the first example",
        ),
        # not a power of two
        ("return (budget - fixed) // an_example", "no power of two"),
        # one at least
        (
            "size = 1\nwhile fixed + 2 * size * an_example <= budget:\n    size *= 2\nreturn size",
            "not even one fits",
        ),
        # what fits exactly is refused
        (
            "size = 0\n"
            "while fixed + max(1, 2 * size) * an_example < budget:\n"
            "    size = max(1, 2 * size)\n"
            "return size",
            "it fits",
        ),
        # rounds
        (
            "import math\n"
            "fit = (budget - fixed) / an_example\n"
            "return 2 ** round(math.log2(fit)) if fit >= 1 else 0",
            "round down",
        ),
        # begins at 2
        (
            "return max((2**k for k in range(1, 20) if fixed + 2**k * an_example <= budget), "
            "default=0)",
            "1 is a power of two",
        ),
        # a list of sizes
        (
            "return max((2**k for k in range(11) if fixed + 2**k * an_example <= budget), "
            "default=0)",
            "no largest batch",
        ),
    ],
    "17-accumulate": [
        # sums the pieces
        (
            "total = 0.0\n"
            "for i in range(0, len(labels), size):\n"
            "    loss = cross_entropy(net(inputs[i:i + size]), labels[i:i + size])\n"
            "    loss.backward()\n"
            "    total += float(loss)\n"
            "return total",
            "weigh each piece",
        ),
        # every piece counts the same
        (
            "firsts = range(0, len(labels), size)\n"
            "total = 0.0\n"
            "for i in firsts:\n"
            "    loss = cross_entropy(net(inputs[i:i + size]), labels[i:i + size]) / len(firsts)\n"
            "    loss.backward()\n"
            "    total += float(loss)\n"
            "return total",
            "by its share of the rows",
        ),
        # drops the short last piece
        (
            "total = 0.0\n"
            "for i in range(0, len(labels) - size + 1, size):\n"
            "    loss = cross_entropy(net(inputs[i:i + size]), labels[i:i + size])\n"
            "    (loss * size / len(labels)).backward()\n"
            "    total += float(loss) * size / len(labels)\n"
            "return total",
            "the last as well",
        ),
        # no pieces
        (
            "loss = cross_entropy(net(inputs), labels)\nloss.backward()\nreturn float(loss)",
            "All rows went through",
        ),
        # one backward at the end
        (
            "total = 0.0\n"
            "for start in range(0, len(inputs), size):\n"
            "    x, y = inputs[start : start + size], labels[start : start + size]\n"
            "    loss = cross_entropy(net(x), y) * (len(y) / len(labels))\n"
            "    total += loss\n"
            "total.backward()\n"
            "return float(total)",
            "before the next one",
        ),
        # a tensor
        (
            "total = 0.0\n"
            "for start in range(0, len(inputs), size):\n"
            "    x, y = inputs[start : start + size], labels[start : start + size]\n"
            "    loss = cross_entropy(net(x), y) * (len(y) / len(labels))\n"
            "    loss.backward()\n"
            "    total += loss\n"
            "return total",
            "as a float",
        ),
        # nothing is left
        (
            "total = 0.0\n"
            "for start in range(0, len(inputs), size):\n"
            "    x, y = inputs[start : start + size], labels[start : start + size]\n"
            "    loss = cross_entropy(net(x), y) * (len(y) / len(labels))\n"
            "    loss.backward()\n"
            "    total += float(loss)\n"
            "net.clear_gradients()\n"
            "return total",
            "No gradient is left",
        ),
    ],
    "17-predict": [
        # dropout is on
        (
            "with paddle.no_grad():\n"
            "    logits = paddle.concat([model(a, b) for a, b, _ in batches])\n"
            "return paddle.nn.functional.softmax(logits)[:, 1].numpy()",
            "call eval() first",
        ),
        # leaves the model in eval mode
        (
            "model.eval()\n"
            "with paddle.no_grad():\n"
            "    logits = paddle.concat([model(a, b) for a, b, _ in batches])\n"
            "return paddle.nn.functional.softmax(logits)[:, 1].numpy()",
            "without dropout",
        ),
        # always ends in train mode
        (
            "model.eval()\n"
            "with paddle.no_grad():\n"
            "    logits = paddle.concat([model(a, b) for a, b, _ in batches])\n"
            "model.train()\n"
            "return paddle.nn.functional.softmax(logits)[:, 1].numpy()",
            "It was in eval mode",
        ),
        # the flag of the model alone
        (
            "was = model.training\n"
            "model.eval()\n"
            "rows = []\n"
            "with paddle.no_grad():\n"
            "    for b in batches:\n"
            "        rows.append(paddle.nn.functional.softmax(model(*b[:2]), axis=-1)[:, "
            "1].numpy())\n"
            "model.training = was\n"
            "return np.concatenate(rows)",
            "the flag of the model is not enough",
        ),
        # the other class
        (
            "was = model.training\n"
            "model.eval()\n"
            "rows = []\n"
            "with paddle.no_grad():\n"
            "    for b in batches:\n"
            "        rows.append(paddle.nn.functional.softmax(model(*b[:2]), axis=-1)[:, "
            "0].numpy())\n"
            "if was:\n"
            "    model.train()\n"
            "return np.concatenate(rows)",
            "That is class 0",
        ),
        # softmax over the batch
        (
            "was = model.training\n"
            "model.eval()\n"
            "rows = []\n"
            "with paddle.no_grad():\n"
            "    for b in batches:\n"
            "        rows.append(paddle.nn.functional.softmax(model(*b[:2]), axis=0)[:, "
            "1].numpy())\n"
            "if was:\n"
            "    model.train()\n"
            "return np.concatenate(rows)",
            "softmax over the classes",
        ),
        # an array per batch
        (
            "was = model.training\n"
            "model.eval()\n"
            "rows = []\n"
            "with paddle.no_grad():\n"
            "    for b in batches:\n"
            "        rows.append(paddle.nn.functional.softmax(model(*b[:2]), axis=-1)[:, "
            "1].numpy())\n"
            "if was:\n"
            "    model.train()\n"
            "return rows",
            "one NumPy array",
        ),
    ],
}
