"""What `evaluate` says of a classifier, against scikit-learn."""

from course_lib.cli.commands import _result_lines
from course_lib.training import classifier_results, paired_bootstrap

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, classification_report, confusion_matrix
from sklearn.svm import LinearSVC

NAMES = ["体育", "财经", "accuracy", "macro avg", "unused"]  # some are scikit-learn's own keys


def answers(seed: int) -> tuple[list[str], list[str]]:
    """True classes, among them no "macro avg", and predicted ones."""
    draw = np.random.RandomState(seed)
    true = draw.choice(NAMES[:3], 200)
    predicted = np.where(draw.rand(200) < 0.7, true, draw.choice(NAMES[:4], 200))
    return true.tolist(), predicted.tolist()


def results_of(true: list[str], given: list[str], names=NAMES) -> dict:
    examples = [{"text": name, "label": names.index(name)} for name in true]
    return classifier_results(examples, [{"label": name} for name in given], names)


@pytest.mark.parametrize("seed", range(3))
def test_all_scores_are_scikit_learns(seed):
    true, predicted = answers(seed)
    results = results_of(true, predicted)
    ids = [[NAMES.index(name) for name in side] for side in (true, predicted)]
    report = classification_report(*ids, output_dict=True, zero_division=0)
    assert results["accuracy"] == round(accuracy_score(true, predicted), 4)
    assert results["macro_f1"] == round(report["macro avg"]["f1-score"], 4)
    assert list(results["classes"]) == NAMES[:4]
    for number, scores in enumerate(results["classes"].values()):
        expected = [round(value, 4) for value in report[str(number)].values()]
        assert list(scores.values()) == expected
    found = np.zeros((5, 5), "int64")
    for cell in results["confusion"]:
        found[NAMES.index(cell["label"]), NAMES.index(cell["predicted"])] = cell["count"]
    assert (found == confusion_matrix(true, predicted, labels=NAMES)).all()


def test_the_table_lines_up_and_names_what_is_confused():
    results = results_of(*answers(0))
    results["baseline"] = {"accuracy": 0.9, "difference": -0.03, "low": -0.05, "high": -0.01}
    lines = _result_lines(results)
    widths = [len(line) + sum("一" <= mark <= "鿿" for mark in line) for line in lines[:5]]
    assert len(set(widths)) == 1
    assert lines[5] == f"accuracy {results['accuracy']:.3f}, macro F1 {results['macro_f1']:.3f}"
    worst = next(pair for pair in results["confusion"] if pair["label"] != pair["predicted"])
    said = f"{worst['label']} taken for {worst['predicted']}"
    assert lines[7].split(None, 1) == [str(worst["count"]), said]
    assert lines[-1].endswith("-0.030 (95% interval -0.050 to -0.010): the baseline is better")
    results["baseline"]["high"] = 0.01
    assert _result_lines(results)[-1].endswith("these texts do not tell which is better")
    perfect = results_of(["a", "b"], ["a", "b"], ["a", "b"])
    assert _result_lines(perfect)[-1] == "accuracy 1.000, macro F1 1.000"


def test_the_baseline_is_a_linear_classifier_on_tfidf():
    draw = np.random.RandomState(1)
    rows = [
        {"id": f"class {label}", "text": "".join(draw.choice([*"天地人", hint], 3)), "label": label}
        for label, hint in [(0, "好"), (1, "坏")] * 60
    ]
    texts, labels = [row["text"] for row in rows], [row["label"] for row in rows]
    vectorizer = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
    model = LinearSVC(random_state=0).fit(vectorizer.fit_transform(texts[:60]), labels[:60])
    right = draw.rand(60) < 0.5
    hits = model.predict(vectorizer.transform(texts[60:])) == labels[60:]
    expected = {"accuracy": hits.mean(), **paired_bootstrap(right, hits)}
    assert 0.6 < hits.mean() < 1
    given = [
        {"label": label if hit else 1 - label} for label, hit in zip(labels, right, strict=False)
    ]
    results = classifier_results(rows[60:], given, [0, 1], rows[:60])
    assert results["baseline"] == pytest.approx(expected, abs=1e-4)
    assert "baseline" not in classifier_results(rows[60:61], given[:1], [0, 1], rows[:60])
    assert "baseline" not in classifier_results(rows[60:], given, [0, 1], rows[:1])


def test_the_baseline_compares_the_texts_of_a_pair():
    draw, rows = np.random.RandomState(2), []
    for same in [0, 1] * 200:
        one, other = ("".join(draw.choice(list("天地人你我他日月"), 8)) for _ in range(2))
        rows.append({"sentence1": one, "sentence2": one[::-1] if same else other, "label": same})
    tested = rows[300:]
    found = classifier_results(tested, tested, [0, 1], rows[:300])["baseline"]  # all are right
    assert found["accuracy"] > 0.8 and found["difference"] == round(1 - found["accuracy"], 4)
