"""The report against scikit-learn, thresholds, and sets that the hierarchy allows."""

import itertools

from course_lib.tasks.hierarchical import (
    Taxonomy,
    decode,
    report,
    report_lines,
    tune,
    write_bad_cases,
)

import hierarchical_task as task
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, classification_report, f1_score

TAXONOMY = task.TAXONOMY


def labels(rows: int, seed: int, taxonomy: Taxonomy = TAXONOMY, share: float = 0.4) -> np.ndarray:
    return np.random.RandomState(seed).rand(rows, len(taxonomy)) < share


# ---- the report


@pytest.mark.parametrize("share", [0.4, 0.02])
def test_every_figure_is_scikit_learns(share, taxonomy=TAXONOMY):
    for seed in range(5):
        true, predicted = labels(60, seed, taxonomy, share), labels(60, seed + 100, taxonomy)
        if seed == 4:
            predicted[:, 0] = False  # a label that is never predicted
        figures = report(true, predicted, taxonomy)
        assert figures["accuracy"] == pytest.approx(accuracy_score(true, predicted))
        options = {"target_names": taxonomy.labels, "output_dict": True, "zero_division": 0}
        expected = classification_report(true, predicted, **options)
        for name in ("macro", "micro"):
            rest = [*expected[f"{name} avg"].values()][:3]
            assert list(figures[name].values()) == pytest.approx(rest)
        for row, names in zip(figures["levels"], taxonomy.levels, strict=True):
            columns = [taxonomy.ids[name] for name in names]
            pair = true[:, columns], predicted[:, columns]
            for average in ("macro", "micro"):
                # scikit-learn takes one column for two classes, and would count "not" as one
                one = f1_score(*pair, average=average, zero_division=0)
                if len(columns) == 1:
                    one = f1_score(*(part[:, 0] for part in pair), zero_division=0)
                assert row[f"{average}_f1"] == pytest.approx(one)
            assert row["accuracy"] == pytest.approx((pair[0] == pair[1]).all(axis=1).mean())
        for column, (name, row) in enumerate(figures["classes"].items()):
            assert list(row.values())[:4] == pytest.approx(list(expected[name].values()))
            assert row["share"] == pytest.approx(true[:, column].mean())


def test_lists_of_labels_give_the_same_as_arrays():
    true, predicted, train = labels(20, 0), labels(20, 1), labels(50, 2)
    by_names = report(*map(TAXONOMY.names, (true, predicted)), TAXONOMY, TAXONOMY.names(train))
    assert by_names == report(true, predicted, TAXONOMY, train)
    row = by_names["classes"]["书"]
    assert row["train_count"] == train[:, 0].sum()
    assert row["train_share"] == pytest.approx(train[:, 0].mean())
    rows = [["书##好"], ["书", "书##好"], [], ["店", "店##好##位置"]]
    assert report(rows, rows, TAXONOMY)["orphans"] == 2


def test_the_lines_are_those_of_the_guide():
    true = TAXONOMY.indicators([["书"], ["书", "书##好"], ["店"], ["店"]])
    predicted = TAXONOMY.indicators([["书"], ["书"], ["店"], ["书"]])
    dev, train = report(true, predicted, TAXONOMY), report(true[:3], true[:3], TAXONOMY)
    lines = report_lines(dev, train)
    assert lines[:3] == [
        "Train dataset size: 3",
        "Dev dataset size: 4",
        "Accuracy in dev dataset: 50.00%",
    ]
    assert "Micro avg in dev dataset: precision: 75.00 | recall: 60.00 | F1 score 66.67" in lines
    at = lines.index("Class name: 书")
    assert lines[at + 1 : at + 4] == [
        "Evaluation examples in train dataset: 2(66.7%) | precision: 100.00 | recall: 100.00 | "
        "F1 score 100.00",
        "Evaluation examples in dev dataset: 2(50.0%) | precision: 66.67 | recall: 100.00 | "
        "F1 score 80.00",
        "----------------------------",
    ]
    level = next(line for line in lines if line.startswith("Level 1"))
    assert level.endswith("Macro F1 score: 73.33 | Micro F1 score: 75.00 | Accuracy: 75.00")
    counted = report_lines(report(true, predicted, TAXONOMY, train=true))
    assert "Evaluation examples in train dataset: 2(50.0%)" in counted


