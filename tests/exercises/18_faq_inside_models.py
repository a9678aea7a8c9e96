"""Two typical wrong answers for each exercise of chapter 18, with the hint that each must draw."""

WRONG = {
    "18-hook": [
        # the hook stays
        (
            "outputs = []\n"
            "layer.register_forward_post_hook(lambda *c: outputs.append(c[2].numpy().ravel()))\n"
            "run()\n"
            "return float((np.concatenate(outputs) < 0).mean())",
            "Remove the hook",
        ),
        # what the hook returns takes the place of the output
        (
            "outputs = []\n"
            "def keep(layer, inputs, output):\n"
            "    outputs.append(output.numpy().ravel())\n"
            "    return output < 0\n"
            "hook = layer.register_forward_post_hook(keep)\n"
            "run()\n"
            "hook.remove()\n"
            "return float((np.concatenate(outputs) < 0).mean())",
            "let it return None",
        ),
        # the first call only
        (
            "outputs = []\n"
            "hook = layer.register_forward_post_hook(lambda *c: outputs.append(c[2].numpy()))\n"
            "run()\n"
            "hook.remove()\n"
            "return float((outputs[0] < 0).mean())",
            "count over all calls",
        ),
    ],
    "18-entropy": [
        # nats
        (
            "safe = np.where(maps > 0, maps, 1)\n"
            "return -(safe * np.log(safe)).sum(axis=-1).mean(axis=-1)",
            "not nats",
        ),
        # 0 times minus infinity
        (
            "return -(maps * np.log2(maps)).sum(axis=-1).mean(axis=-1)",
            "not finite",
        ),
        # along the columns
        (
            "safe = np.where(maps > 0, maps, 1)\n"
            "columns = safe / safe.sum(axis=-2, keepdims=True)\n"
            "return -(columns * np.log2(columns)).sum(axis=-2).mean(axis=-1)",
            "sum along a row",
        ),
    ],
    "18-integrate": [
        # the gradient at the end
        (
            "return gradient(end) * (end - start)",
            "not at one of its ends",
        ),
        # a sum in place of a mean
        (
            "shares = (np.arange(steps) + 0.5) / steps\n"
            "slopes = [gradient(start + share * (end - start)) for share in shares]\n"
            "return np.sum(slopes, axis=0) * (end - start)",
            "do not add them up",
        ),
        # without the way
        (
            "shares = (np.arange(steps) + 0.5) / steps\n"
            "return np.mean([gradient(start + s * (end - start)) for s in shares], axis=0)",
            "Multiply by the way",
        ),
        # one number for all
        (
            "shares = (np.arange(steps) + 0.5) / steps\n"
            "slopes = [gradient(start + share * (end - start)) for share in shares]\n"
            "return np.mean(slopes, axis=0) @ (end - start)",
            "do not sum them up",
        ),
    ],
    "18-area": [
        # the wrong way round
        (
            "areas = [np.trapz(each, np.linspace(0, 1, len(each))) for each in (random, curve)]\n"
            "return areas[1] - areas[0]",
            "random minus curve",
        ),
        # steps of 1
        (
            "return np.trapz(random) - np.trapz(curve)",
            "from 0 to 1",
        ),
        # means, as if every point were as wide
        (
            "return np.mean(random) - np.mean(curve)",
            "the two ends count half",
        ),
    ],
}
