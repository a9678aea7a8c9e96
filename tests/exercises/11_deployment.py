"""Typical wrong answers for each exercise of chapter 11, with the hint that each must draw."""

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
            "shortest three first",
        ),
        # batches of nearly the same size
        (
            "order = np.argsort(lengths)\n"
            "return [list(part) for part in np.array_split(order, -(-len(order) // batch_size))]",
            "the last one of 1",
        ),
        # the first place of each length
        (
            "ordered = sorted(lengths)\n"
            "places = [list(lengths).index(length) for length in ordered]\n"
            "return [places[s : s + batch_size] for s in range(0, len(places), batch_size)]",
            "texts of equal length",
        ),
        # an empty batch at the end
        (
            "order = sorted(range(len(lengths)), key=lambda i: lengths[i])\n"
            "return [order[n * batch_size : (n + 1) * batch_size] for n in range(len(order) // "
            "batch_size + 1)]",
            "no empty third",
        ),
        # changes what it was given
        (
            "pairs = sorted(range(len(lengths)), key=lambda i: lengths[i])\n"
            "lengths.sort()\n"
            "return [pairs[s : s + batch_size] for s in range(0, len(pairs), batch_size)]",
            "has changed the lengths",
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
        # json.loads guesses the encoding
        (
            "if len(body) > 1000:\n"
            "    return 413\n"
            "try:\n"
            "    data = json.loads(body)\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(data, dict) or set(data) != {'texts'}:\n"
            "    return 422\n"
            "texts = data['texts']\n"
            "if not isinstance(texts, list) or not 1 <= len(texts) <= 8:\n"
            "    return 422\n"
            "if not all(isinstance(t, str) and t.strip() for t in texts):\n"
            "    return 422\n"
            "return 200",
            "in UTF-16",
        ),
        # another key beside texts
        (
            "if len(body) > 1000:\n"
            "    return 413\n"
            "try:\n"
            "    data = json.loads(body.decode('utf-8'))\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(data, dict) or 'texts' not in data:\n"
            "    return 422\n"
            "texts = data['texts']\n"
            "if not isinstance(texts, list) or not 1 <= len(texts) <= 8:\n"
            "    return 422\n"
            "if not all(isinstance(t, str) and t.strip() for t in texts):\n"
            "    return 422\n"
            "return 200",
            "Another key beside",
        ),
        # characters, not bytes
        (
            "if len(body.decode('utf-8', 'ignore')) > 1000:\n"
            "    return 413\n"
            "try:\n"
            "    data = json.loads(body.decode('utf-8'))\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(data, dict) or set(data) != {'texts'}:\n"
            "    return 422\n"
            "texts = data['texts']\n"
            "if not isinstance(texts, list) or not 1 <= len(texts) <= 8:\n"
            "    return 422\n"
            "if not all(isinstance(t, str) and t.strip() for t in texts):\n"
            "    return 422\n"
            "return 200",
            "Count bytes",
        ),
        # 1,000 bytes are too many
        (
            "if len(body) >= 1000:\n"
            "    return 413\n"
            "try:\n"
            "    data = json.loads(body.decode('utf-8'))\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(data, dict) or set(data) != {'texts'}:\n"
            "    return 422\n"
            "texts = data['texts']\n"
            "if not isinstance(texts, list) or not 1 <= len(texts) <= 8:\n"
            "    return 422\n"
            "if not all(isinstance(t, str) and t.strip() for t in texts):\n"
            "    return 422\n"
            "return 200",
            "1,000 bytes are not too many",
        ),
        # only the plain blank is white space
        (
            "if len(body) > 1000:\n"
            "    return 413\n"
            "try:\n"
            "    data = json.loads(body.decode('utf-8'))\n"
            "except ValueError:\n"
            "    return 400\n"
            "if not isinstance(data, dict) or set(data) != {'texts'}:\n"
            "    return 422\n"
            "texts = data['texts']\n"
            "if not isinstance(texts, list) or not 1 <= len(texts) <= 8:\n"
            "    return 422\n"
            "if not all(isinstance(t, str) and t.replace(' ', '') for t in texts):\n"
            "    return 422\n"
            "return 200",
            "white space",
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
            "No sleep after the last try",
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
        # 0 seconds are taken for none
        (
            "for number in range(tries):\n"
            "    status, wait = post()\n"
            "    if status != 503 or number == tries - 1:\n"
            "        return status\n"
            "    sleep(wait or 1)",
            "0 seconds are a number",
        ),
        # always the first Retry-After
        (
            "status, wait = post()\n"
            "first = 1 if wait is None else wait\n"
            "for _ in range(tries - 1):\n"
            "    if status != 503:\n"
            "        break\n"
            "    sleep(first)\n"
            "    status, _ = post()\n"
            "return status",
            "Each 503 says anew",
        ),
        # any 5xx is tried again
        (
            "for number in range(tries):\n"
            "    status, wait = post()\n"
            "    if status < 500 or number == tries - 1:\n"
            "        return status\n"
            "    sleep(1 if wait is None else wait)",
            "A 500 is final",
        ),
        # no status after the last try
        (
            "for number in range(tries):\n"
            "    status, wait = post()\n"
            "    if status != 503:\n"
            "        return status\n"
            "    if number < tries - 1:\n"
            "        sleep(1 if wait is None else wait)",
            "return its status",
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
        # the first and the last line
        (
            "latency = [e - b for b, e in log]\n"
            "return len(log) / (log[-1][1] - log[0][0]), 1000 * np.percentile(latency, 95)",
            "The first line need not",
        ),
        # the last to begin ends the test
        (
            "log = sorted(log)\n"
            "latency = [e - b for b, e in log]\n"
            "return len(log) / (log[-1][1] - log[0][0]), 1000 * np.percentile(latency, 95)",
            "the last to be answered",
        ),
        # the largest
        (
            "begins, ends = zip(*log)\n"
            "latency = [e - b for b, e in log]\n"
            "return len(log) / (max(ends) - min(begins)), 1000 * max(latency)",
            "or the largest",
        ),
        # changes what it was given
        (
            "log.sort()\n"
            "latency = [e - b for b, e in log]\n"
            "return len(log) / (max(e for _, e in log) - log[0][0]), 1000 * "
            "np.percentile(latency, 95)",
            "has changed the log",
        ),
    ],
}
