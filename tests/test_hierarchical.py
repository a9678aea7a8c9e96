"""Trees and graphs of labels, the guide's files with all their faults, and doccano."""

import json
import re
from itertools import chain

import course_lib  # noqa: F401
from course_lib.chapters.ch10 import unfold
from course_lib.cli.hierarchical import main
from course_lib.runtime import InputError, data_dir
from course_lib.tasks.hierarchical import (
    Taxonomy,
    read_dataset,
    read_doccano,
    read_labels,
    read_texts,
    split_examples,
    validate,
    write_dataset,
)

import hierarchical_task as task
import numpy as np
import pytest

TREE = Taxonomy(["猫", "猫##美国短毛猫", "猫##美国短毛猫##美短虎斑", "猫##波斯猫", "兔"])
DIAMOND = {"鸭嘴兽": ["哺乳", "卵生"], "哺乳": ["动物"], "卵生": ["动物"], "动物": []}


# ---- taxonomies


def test_a_path_has_one_parent_and_a_level_a_part():
    deepest = "猫##美国短毛猫##美短虎斑"
    assert TREE.parent(deepest) == "猫##美国短毛猫" and TREE.parent("猫") is None
    assert TREE.ancestors(deepest) == ("猫", "猫##美国短毛猫")
    assert TREE.children("猫") == ("猫##美国短毛猫", "猫##波斯猫")
    assert TREE.children() == ("猫", "兔")
    assert [TREE.level(label) for label in TREE.labels] == [1, 2, 3, 2, 1]
    assert TREE.levels == (("猫", "兔"), ("猫##美国短毛猫", "猫##波斯猫"), (deepest,))
    assert TREE.missing([deepest, "猫"]) == ("猫##美国短毛猫",)
    assert TREE.complete([deepest, "兔"]) == ["猫", "猫##美国短毛猫", deepest, "兔"]
    assert len(TREE) == 5 and "兔" in TREE and "狗" not in TREE
    # a parent may come after its child: ids are the order of the list
    assert Taxonomy(["a##b", "a"]).complete(["a##b"]) == ["a##b", "a"]


def test_a_graph_unfolds_into_paths():
    paths = unfold(DIAMOND)
    assert paths["动物"] == ["动物"] and paths["卵生"] == ["动物##卵生"]
    assert paths["鸭嘴兽"] == ["动物##哺乳##鸭嘴兽", "动物##卵生##鸭嘴兽"]
    assert unfold({"c": ["a", "b"], "b": ["a"]})["c"] == ["a##c", "a##b##c"]
    with pytest.raises(ValueError, match="cycle"):
        unfold({"a": ["b"], "b": ["a"], "c": []})


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "at least one label"),
        (["a", "a"], "'a' is there twice"),
        (["a", "a##b##c"], "'a##b##c' has no parent 'a##b'"),
        (["a", "a##"], "empty part"),
        (["a,b"], "holds a comma"),
        ([""], "empty label"),
    ],
)
def test_labels_that_are_none_are_refused(labels, words):
    with pytest.raises(InputError, match=words):
        Taxonomy(labels)


# ---- files


def test_what_is_written_is_read_again(tmp_path):
    rows = task.examples(20)
    random = np.random.RandomState(0)
    for number in range(50):  # and sets of labels that no text has
        names = random.choice(task.LABELS, random.randint(1, 4), replace=False)
        rows.append({"text": f"第{number}", "labels": task.TAXONOMY.complete(names.tolist())})
    write_dataset(tmp_path, {"train": rows[10:], "dev": rows[:10]}, task.LABELS, ["房间很大"])
    assert {severity for severity, _ in validate(tmp_path)} <= {"warning"}
    taxonomy = read_labels(tmp_path / "label.txt")
    assert list(taxonomy.labels) == task.LABELS
    assert read_dataset(tmp_path / "train.txt", taxonomy) == rows[10:]
    assert read_dataset(tmp_path / "dev.txt", taxonomy) == rows[:10]
    assert read_texts(tmp_path / "data.txt") == ["房间很大"]
    # the line of the guide
    labels = ["人生", "人生##死亡", "灾害/意外", "灾害/意外##车祸"]
    (tmp_path / "label.txt").write_text("\n".join(labels) + "\n", "utf-8")
    line = "86岁老翁过马路遭挖掘机碾压身亡\t灾害/意外,灾害/意外##车祸,人生,人生##死亡\n"
    (tmp_path / "train.txt").write_bytes(b"\xef\xbb\xbf" + line.encode())
    rows = read_dataset(tmp_path / "train.txt", read_labels(tmp_path / "label.txt"))
    assert rows == [{"text": line.partition("\t")[0], "labels": labels}]


