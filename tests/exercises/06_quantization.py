"""Typical wrong answers for each exercise of chapter 06, with the hint that each must draw."""

WRONG = {
    "06-asymmetric": [
        # nothing is cut
        (
            "scale = (high - low) / 255\n"
            "zero = np.round(-low / scale)\n"
            "whole = np.round(values / scale) + zero\n"
            "return whole, (whole - zero) * scale",
            "Cut the whole numbers",
        ),
        # the zero point is not taken off again
        (
            "scale = (high - low) / 255\n"
            "zero = np.round(-low / scale)\n"
            "whole = np.clip(np.round(values / scale) + zero, 0, 255)\n"
            "return whole, whole * scale",
            "take the zero point off again",
        ),
        # low added back, not the zero point: 0 comes back as a little more or less
        (
            "scale = (high - low) / 255\n"
            "whole = np.clip(np.round((values - low) / scale), 0, 255)\n"
            "return whole, whole * scale + low + 1e-9",
            "0 must come back as exactly 0",
        ),
        # a difference in uint8 wraps around
        (
            "scale = (high - low) / 255\n"
            "zero = round(-low / scale)\n"
            "whole = np.clip(np.round(values / scale) + zero, 0, 255).astype('uint8')\n"
            "return whole, (whole - zero) * scale",
            "in uint8 a difference below 0 wraps around",
        ),
        # the values themselves come back, cut
        (
            "scale = (high - low) / 255\n"
            "zero = round(-low / scale)\n"
            "whole = np.clip(np.round(values / scale) + zero, 0, 255)\n"
            "return whole, np.clip(values, low, high)",
            "a whole number of steps",
        ),
        # the zero point is not whole
        (
            "scale = (high - low) / 255\n"
            "zero = -low / scale\n"
            "whole = np.clip(np.round(values / scale) + zero, 0, 255)\n"
            "return whole, (whole - zero) * scale",
            "round the values, and the zero point",
        ),
        # no zero point
        (
            "scale = (high - low) / 255\n"
            "whole = np.clip(np.round(values / scale), 0, 255)\n"
            "return whole, whole * scale",
            "not the zero point",
        ),
    ],
    "06-per-channel": [
        # one limit
        (
            "limit = np.abs(weight).max()\nreturn np.round(weight / limit * 127), limit",
            "One limit for all is what we had",
        ),
        # a limit for each input
        (
            "limits = np.abs(weight).max(axis=1, keepdims=True)\n"
            "return np.round(weight / limits * 127), limits",
            "outputs are the columns",
        ),
        # signs
        (
            "limits = weight.max(axis=0)\nreturn np.round(weight / limits * 127), limits",
            "signs do not count",
        ),
        # steps, not limits
        (
            "limits = np.abs(weight).max(axis=0)\nreturn to_int8(weight, limits)",
            "These are the steps",
        ),
        # cut off, not rounded
        (
            "limits = np.abs(weight).max(axis=0)\n"
            "return (weight / (limits / 127)).astype('int8'), limits",
            "round to the *nearest*",
        ),
        # the limits have two axes
        (
            "limits = np.abs(weight).max(axis=0, keepdims=True)\n"
            "return np.round(weight / (limits / 127)).astype('int8'), limits",
            "the shape is [outputs]",
        ),
        # changes what it was given
        (
            "limits = np.abs(weight).max(axis=0)\n"
            "weight /= limits / 127\n"
            "return np.round(weight), limits",
            "has changed the matrix",
        ),
    ],
    "06-best-limit": [
        # the place
        (
            "def loss(limit):\n"
            "    whole, step = to_int8(values, limit)\n"
            "    return np.mean((whole * step - values) ** 2)\n"
            "return int(np.argmin([loss(limit) for limit in limits]))",
            "not its place",
        ),
        # rounding alone: the narrowest wins
        ("return min(limits)", "the error of clipping counts"),
        # absolute, not squared
        (
            "def loss(limit):\n"
            "    whole, step = to_int8(values, limit)\n"
            "    return np.mean(np.abs(whole * step - values))\n"
            "return min(limits, key=loss)",
            "Square before you take the mean",
        ),
        # the largest
        (
            "return max(limits)",
            "widest limit is not always the best",
        ),
        # the largest error, not the mean of squares
        (
            "return min(limits, key=lambda l: np.abs(np.multiply(*to_int8(values, l)) - "
            "values).max())",
            "widest limit is not always the best",
        ),
        # what 99.99% of the values do not exceed
        (
            "return min(limits, key=lambda l: abs(l - np.quantile(np.abs(values), 0.9999)))",
            "the one value that 1.0 clips",
        ),
        # errors cancel each other
        (
            "return min(limits, key=lambda l: abs((np.multiply(*to_int8(values, l)) - "
            "values).mean()))",
            "mean of the squares",
        ),
    ],
    "06-bytes": [
        # all in INT8
        (
            "return sum(parameter.size for parameter in model.parameters())",
            "embeddings stay in FP32",
        ),
        # the limits are forgotten
        (
            "total = 4 * sum(parameter.size for parameter in model.parameters())\n"
            "for each in model.sublayers():\n"
            "    if isinstance(each, paddle.nn.Linear):\n"
            "        total -= 3 * each.weight.size\n"
            "return total",
            "a bias *and* a limit",
        ),
        # looks at the first level only
        (
            "total = sum(4 * p.size for p in model.parameters())\n"
            "for each in model.children():\n"
            "    if isinstance(each, paddle.nn.Linear):\n"
            "        total += 4 * each.weight.shape[1] - 3 * each.weight.size\n"
            "return total",
            "may be inside another layer",
        ),
        # forgets the layer norms
        (
            "total = 0\n"
            "for each in model.sublayers():\n"
            "    if isinstance(each, paddle.nn.Linear):\n"
            "        total += each.weight.size + 4 * each.weight.shape[1] + 4 * each.bias.size\n"
            "    elif isinstance(each, paddle.nn.Embedding):\n"
            "        total += 4 * each.weight.size\n"
            "return total",
            "Layer norms have",
        ),
        # layers of layers count again
        (
            "total = 0\n"
            "for each in model.sublayers():\n"
            "    if isinstance(each, paddle.nn.Linear):\n"
            "        total += each.weight.size + 4 * each.weight.shape[1] + 4 * each.bias.size\n"
            "    else:\n"
            "        total += sum(4 * p.size for p in each.parameters())\n"
            "return total",
            "count twice",
        ),
        # the limits in INT8
        (
            "total = sum(4 * p.size for p in model.parameters())\n"
            "for each in model.sublayers():\n"
            "    if isinstance(each, paddle.nn.Linear):\n"
            "        total += each.weight.shape[1] - 3 * each.weight.size\n"
            "return total",
            "Biases and limits stay in FP32",
        ),
    ],
}
