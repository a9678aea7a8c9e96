"""Two typical wrong answers for each exercise of chapter 00, with the hint that each must draw."""

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
    ],
    "00-runs": [
        # only the code made for exactly this card
        ("return card in wheel", "8.9 runs the code for 8.6"),
        # newer is always fine
        ("return any(card >= code for code in wheel)", "another major number"),
        # only the major number counts
        ("return any(card[0] == code[0] for code in wheel)", "6.0 cannot run code for 6.1"),
    ],
    "00-dropped": [
        # forgets the seed
        ("return paddle.nn.functional.dropout(x, p=0.5)", "seed first"),
        # the same mask whatever the seed
        ("seed_everything(0)\nreturn paddle.nn.functional.dropout(x, p=0.5)", "use the argument"),
    ],
}
