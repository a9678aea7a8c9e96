"""Two typical wrong answers for each exercise of chapter 11, with the hint that each must draw."""

WRONG = {
    "11-grouped": [
        # lengths, not places
        (
            "order = sorted(lengths)\n"
            "return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]",
            "hold places",
        ),
        # the last, smaller batch is dropped
        (
            "order = sorted(range(len(lengths)), key=lambda place: lengths[place])\n"
            "return [order[i * batch_size : (i + 1) * batch_size]"
            " for i in range(len(order) // batch_size)]",
            "the last, smaller batch counts",
        ),
        # as they come
        (
            "order = list(range(len(lengths)))\n"
            "return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]",
            "two shortest texts",
        ),
    ],
    "11-status": [
        # no JSON and wrong JSON are the same
        (
            "try:\n"
            "    texts = json.loads(body)['texts']\n"
            "except Exception:\n"
            "    return 400\n"
            "return 200 if len(body) <= 1000 else 413",
            "A list is JSON",
        ),
        # a string has a length, too
        (
            "if len(body) > 1000:\n"
            "    return 413\n"
            "try:\n"
            "    asked = json.loads(body)\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(asked, dict) or 'texts' not in asked:\n"
            "    return 422\n"
            "texts = asked['texts']\n"
            "return 200 if 1 <= len(texts) <= 8 and all(t.strip() for t in texts) else 422",
            "One string is no list",
        ),
        # the size is looked at last
        (
            "try:\n"
            "    asked = json.loads(body)\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(asked, dict) or set(asked) != {'texts'}:\n"
            "    return 422\n"
            "texts = asked['texts']\n"
            "if not isinstance(texts, list) or not 1 <= len(texts) <= 8:\n"
            "    return 422\n"
            "if not all(isinstance(t, str) and t.strip() for t in texts):\n"
            "    return 422\n"
            "return 413 if len(body) > 1000 else 200",
            "Look at the size first",
        ),
    ],
    "11-polite": [
        # every failure is tried again
        (
            "for _ in range(tries):\n"
            "    status, wait = post()\n"
            "    if status == 200:\n"
            "        break\n"
            "    sleep(wait or 1)\n"
            "return status",
            "only 503 is tried again",
        ),
        # a nap after the last try
        (
            "for _ in range(tries):\n"
            "    status, wait = post()\n"
            "    if status != 503:\n"
            "        break\n"
            "    sleep(1 if wait is None else wait)\n"
            "return status",
            "No nap after the last try",
        ),
        # one try more
        (
            "status, wait = post()\n"
            "for _ in range(tries):\n"
            "    if status != 503:\n"
            "        break\n"
            "    sleep(1 if wait is None else wait)\n"
            "    status, wait = post()\n"
            "return status",
            "calls in all",
        ),
    ],
    "11-figures": [
        # the inverse of the latency
        (
            "seconds = [end - begin for begin, end in log]\n"
            "return 1 / np.mean(seconds), np.percentile(seconds, 95) * 1000",
            "requests overlap",
        ),
        # from 0
        (
            "seconds = [end - begin for begin, end in log]\n"
            "last = max(end for _, end in log)\n"
            "return len(log) / last, np.percentile(seconds, 95) * 1000",
            "does not start at 0",
        ),
        # the mean
        (
            "seconds = [end - begin for begin, end in log]\n"
            "wall = max(end for _, end in log) - min(begin for begin, _ in log)\n"
            "return len(log) / wall, np.mean(seconds) * 1000",
            "not the mean",
        ),
        # seconds
        (
            "seconds = [end - begin for begin, end in log]\n"
            "wall = max(end for _, end in log) - min(begin for begin, _ in log)\n"
            "return len(log) / wall, np.percentile(seconds, 95)",
            "in milliseconds",
        ),
    ],
}