FAULTS = {  # a line of dev.txt -> what is said of it
    "好\t书\t店": "2 tabs: one in the text?",
    "没有标签 书": "no tab",
    "空的\t": "no label after the tab",
    "\t书": "empty text",
    "": "an empty line",
    "未知\t书,狗": "the label '狗' is not in the label file",
    "全角\t书，书##好": "a full-width comma in '书，书##好'",
    "逗号\t书,,书##好": "an empty label",
    "孤儿\t书##好": "a label without its ancestor '书'",
    "深\t店,店##好##位置": "a label without its ancestor '店##好'",
    "重复\t店": "the text of line 2 with other labels",
    "训练\t书": "the text '训练' is in train.txt, line 1 too",
}


def faulty(tmp_path, *lines: str):
    path = tmp_path / "data"
    path.mkdir(exist_ok=True)
    (path / "label.txt").write_text("\n".join(task.LABELS), "utf-8")
    rows = [f"训练{number or ''}\t{','.join(task.LABELS)}" for number in range(2)]
    (path / "train.txt").write_text("\n".join(rows), "utf-8")
    content = ["开始\t书", "重复\t书", *lines]
    (path / "dev.txt").write_text("".join(line + "\n" for line in content), "utf-8")
    return path


def errors(path, **options) -> list[InputError]:
    return [fault for severity, fault in validate(path, **options) if severity == "error"]