def test_bad_cases_are_the_rows_that_are_not_all_right(tmp_path):
    rows = [
        {"text": "一", "labels": ["书", "书##好"]},
        {"text": "二", "labels": ["店"]},
        {"text": "三", "labels": ["店"]},
    ]
    predicted = [["书##好", "书"], ["店", "店##好"], []]
    assert write_bad_cases(tmp_path / "bad.txt", rows, predicted) == 2
    assert (tmp_path / "bad.txt").read_text("utf-8") == (
        "Prediction\tLabel\tText\n店,店##好\t店\t二\n\t店\t三\n"
    )
    with pytest.raises(ValueError):
        write_bad_cases(tmp_path / "bad.txt", rows, predicted[:2])
    assert "二" in (tmp_path / "bad.txt").read_text("utf-8"), "the old file stays"
    assert [file.name for file in tmp_path.iterdir()] == ["bad.txt"]


# ---- thresholds


def best_f1(probabilities: np.ndarray, true: np.ndarray) -> float:
    cuts = np.unique(np.append(probabilities, 0.5))
    return max(f1_score(true, probabilities >= cut, zero_division=0) for cut in cuts)


def test_a_tuned_threshold_has_the_highest_f1_of_all():
    random = np.random.RandomState(0)
    for _ in range(10):
        true = labels(50, random.randint(1000), share=0.5)
        probabilities = np.clip(0.3 * true + random.rand(*true.shape) * 0.6, 0, 1).round(2)
        thresholds = tune(probabilities, true, TAXONOMY, min_texts=1)
        chosen = decode(probabilities, TAXONOMY, thresholds, consistent=False)
        for column in range(len(TAXONOMY)):
            got = f1_score(true[:, column], chosen[:, column], zero_division=0)
            assert got == pytest.approx(best_f1(probabilities[:, column], true[:, column]))


def test_a_threshold_that_need_not_move_stays():
    true = TAXONOMY.indicators([["书"], ["书"], ["店"], ["店"]])
    probabilities = np.where(true, 0.9, 0.1)
    assert tune(probabilities, true, TAXONOMY, min_texts=1) == dict.fromkeys(TAXONOMY.labels, 0.5)
    assert tune(probabilities * 0, true, TAXONOMY, min_texts=1)["书"] == 0.5
    assert tune(probabilities / 3, true, TAXONOMY, min_texts=1)["书"] == pytest.approx(1 / 6)
    assert tune(probabilities / 3, true, TAXONOMY, min_texts=3)["书"] == 0.5  # two are too few


# ---- sets that the hierarchy allows


def allowed(chosen: tuple[int, ...], taxonomy: Taxonomy, one_child: bool | tuple) -> bool:
    names = {label for label, one in zip(taxonomy.labels, chosen, strict=True) if one}
    if taxonomy.missing(names):
        return False
    levels = (1, 2, 3) if one_child is True else one_child or ()
    names = {name for name in names if taxonomy.level(name) in levels}
    groups = [taxonomy.children(), *(taxonomy.children(label) for label in taxonomy.labels)]
    return all(len(names & set(group)) <= 1 for group in groups)


@pytest.mark.parametrize("one_child", [False, True, (), (1,), (2,)])
def test_in_a_tree_the_best_of_all_allowed_sets_is_chosen(one_child):
    """All 128 sets of the tree, tried one by one."""
    every = itertools.product([0, 1], repeat=len(TAXONOMY))
    sets = np.array([chosen for chosen in every if allowed(chosen, TAXONOMY, one_child)])
    random = np.random.RandomState(1)
    probabilities = random.rand(200, len(TAXONOMY))
    limits = random.uniform(0.2, 0.8, len(TAXONOMY))
    gains = np.log(probabilities / (1 - probabilities)) - np.log(limits / (1 - limits))
    best = sets[(gains @ sets.T).argmax(axis=1)].astype(bool)
    chosen = decode(probabilities, TAXONOMY, limits, one_child=one_child)
    assert (chosen == best).all()
    assert chosen.any() and not chosen.all()


def test_a_sure_child_brings_its_parent_and_a_doubtful_one_falls():
    ids = TAXONOMY.ids
    rows = np.full((2, len(TAXONOMY)), 0.01)
    rows[0, ids["书"]], rows[0, ids["书##好"]] = 0.45, 0.95
    rows[1, ids["书"]], rows[1, ids["书##好"]] = 0.05, 0.55
    assert TAXONOMY.names(decode(rows, TAXONOMY)) == [["书", "书##好"], []]
    assert TAXONOMY.names(decode(rows, TAXONOMY, consistent=False)) == [["书##好"]] * 2
    certain = np.zeros((1, len(TAXONOMY)))
    certain[0, ids["书"]] = 1
    assert TAXONOMY.names(decode(certain, TAXONOMY)) == [["书"]]
    exact = np.full((1, len(TAXONOMY)), 0.5)  # reaching a threshold is enough, with both ways
    assert decode(exact, TAXONOMY).all() and decode(exact, TAXONOMY, consistent=False).all()
    assert decode(np.zeros((0, len(TAXONOMY))), TAXONOMY).shape == (0, len(TAXONOMY))
