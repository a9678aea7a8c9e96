"""Two typical wrong answers for each exercise of chapter 06, with the hint that each must draw."""

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
            "Each output has a limit",
        ),
        # the bias in INT8
        (
            "total = 0\n"
            "for each in model.sublayers():\n"
            "    if isinstance(each, paddle.nn.Linear):\n"
            "        total += each.weight.size + each.bias.size\n"
            "    elif isinstance(each, paddle.nn.Embedding):\n"
            "        total += 4 * each.weight.size\n"
            "return total",
            "The bias of a Linear stays in FP32",
        ),
    ],
}