@pytest.mark.parametrize("line", FAULTS)
def test_each_fault_is_named_with_its_file_and_line(line, tmp_path, capsys):
    path = faulty(tmp_path, "前面\t店", line, "后面\t店")
    (fault,) = errors(path)
    assert (fault.where, fault.line) == (str(path / "dev.txt"), 4)
    assert FAULTS[line] in fault.problem and fault.expected
    assert main(["check", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == f"error: {path / 'dev.txt'}, line 4: {fault.problem}; expected {fault.expected}\n"
    assert err == "1 errors, 0 warnings\n"
    if "train.txt" not in fault.problem:  # a file alone says nothing of another
        with pytest.raises(InputError) as caught:
            read_dataset(path / "dev.txt", task.TAXONOMY)
        assert (caught.value.line, caught.value.problem) == (4, fault.problem)


def test_no_line_hides_another(tmp_path):
    path = faulty(tmp_path, *FAULTS)
    faults = errors(path)
    assert [fault.line for fault in faults] == list(range(3, 3 + len(FAULTS)))
    for words, fault in zip(FAULTS.values(), faults, strict=True):
        assert words in fault.problem
    path = faulty(tmp_path, "训练\t狗,书##好", "新\t书##差", "新\t书")
    (path / "label.txt").write_text("书\n书##好\n书##差\n\n店##好\n", "utf-8")
    (path / "train.txt").write_text("训练\t店,店##好\n", "utf-8")
    expected = [
        ("label.txt", 4, "empty label"),
        ("label.txt", 5, "'店##好' without its ancestor '店'"),
        ("dev.txt", 3, "'狗' is not in the label file"),
        ("dev.txt", 3, "is in train.txt, line 1 too"),
        ("dev.txt", 4, "without its ancestor '书'"),
    ]
    for fault, (file, line, words) in zip(errors(path), expected, strict=True):
        assert (fault.where, fault.line) == (str(path / file), line) and words in fault.problem


def test_a_split_is_no_other_split(tmp_path):
    path = task.directory(tmp_path, 20, 10)
    for name in ("dev_file", "test_file"):
        assert "the train file and another" in errors(path, **{name: "train.txt"})[0].problem
    assert main(["check", str(path), "--test_file", "dev.txt"]) == 0


def test_an_output_that_is_an_input_or_a_directory_is_refused_first(tmp_path, capsys):
    path = task.directory(tmp_path, 20, 10)
    (tmp_path / "bad_case.txt").write_text("somebody's notes")
    before = {file: file.read_bytes() for file in path.iterdir()}
    (tmp_path / "link").symlink_to("dev.txt")
    data = ["--dataset_dir", str(path)]
    for command, flag, output, problem in (
        ("evaluate", "--bad_case_path", "dev.txt", "is read by this command"),
        ("evaluate", "--bad_case_path", "link", "is read by this command"),
        ("evaluate", "--report_path", "label.txt", "is read by this command"),
        ("evaluate", "--report_path", ".", "is a directory"),
        ("predict", "--output_path", "data.txt", "is read by this command"),
        ("predict", "--output_path", "data.txt/x", "is a file"),
        ("evaluate", "--bad_case_path", "bad_case.txt", "holds something else than bad cases"),
        ("to_doccano", "--output_path", "train.txt", "is read by this command"),
    ):
        model = ["--params_path", str(tmp_path)] * (command != "to_doccano")
        assert main([command, *data, *model, flag, str(path / output)]) == 2
        assert problem in capsys.readouterr().err, (command, output)
    assert all(file.read_bytes() == content for file, content in before.items())


def test_missing_ancestors_are_completed_when_asked_for(tmp_path):
    path = faulty(tmp_path, "孤儿\t书##好", "深\t店##好##位置")
    assert len(validate(path)) == 2 and validate(path, complete=True) == []
    rows = read_dataset(path / "dev.txt", task.TAXONOMY, complete=True)
    assert [row["labels"] for row in rows[2:]] == [
        ["书", "书##好"],
        ["店", "店##好", "店##好##位置"],
    ]
    (path / "label.txt").write_text("书##好\n书##差\n书\n店##好##位置\n店##差\n", "utf-8")
    said = [fault.problem for fault in errors(path)]
    assert "'店##好##位置' without its ancestor '店'" in said[0] and "'店##好'" in said[1]
    taxonomy = read_labels(path / "label.txt", complete=True)
    assert taxonomy.labels == ("书##好", "书##差", "书", "店", "店##好", "店##好##位置", "店##差")
    with pytest.raises(InputError, match=r"label\.txt, line 4"):
        read_labels(path / "label.txt")


def test_what_is_odd_but_can_be_read_is_a_warning(tmp_path, capsys):
    path = faulty(tmp_path, "重复\t书", "两次\t书,书")
    (path / "train.txt").write_text("训练\t店\n", "utf-8")
    found = validate(path)
    assert {severity for severity, _ in found} == {"warning"}
    said = "\n".join(str(fault) for _, fault in found)
    assert "dev.txt, line 3: repeats line 2" in said
    assert "dev.txt, line 4: repeats a label" in said
    assert "no text has the label '书##好'" in said
    assert said.count("no text has the label '书'") == 1
    assert "no text has the label '书', but dev.txt" in said
    assert main(["check", str(path)]) == 0
    assert [row["text"] for row in read_dataset(path / "dev.txt", task.TAXONOMY)] == [
        "开始", "重复", "两次"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("书\n\n店\n", "line 2: empty label"),
        ("书\n书\n", "line 2: '书' again, as in line 1"),
        ("书\n店,电\n", "line 2: '店,电' holds a comma"),
        ("书\n店\t电\n", "line 2: U+0009 a control character"),
        ("书\n书##\n", "line 2: '书##' has an empty part"),
        ("书\n店 ## 好\n", "line 2: '店 ## 好' has white space around a part"),
        ("书\n书###好\n", "line 2: '书###好' has more than ## between its parts"),
        ("", "is empty"),
        ("\ufeff", "holds no line"),
    ],
)
def test_faults_of_the_label_file(content, words, tmp_path):
    path = faulty(tmp_path)
    (path / "label.txt").write_text(content, "utf-8")
    assert words in str(errors(path)[0])
    with pytest.raises(InputError, match=re.escape(words)):
        read_labels(path / "label.txt")


def test_files_that_are_missing_or_no_text(tmp_path):
    path = faulty(tmp_path)
    content = (path / "train.txt").read_bytes()
    for bad, problem in ((content.decode().encode("utf-16"), "is UTF-16"), (b"", "is empty")):
        (path / "train.txt").write_bytes(bad)
        ((_, fault),) = validate(path)  # and not one for each label that no text of it has
        assert fault.problem == problem
    (path / "train.txt").write_bytes(content)
    (path / "dev.txt").write_bytes("开始\t书\n坏\t店\n".encode("gb18030"))
    (path / "test.txt").write_text("训练1\t书\n", "utf-8")
    (path / "data.txt").write_text("好\n\n", "utf-8")
    said = "\n".join(map(str, errors(path)))
    assert "dev.txt, line 1: byte" in said and "gb18030" in said
    assert "test.txt, line 1: the text '训练1' is in train.txt, line 2 too" in said
    assert "data.txt, line 2: empty text" in said
    (path / "train.txt").unlink()
    assert "train.txt: does not exist" in "\n".join(map(str, errors(path)))
    (path / "label.txt").unlink()
    assert "label.txt: does not exist" in str(errors(path)[0])
    with pytest.raises(InputError, match="is no directory"):
        validate(tmp_path / "none")
    (path / "data.txt").write_text("好\t书\n", "utf-8")
    with pytest.raises(InputError, match="line 1: a tab or a line break in the text"):
        read_texts(path / "data.txt")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"text": "一\t二", "labels": ["书"]}], "train, line 1: a tab or a line break"),
        ([{"text": " ", "labels": ["书"]}], "empty text"),
        ([{"text": "一", "labels": ["书##好"]}], "without its ancestor '书'"),
        ([{"text": "一", "labels": ["狗"]}], "'狗' is not in the label file"),
    ],
)
def test_what_the_format_cannot_hold_is_not_written(rows, words, tmp_path):
    with pytest.raises(InputError, match=words):
        write_dataset(tmp_path / "new", {"train": rows}, task.LABELS)
    assert not (tmp_path / "new").exists()


