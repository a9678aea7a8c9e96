"""Two typical wrong answers for each exercise of chapter 17, with the hint that each must draw."""

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
    ],
    "17-batch-for": [
        # forgets what is taken already
        (
            "size = 1\n"
            "while 2 * size * an_example <= budget:\n"
            "    size *= 2\n"
            "return size if an_example <= budget else 0",
            "60 are taken before the first example",
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
    ],
}
