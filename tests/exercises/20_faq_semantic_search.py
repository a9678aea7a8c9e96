"""Typical wrong answers for each exercise of chapter 20, with the hint that each must draw."""

WRONG = {
    "20-depth": [
        # the search costs nothing
        ("return int(budget // judge)", "The search takes its share"),
        # a negative number
        ("return int((budget - find) // judge)", "When the search alone takes too long"),
        # half a pair
        ("return max(0, round((budget - find) / judge + 0.3))", "round down"),
        # not the last that fits
        (
            "n = 0\nwhile find + (n + 1) * judge < budget:\n    n += 1\nreturn n",
            "exactly the budget",
        ),
        # a float
        (
            "return max(0.0, (budget - find) // judge)",
            "an int",
        ),
        # rounds the times
        (
            "return max(0, (int(budget) - int(find)) // int(judge))",
            "not the times",
        ),
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
        # a number
        (
            "return sum(r in row[:k] for row, r in zip(places, right))",
            "from 0 to 1",
        ),
        # the place is not the number of the query
        (
            "return float(np.mean([i in row[:k] for i, row in enumerate(places)]))",
            "Every right place",
        ),
        # in any row
        (
            "return float(np.mean([r in np.asarray(places)[:, :k] for r in right]))",
            "With k=1 only",
        ),
    ],
    "20-nearest": [
        # worst first
        (
            "return np.argsort(-(vectors @ query))[:count][::-1]",
            "The largest product comes first",
        ),
        # the farthest
        ("return np.argsort(vectors @ query)[:count]", "-4 is the smallest"),
        # all of them
        ("return np.argsort(-(vectors @ query))", "as many places as asked for"),
        # a cosine
        (
            "return np.argsort(-(vectors @ query) / np.linalg.norm(vectors, axis=1))[:count]",
            "no cosine",
        ),
        # without a sign
        (
            "return np.argsort(-abs(vectors @ query))[:count]",
            "-4 is the smallest",
        ),
        # multiplies in place
        (
            "vectors *= query\nreturn np.argsort(-vectors.sum(axis=1))[:count]",
            "Leave `vectors`",
        ),
        # the products
        (
            "return np.sort(vectors @ query)[::-1][:count]",
            "not products",
        ),
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
            "add its two scores",
        ),
        # no constant
        (
            "scores = {}\n"
            "for places in (one, other):\n"
            "    for rank, place in enumerate(places, 1):\n"
            "        scores[place] = scores.get(place, 0) + 1 / rank\n"
            "return sorted(scores, key=lambda place: -scores[place])",
            "use the constant",
        ),
        # ranks from 0
        (
            "scores = {}\n"
            "for places in (one, other):\n"
            "    for rank, place in enumerate(places):\n"
            "        scores[place] = scores.get(place, 0) + 1 / (constant + rank)\n"
            "return sorted(scores, key=scores.get, reverse=True)",
            "Ranks begin at 1",
        ),
        # always 60
        (
            "scores = {}\n"
            "for places in (one, other):\n"
            "    for rank, place in enumerate(places, 1):\n"
            "        scores[place] = scores.get(place, 0) + 1 / (60 + rank)\n"
            "return sorted(scores, key=scores.get, reverse=True)",
            "constant that is given",
        ),
        # with the scores
        (
            "scores = {}\n"
            "for places in (one, other):\n"
            "    for rank, place in enumerate(places, 1):\n"
            "        scores[place] = scores.get(place, 0) + 1 / (constant + rank)\n"
            "return sorted(scores.items(), key=lambda x: -x[1])",
            "without their scores",
        ),
        # a rank for what is missing
        (
            "def rank(l, p):\n"
            "    return l.index(p) + 1 if p in l else len(l) + 1\n"
            "return sorted({*one, *other}, key=lambda p: -sum(1 / (constant + rank(l, p)) for "
            "l in (one, other)))",
            "lacks the place",
        ),
    ],
}
