"""Typical wrong answers for each exercise of chapter 00, with the hint that each must draw."""

WRONG = {
    "00-violations": [
        # compares character by character
        (
            "return sorted(n for n, b in bounds.items() if not installed[n] > b.lstrip('<>='))",
            "2.10.0 is above 2.9",
        ),
        # in the order of `bounds`
        (
            "return [n for n, b in bounds.items() if not SpecifierSet(b).contains(installed[n])]",
            "sorted",
        ),
        # gives what is allowed
        (
            "return sorted(n for n, b in bounds.items() if SpecifierSet(b).contains(installed[n]))",
            "2.10.0 is above 2.9",
        ),
        # only the first part of the specifier
        (
            "return sorted(n for n in bounds if not "
            'SpecifierSet(bounds[n].split(",")[0]).contains(installed[n]))',
            "has two parts",
        ),
        # a set
        (
            "return {n for n in bounds if not SpecifierSet(bounds[n]).contains(installed[n])}",
            "Return a list",
        ),
    ],
    "00-runs": [
        # only the code made for exactly this card
        ("return card in wheel", "8.9 runs the code for 8.6"),
        # newer is always fine
        ("return any(card >= code for code in wheel)", "another major number"),
        # only the major number counts
        ("return any(card[0] == code[0] for code in wheel)", "6.0 cannot run code for 6.1"),
        # global WHEEL
        (
            "return any(card[0] == major and card[1] >= minor for major, minor in WHEEL)",
            "not always WHEEL",
        ),
        # a list
        (
            "return [w for w in wheel if w[0] == card[0] and w[1] <= card[1]]",
            "Return True or False",
        ),
        # max of same major
        (
            "minors = [m for M, m in wheel if M == card[0]]\n"
            "return bool(minors) and max(minors) <= card[1]",
            "one fitting code is enough",
        ),
    ],
    "00-dropped": [
        # forgets the seed
        ("return paddle.nn.functional.dropout(x, p=0.5)", "seed first"),
        # the same mask whatever the seed
        ("seed_everything(0)\nreturn paddle.nn.functional.dropout(x, p=0.5)", "use the argument"),
        # ones instead of x
        (
            "paddle.seed(seed)\nreturn paddle.nn.functional.dropout(paddle.ones_like(x), p=0.5)",
            "becomes 0, or is doubled",
        ),
        # axis
        (
            "paddle.seed(seed)\nreturn paddle.nn.functional.dropout(x, p=0.5, axis=0)",
            "not whole rows",
        ),
        # input changed
        (
            "paddle.seed(seed)\nx.set_value(paddle.nn.functional.dropout(x, p=0.5))\nreturn x",
            "x itself has changed",
        ),
    ],
}