# ---- doccano


def write_lines(path, *records) -> None:
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records), "utf-8")


def test_doccano_says_what_it_can_read(tmp_path):
    file = tmp_path / "out.jsonl"
    line = '{"text": "好", "label": ["书", "店"], "labels": ["店", "书"]}'
    file.write_text(line, encoding="utf-8")
    assert [set(row["labels"]) for row in read_doccano(file)[0]] == [{"书", "店"}]
    array = [{"text": "好", "label": ["书"]}] * 2
    for content, told in (
        (line.encode("gb18030"), "convert the file from gb18030"),
        (line.encode("utf-16"), "UTF-8 text"),
        (b"{nonsense\n", "line 1: not valid JSON"),
        (json.dumps(array).encode(), r"line 1: the file is a JSON array, .*export as JSONL"),
        (json.dumps(array, indent=1).encode(), r"line 1: the file is a JSON array, .*as JSONL"),
        ('{"text": "好", "label": []}'.encode(), "no labeled text"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=told) as caught:
            read_doccano(file)
        assert "encoding=" not in str(caught.value)


def test_each_line_of_doccano_keeps_its_own_labels_alone(tmp_path):
    path = tmp_path / "all.jsonl"
    write_lines(
        path,
        {"id": 1, "text": "好书", "label": ["书##好"]},
        {"id": 2, "data": "差\t店\n远", "label": ["店##差", "店"]},
        {"id": 3, "text": "没看过", "label": []},
        {"id": 4, "text": "好书", "label": ["书##好"]},
        {"id": 5, "text": "也没看过"},
    )
    examples, texts, taxonomy = read_doccano(path)
    assert examples == [
        {"text": "好书", "labels": ["书", "书##好"]},
        {"text": "差 店 远", "labels": ["店", "店##差"]},
    ]
    assert texts == ["没看过", "也没看过"]
    assert set(taxonomy.labels) == {"书", "书##好", "店", "店##差"}
    with pytest.raises(InputError, match=r"all\.jsonl, line 1: a label without its ancestor '书'"):
        read_doccano(path, complete=False)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"label": ["书"]}, "no key 'text'"),
        ({"text": 3, "label": ["书"]}, "text is a JSON number"),
        ({"text": " ", "label": ["书"]}, "empty text"),
        ({"text": "好", "label": "书"}, "label is a JSON string"),
        ({"text": "好", "label": [[0, 1, "书"]]}, "label is a JSON array, and no list of names"),
        ({"text": "好", "label": ["酒店 ## 位置"]}, "white space around a part"),
        ({"text": "前", "label": ["店"]}, "the text of line 1 with other labels"),
        (["text"], "JSON array"),
    ],
)
def test_lines_of_doccano_that_are_none(record, words, tmp_path):
    write_lines(tmp_path / "a.jsonl", {"text": "前", "label": ["书"]}, record)
    with pytest.raises(InputError, match=rf"a\.jsonl, line 2: .*{words}"):
        read_doccano(tmp_path / "a.jsonl")


