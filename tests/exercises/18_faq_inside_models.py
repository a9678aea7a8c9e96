"""Typical wrong answers for each exercise of chapter 18, with the hint that each must draw."""

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
        # the mean over calls
        (
            "kept = []\n"
            "hook = layer.register_forward_post_hook(lambda layer, inputs, output: "
            "kept.append(output.numpy()))\n"
            "try:\n"
            "    run()\n"
            "finally:\n"
            "    hook.remove()\n"
            "return np.mean([(k < 0).mean() for k in kept])",
            "differ in size",
        ),
        # 0 as well
        (
            "below, count = 0, 0\n"
            "def listen(layer, inputs, output):\n"
            "    nonlocal below, count\n"
            "    below += int((output <= 0).sum())\n"
            "    count += output.size\n"
            "hook = layer.register_forward_post_hook(listen)\n"
            "try:\n"
            "    run()\n"
            "finally:\n"
            "    hook.remove()\n"
            "return below / count",
            "0 itself",
        ),
        # the inputs
        (
            "below, count = 0, 0\n"
            "def listen(layer, inputs, output):\n"
            "    nonlocal below, count\n"
            "    below += int((inputs[0] < 0).sum())\n"
            "    count += inputs[0].size\n"
            "hook = layer.register_forward_post_hook(listen)\n"
            "try:\n"
            "    run()\n"
            "finally:\n"
            "    hook.remove()\n"
            "return below / count",
            "not the inputs",
        ),
        # the hooks of others, too
        (
            "below, count = 0, 0\n"
            "def listen(layer, inputs, output):\n"
            "    nonlocal below, count\n"
            "    below += int((output < 0).sum())\n"
            "    count += output.size\n"
            "hook = layer.register_forward_post_hook(listen)\n"
            "run()\n"
            "layer._forward_post_hooks.clear()\n"
            "return below / count",
            "Remove your own hook only",
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
        # the maps themselves
        (
            "maps[maps == 0] = 1\nreturn -(maps * np.log2(maps)).sum(axis=-1).mean(axis=-1)",
            "Leave the maps",
        ),
        # a whole row is dropped for one 0
        (
            "return np.nan_to_num(-(maps * np.log2(maps)).sum(axis=-1).mean(axis=-1))",
            "the others count",
        ),
        # not weighted
        (
            "maps = np.asarray(maps)\n"
            "logs = np.log2(np.where(maps > 0, maps, 1))\n"
            "return -logs.mean(axis=(-1, -2))",
            "one entropy per row",
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
            "by the way",
        ),
        # one number for all
        (
            "shares = (np.arange(steps) + 0.5) / steps\n"
            "slopes = [gradient(start + share * (end - start)) for share in shares]\n"
            "return np.mean(slopes, axis=0) @ (end - start)",
            "do not sum them up",
        ),
        # equal parts, but not the middles
        (
            "return np.mean([gradient(start + w * (end - start)) for w in np.linspace(0, 1, "
            "steps + 2)[1:-1]], axis=0) * (end - start)",
            "1/4 and 3/4",
        ),
        # a way without a sign
        (
            "total = 0\n"
            "for k in range(steps):\n"
            "    x = start + (k + 0.5) / steps * (end - start)\n"
            "    total = total + gradient(x)\n"
            "return total / steps * abs(end - start)",
            "its way is negative",
        ),
        # walks in start itself
        (
            "step = (end - start) / steps\n"
            "way = end - start\n"
            "start += step / 2\n"
            "total = 0\n"
            "for _ in range(steps):\n"
            "    total = total + gradient(start)\n"
            "    start += step\n"
            "return total / steps * way",
            "Leave start and end",
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
        # both on the points of one
        (
            "x = np.linspace(0, 1, len(curve))\n"
            "d = np.interp(x, np.linspace(0, 1, len(random)), random) - np.asarray(curve)\n"
            "return ((d[1:] + d[:-1]) / 2).mean()",
            "use all of them",
        ),
        # without a sign
        (
            "def area(y):\n"
            "    y = np.asarray(y)\n"
            "    return ((y[1:] + y[:-1]) / 2).sum() / (len(y) - 1)\n"
            "return abs(area(random) - area(curve))",
            "A curve above random loses",
        ),
    ],
}
