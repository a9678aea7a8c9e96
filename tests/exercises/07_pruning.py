"""Typical wrong answers for each exercise of chapter 07, with the hint that each must draw."""

WRONG = {
    "07-choose-heads": [
        # the best of the whole model, whatever their layer
        (
            "best = np.argsort(-worth, axis=None)[:budget]\n"
            "stay = [divmod(int(place), worth.shape[1]) for place in best]\n"
            "return [sorted(h for l, h in stay if l == layer) for layer in range(len(worth))]",
            "A layer without heads",
        ),
        # the same number in each layer
        (
            "count = budget // len(worth) + 1\n"
            "return [sorted(map(int, np.argsort(-layer)[:count])) for layer in worth]",
            "the budget was 3",
        ),
        # the least important ones
        (
            "stay = [[int(layer.argmin())] for layer in worth]\n"
            "stay[0].append(int(worth[0].argmax()))\n"
            "return [sorted(numbers) for numbers in stay]",
            "head 1 is the most important",
        ),
        # the rest by layer, not by worth
        (
            "stay = [[int(layer.argmax())] for layer in worth]\n"
            "rest = budget - len(worth)\n"
            "stay[0] += [h for h in range(worth.shape[1]) if h not in stay[0]][:rest]\n"
            "return [sorted(numbers) for numbers in stay]",
            "With three layers",
        ),
        # changes what it was given
        (
            "stay = []\n"
            "for layer in range(len(worth)):\n"
            "    best = int(np.argmax(worth[layer]))\n"
            "    stay.append([best])\n"
            "    worth[layer, best] = -1\n"
            "for _ in range(budget - len(worth)):\n"
            "    layer, head = divmod(int(np.argmax(worth)), worth.shape[1])\n"
            "    stay[layer].append(head)\n"
            "    worth[layer, head] = -1\n"
            "return [sorted(each) for each in stay]",
            "has changed the array",
        ),
        # by importance, not sorted
        (
            "stay = [[int(np.argmax(row))] for row in worth]\n"
            "for place in np.argsort(-worth, axis=None):\n"
            "    layer, head = divmod(int(place), worth.shape[1])\n"
            "    if sum(map(len, stay)) < budget and head not in stay[layer]:\n"
            "        stay[layer].append(head)\n"
            "return stay",
            "sort the list",
        ),
        # makes room for one layer's head with another layer's only one
        (
            "order = [divmod(int(p), worth.shape[1]) for p in np.argsort(-worth, axis=None)]\n"
            "kept = order[:budget]\n"
            "for layer, row in enumerate(worth):\n"
            "    if layer not in [l for l, _ in kept]:\n"
            "        kept.pop()\n"
            "        kept.append((layer, int(np.argmax(row))))\n"
            "return [sorted(h for l, h in kept if l == layer) for layer in range(len(worth))]",
            "make room",
        ),
        # importance as a share of the layer
        (
            "worth = worth / worth.sum(1, keepdims=True)\n"
            "stay = [[int(np.argmax(row))] for row in worth]\n"
            "for place in np.argsort(-worth, axis=None):\n"
            "    layer, head = divmod(int(place), worth.shape[1])\n"
            "    if sum(map(len, stay)) < budget and head not in stay[layer]:\n"
            "        stay[layer].append(head)\n"
            "return [sorted(each) for each in stay]",
            "whatever their layer",
        ),
    ],
    "07-parameters": [
        # weights only
        (
            "inner = heads * head_dim\nreturn 4 * hidden * inner + 2 * hidden * neurons",
            "has a bias",
        ),
        # no layer norms
        (
            "inner = heads * head_dim\n"
            "return 4 * hidden * inner + 3 * inner + hidden + 2 * hidden * neurons"
            " + neurons + hidden",
            "Two layer norms",
        ),
        # right only while heads * head_dim is hidden
        (
            "return 4 * hidden * (hidden + 1) + 2 * hidden * neurons + neurons + 5 * hidden",
            "need not be `hidden` wide",
        ),
        # the bias of out is as wide as the heads
        (
            "inner = heads * head_dim\n"
            "return 4 * (hidden * inner + inner) + 2 * hidden * neurons + neurons + hidden + 4 "
            "* hidden",
            "bias of out",
        ),
        # weights and layer norms, no biases
        (
            "inner = heads * head_dim\n"
            "return 4 * hidden * inner + 2 * hidden * neurons + 4 * hidden",
            "has a bias",
        ),
        # the head size of this model
        (
            "inner = heads * 32\n"
            "return 4 * hidden * inner + 3 * inner + 2 * hidden * neurons + neurons + 6 * hidden",
            "is wrong for",
        ),
    ],
    "07-soft-loss": [
        # student and teacher the wrong way round
        (
            "share = softmax(student / temperature, axis=-1)\n"
            "logs = log_softmax(teacher / temperature, axis=-1)\n"
            "return temperature**2 * -(share * logs).sum(axis=-1).mean()",
            "The teacher's share times",
        ),
        # no minus
        (
            "share = softmax(teacher, axis=-1)\n"
            "return (share * log_softmax(student, axis=-1)).sum(axis=-1).mean()",
            "minus the sum",
        ),
        # the sum of the examples
        (
            "share = softmax(teacher / temperature, axis=-1)\n"
            "return -(share * log_softmax(student / temperature, axis=-1)).sum()",
            "The mean over the examples",
        ),
        # forgets the square of the temperature
        (
            "share = softmax(teacher / temperature, axis=-1)\n"
            "return -(share * log_softmax(student / temperature, axis=-1)).sum(axis=-1).mean()",
            "square of the temperature",
        ),
        # the teacher's logits only
        (
            "share = softmax(teacher / temperature, axis=-1)\n"
            "return temperature**2 * -(share * log_softmax(student, axis=-1)).sum(axis=-1).mean()",
            "divide the logits of both",
        ),
        # times T, not its square
        (
            "target = softmax(teacher / temperature, axis=-1)\n"
            "return -(target * log_softmax(student / temperature, axis=-1)).sum(axis=-1).mean() "
            "* temperature",
            "square of the temperature",
        ),
        # the divergence: without the teacher's uncertainty
        (
            "target = softmax(teacher / temperature, axis=-1)\n"
            "return (target * (log_softmax(teacher / temperature, axis=-1) - "
            "log_softmax(student / temperature, axis=-1))).sum(axis=-1).mean() * temperature**2",
            "own uncertainty",
        ),
        # three classes, as in the example
        (
            "target, log_share = softmax(teacher / temperature, axis=-1), log_softmax(student / "
            "temperature, axis=-1)\n"
            "return -(target[:, 0] * log_share[:, 0] + target[:, 1] * log_share[:, 1] + "
            "target[:, 2] * log_share[:, 2]).mean() * temperature**2",
            "the classes (the last axis)",
        ),
        # changes what it was given
        (
            "student /= temperature\n"
            "teacher /= temperature\n"
            "return -(softmax(teacher, axis=-1) * log_softmax(student, "
            "axis=-1)).sum(axis=-1).mean() * temperature**2",
            "has changed the logits",
        ),
    ],
    "07-custom-evaluate": [
        # accuracy
        (
            "same, count = 0, 0\n"
            "for batch in data_loader:\n"
            "    labels = batch.pop('labels')\n"
            "    same += int((model(**batch).argmax(-1) == labels).sum())\n"
            "    count += len(labels)\n"
            "return same / count",
            "not with the labels",
        ),
        # the mean of the batches' means
        (
            "shares = []\n"
            "for batch in data_loader:\n"
            "    batch.pop('labels')\n"
            "    same = model(**batch).argmax(-1) == trainer.model(**batch).argmax(-1)\n"
            "    shares.append(float(same.astype('float32').mean()))\n"
            "return sum(shares) / len(shares)",
            "no mean of batches' means",
        ),
        # how many, not which share
        (
            "same = 0\n"
            "for batch in data_loader:\n"
            "    batch.pop('labels')\n"
            "    chosen, whole = model(**batch), trainer.model(**batch)\n"
            "    same += int((chosen.argmax(-1) == whole.argmax(-1)).sum())\n"
            "return same",
            "is no share",
        ),
        # compares logits
        (
            "same = count = 0\n"
            "for batch in data_loader:\n"
            "    batch.pop('labels')\n"
            "    first, second = model(**batch), trainer.model(**batch)\n"
            "    same += int((first == second).all(axis=-1).sum())\n"
            "    count += len(first)\n"
            "return same / count",
            "Compare classes, not logits",
        ),
        # returns after the first batch
        (
            "same = count = 0\n"
            "for batch in data_loader:\n"
            "    batch.pop('labels')\n"
            "    first, second = model(**batch).argmax(axis=-1), "
            "trainer.model(**batch).argmax(axis=-1)\n"
            "    same += int((first == second).sum())\n"
            "    count += len(first)\n"
            "    return same / count",
            "examples of all batches",
        ),
        # counts where they differ
        (
            "same = count = 0\n"
            "for batch in data_loader:\n"
            "    batch.pop('labels')\n"
            "    first, second = model(**batch).argmax(axis=-1), "
            "trainer.model(**batch).argmax(axis=-1)\n"
            "    same += int((first != second).sum())\n"
            "    count += len(first)\n"
            "return same / count",
            "they differ",
        ),
        # the unpruned model against the labels
        (
            "same = count = 0\n"
            "for batch in data_loader:\n"
            "    labels = batch.pop('labels')\n"
            "    first = trainer.model(**batch).argmax(axis=-1)\n"
            "    same += int((first == labels.reshape([-1])).sum())\n"
            "    count += len(first)\n"
            "return same / count",
            "not with the labels",
        ),
    ],
}
