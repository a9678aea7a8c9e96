"""The review tree: labels as paths, the rules, the gold labels, the published figures."""

from __future__ import annotations

from course_lib.data import load_review_tree, load_reviews, review_tree

import pytest


@pytest.fixture(scope="module")
def tree():
    return dict(zip(review_tree.SPLITS, load_review_tree(), strict=True))


def test_examples_are_the_reviews_with_paths(tree):
    reviews = dict(zip(review_tree.SPLITS, load_reviews(), strict=True))
    assert sum(map(len, tree.values())) >= 8_000
    for name, dataset in tree.items():
        assert dataset.label_list == review_tree.label_list()
        for row, review in zip(dataset.data, reviews[name].data, strict=True):
            assert list(row) == ["text", "labels", "id"]
            assert (row["text"], row["id"]) == (review["text"], review["id"])
            domain = {"book": "书籍", "hotel": "酒店", "computer": "电脑"}[review["domain"]]
            verdict = f"{domain}##{('差评', '好评')[review['label']]}"
            assert row["labels"][:2] == [domain, verdict]
            assert all(label.startswith(f"{verdict}##") for label in row["labels"][2:])
            assert set(row["labels"]) <= set(dataset.label_list)
            assert sorted(row["labels"], key=dataset.label_list.index) == row["labels"]
            assert len(set(row["labels"])) == len(row["labels"])