def test_splits_deal_out_every_example_once():
    rows = task.examples(50)
    parts = split_examples(rows, [0.8, 0.1, 0.1])
    assert [len(part) for part in parts.values()] == [40, 5, 5]
    texts = [row["text"] for part in parts.values() for row in part]
    assert sorted(texts) == sorted(row["text"] for row in rows)
    assert texts != [row["text"] for row in rows]
    assert split_examples(rows, [0.8, 0.1, 0.1]) == parts
    assert list(split_examples(rows, [0.5, 0.5])) == ["train", "dev"]
    for shares in ([0.5], [0.5, 0.6], [1.5, -0.5], [0.7, 0.1, 0.1, 0.1], [float("nan"), 0.5, 0.5]):
        with pytest.raises(InputError, match="shares with the sum 1"):
            split_examples(rows, shares)
    with pytest.raises(InputError, match="leave train or dev empty"):
        split_examples(rows[:3], [0.9, 0.1])


def test_doccano_through_the_commands(tmp_path, capsys):
    rows = task.examples(40)
    with_slashes = [
        {"text": row["text"], "label": [label.replace("##", "/") for label in row["labels"]]}
        for row in rows
    ]
    write_lines(tmp_path / "in.jsonl", *with_slashes, {"text": "谁知道"})
    words = ["--doccano_file", str(tmp_path / "in.jsonl"), "--save_dir", str(tmp_path / "data")]
    words += ["--separator", "/"]
    assert main(["from_doccano", *words]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts == {"train": 32, "dev": 4, "test": 4, "unlabeled": 1, "labels": 7}
    assert main(["check", str(tmp_path / "data")]) == 0
    assert main(["from_doccano", *words]) == 2 and "holds a run" in capsys.readouterr().err
    out = tmp_path / "out.jsonl"
    words = ["--dataset_dir", str(tmp_path / "data"), "--output_path", str(out)]
    assert main(["to_doccano", *words]) == 0
    records = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    own = {row["text"]: set(row["labels"]) for row in rows}
    assert len(records) == 32 and all(set(r["label"]) == own[r["text"]] for r in records)
    for separator, problem in (
        ("", "separator: is ''"),
        (",", "separator: is ','"),
        ("/", "line 1: '书##好/坏' holds ##"),
    ):
        write_lines(tmp_path / "in.jsonl", {"text": "三", "label": ["书##好/坏"]})
        with pytest.raises(InputError, match=problem):
            read_doccano(tmp_path / "in.jsonl", separator=separator)


def test_the_graph_that_the_course_ships_is_what_its_edges_unfold_into():
    path = data_dir() / "review_tree" / "dag_example"
    assert validate(path) == []
    taxonomy = read_labels(path / "label.txt")
    edges = {
        "优惠": ["价格"], "运费": ["价格", "物流"], "速度": ["物流"], "退货": ["物流", "售后"],
        "客服": ["售后"], "补差价": ["价格", "售后"], "退货运费": ["运费", "退货"],
    }  # fmt: skip
    paths = unfold(edges)
    assert set(chain(*paths.values())) == set(taxonomy.labels)
    for row in read_dataset(path / "train.txt", taxonomy):  # all ways to a node, or none
        nodes = {label.rpartition("##")[2] for label in row["labels"]}
        assert set(row["labels"]) == {label for node in nodes for label in paths[node]}
        assert {above for node in nodes for above in edges.get(node, ())} <= nodes
