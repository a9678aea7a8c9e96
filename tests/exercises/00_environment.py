"""Two typical wrong answers for each exercise of chapter 00."""

WRONG = {
    "00-violations": [
        # compares strings
        "return sorted(n for n, b in bounds.items() if not installed[n] < b.lstrip('<>='))",
        # gives what is allowed
        "return sorted(n for n, b in bounds.items() if SpecifierSet(b).contains(installed[n]))",
    ],
    "00-runs": [
        # only the code made for exactly this card
        "return card in wheel",
        # newer is always fine
        "return any(card >= code for code in wheel)",
    ],
    "00-dropped": [
        # forgets the seed
        "return paddle.nn.functional.dropout(x, p=0.5)",
        # the same mask whatever the seed
        "seed_everything(0)\nreturn paddle.nn.functional.dropout(x, p=0.5)",
    ],
}
