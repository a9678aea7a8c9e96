"""Two typical wrong answers for each exercise of chapter 07, with the hint that each must draw."""

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
            "With a budget of 5",
        ),
    ],
    "07-parameters": [
        # weights only
        (
            "inner = heads * head_dim\nreturn 4 * hidden * inner + 2 * hidden * neurons",
            "Biases and layer norms",
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
            "heads x head_dim, not hidden",
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
            "logarithms of shares are negative",
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
            "Divide the logits of both",
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
            "Three of five agree here; it gave 3",
        ),
    ],
}
