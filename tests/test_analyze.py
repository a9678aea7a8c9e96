"""Chapter 10a's commands on the guide's files: what they write is checked without them."""

import course_lib  # noqa: F401
from course_lib.chapters.analyze import main
from course_lib.cli import hierarchical
from course_lib.models import load_backbone, save_model

import hierarchical_task as task


def test_wrong_labels_lonely_texts_and_copies(tmp_path, capsys):
    folder = task.directory(tmp_path / "data", 150)
    given = ["--dataset_dir", str(folder)]
    lines = lambda name: (folder / name).read_text("utf-8").splitlines()  # noqa: E731
    train = lines("train.txt")
    for n in range(0, 150, 15):  # a wrong verdict
        text, labels = train[n].replace(",店##好##位置", "").split("\t")
        train[n] = f"{text}\t{labels.translate(str.maketrans('好差', '差好'))}"
    (folder / "train.txt").write_text("\n".join(train) + "\n", "utf-8")
    (folder / "dev.txt").open("a", encoding="utf-8").write("龘靐齉\t书\n")
    assert main(["dirty", *given, "--dirty_num", "20"]) == 0
    assert len({*train[::15]} & {*lines("train_dirty.txt")}) > 6
    assert sorted(lines("train_dirty.txt") + lines("train_dirty_rest.txt")) == sorted(train)
    assert main(["sparse", *given, "--sparse_num", "5", "--valid_num", "7"]) == 0
    assert lines("sparse.txt")[0] == "龘靐齉\t书"  # no character is in train
    assert len({*lines("valid.txt")} & {*train}) == 7
    assert main(["augment", *given, "--aug_strategy", "swap"]) == 0
    same = [(sorted(text), labels) for text, labels in (row.split("\t") for row in train)]
    made = [(sorted(text), labels) for text, labels in (s.split("\t") for s in lines("aug.txt"))]
    assert 0 < len(made) <= 300 and all(row in same for row in made)
    (folder / "train.txt").write_text("好书\t书\n店 床\n", "utf-8")
    assert main(["augment", *given]) == 2 and "line 2" in capsys.readouterr().err


def test_an_english_model_compares_texts(tmp_path, capsys):
    folder, given = tmp_path / "data", ["--dataset_dir", str(tmp_path / "data")]
    things = {"book": ["page", "story", "cover"], "hotel": ["bed", "room", "view"]}
    rows = [f"{w} {noun}\t{k}" for k in things for noun in things[k] for w in ("the", "our", "a")]
    folder.mkdir()
    for name, own in (("train", rows[::2]), ("dev", rows[1::2]), ("label", [*things])):
        (folder / f"{name}.txt").write_text("\n".join(own) + "\n", "utf-8")
    (folder / "data.txt").write_text("no page\nno bed\n", "utf-8")
    save_model(*load_backbone("fresh", vocab_texts=rows, **task.TINY), tmp_path / "tiny")
    saved = ["--save_dir", str(tmp_path / "model"), "--model_name", str(tmp_path / "tiny")]
    assert hierarchical.main(["train", *given, *saved, "--epochs", "1", "--device", "cpu"]) == 0
    words = ["--annotate", "--valid_threshold", "-1", "--params_path", str(tmp_path / "model")]
    assert main(["sparse", *given, *words]) == 0
    assert {*(folder / "valid.txt").read_text().split("\n")[:2]} == {"no page", "no bed"}
    assert main(["augment", *given, "--aug_strategy", "swap"]) == 2
    assert "Latin letters" in capsys.readouterr().err  # PaddleNLP leaves English words alone
