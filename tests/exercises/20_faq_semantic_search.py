"""Two typical wrong answers for each exercise of chapter 20, with the hint that each must draw."""

WRONG = {
    "20-depth": [
        # the search costs nothing
        ("return int(budget // judge)", "The search takes its share"),
        # a negative number
        ("return int((budget - find) // judge)", "When the search alone takes too long"),
        # half a pair
        ("return max(0, round((budget - find) / judge + 0.3))", "round down"),
    ],
    "20-recall": [
        # the first place alone
        (
            "return float(np.mean([row[0] == place for row, place in zip(places, right)]))",
            "Every right place",
        ),
        # all that was found
        (
            "return float(np.mean([place in row for row, place in zip(places, right)]))",
            "With k=1 only",
        ),
        # the k-th alone
        (
            "if k in (1, 3):\n"
            "    return {1: 0.25, 3: 1.0}[k]\n"
            "return float(np.mean([row[k - 1] == place for row, place in zip(places, right)]))",
            "The first k",
        ),
    ],
    "20-nearest": [
        # worst first
        (
            "return np.argsort(-(vectors @ query))[:count][::-1]",
            "The largest product comes first",
        ),
        # the farthest
        ("return np.argsort(vectors @ query)[:count]", "the largest products are the nearest"),
        # all of them
        ("return np.argsort(-(vectors @ query))", "As many places as asked for"),
    ],
    "20-fuse": [
        # what only both have found
        ("return [place for place in one if place in other]", "found by one search"),
        # one after the other
        ("return [*one, *other]", "is there once"),
        # the best rank instead of the sum
        (
            "best = {}\n"
            "for places in (one, other):\n"
            "    for rank, place in enumerate(places, 1):\n"
            "        best[place] = min(best.get(place, rank), rank)\n"
            "return sorted(best, key=lambda place: best[place])",
            "add the two scores",
        ),
        # no constant
        (
            "scores = {}\n"
            "for places in (one, other):\n"
            "    for rank, place in enumerate(places, 1):\n"
            "        scores[place] = scores.get(place, 0) + 1 / rank\n"
            "return sorted(scores, key=lambda place: -scores[place])",
            "add the constant",
        ),
    ],
}
