"""A forged pickle in the place of each file that may be one runs nothing; manifests of models."""

import json
import pickle
import shutil
from collections import OrderedDict
from pathlib import Path

from course_lib.chapters.ch05 import main as finetune
from course_lib.cli import commands as cli
from course_lib.cli import hierarchical as tree_cli
from course_lib.compression import load_pruned
from course_lib.deploy import Predictor, export_model
from course_lib.models import load_backbone, read_weights, save_model, trust_pickles, write_weights
from course_lib.models.files import weight_shapes
from course_lib.models.pickles import read_pickle
from course_lib.runtime import InputError
from course_lib.runtime.commands import exit_status
from course_lib.runtime.manifest import describe_files
from course_lib.tasks.hierarchical.model import Classifier
from course_lib.tasks.vocabulary import load_with_words
from course_lib.training import load_plain

import hierarchical_task as tree
import numpy as np
import paddle
import pytest
import tiny_trainer
import training_runs as runs
from paddlenlp.transformers import AutoModelForSequenceClassification

PICKLE = "model_state.pdparams"


class Forged:
    """Unpickling it makes a file, as it could do anything else."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


@pytest.fixture
def marker(tmp_path):
    yield tmp_path / "marker"
    assert not (tmp_path / "marker").exists(), "the pickle has run"


@pytest.fixture
def forge(marker):
    """Write a state dict with a forged entry."""

    def write(file: Path) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps({"weight": Forged(marker)}, 4))
        return file

    return write


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A tiny classifier, one of a tree, the tree's data, reviews in a file."""
    place = tmp_path_factory.mktemp("shared")
    save_model(*runs.model_and_tokenizer(), place / "model")
    tree.tiny_model(place / "tree", problem_type="multi_label_classification")
    tree.directory(place / "data", 12, 6)
    rows = [f"{row['text']}\t{runs.LABELS[row['label']]}\n" for row in runs.dataset(24)]
    (place / "rows.tsv").write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
    return place


@pytest.fixture
def place(shared, tmp_path, forge):
    """The same, but the weights are pickles, and the manifest is that of whoever forged them."""
    copy = shutil.copytree(shared, tmp_path / "forged")
    for name in ("model", "tree"):
        (copy / name / "model.safetensors").unlink()
        (copy / name / "manifest.json").unlink()
        forge(copy / name / PICKLE)
    return copy


ROWS = "--train_file {p}/rows.tsv --dev_file {p}/rows.tsv"
DATA = "--dataset_dir {p}/data"


@pytest.mark.parametrize(
    "words",
    [
        f"train {ROWS} --output_dir {{p}}/out --model_name_or_path {{p}}/model",
        "evaluate --model_dir {p}/model --test_file {p}/rows.tsv",
        "predict --model_dir {p}/model --input_file {p}/rows.tsv",
        "export --model_dir {p}/model --output_dir {p}/out",
        f"compress --model_name_or_path {{p}}/model --output_dir {{p}}/out {ROWS} --strategy ptq",
        "quickstart --output_dir {p}/out",
        f"tree train {DATA} --save_dir {{p}}/out --model_name {{p}}/tree",
        f"tree train {DATA} --save_dir {{p}}/out --model_name {{p}}/../whole/tree "
        f"--init_from_ckpt {{p}}/tree/{PICKLE}",
        f"tree evaluate {DATA} --params_path {{p}}/tree",
        f"tree predict {DATA} --params_path {{p}}/tree",
        "tree export --params_path {p}/tree --output_path {p}/out",
        f"tree prune {DATA} --params_dir {{p}}/tree --output_dir {{p}}/out",
        "finetune --model_name_or_path {p}/model --output_dir {p}/out",
    ],
    ids=lambda words: " ".join(words.split()[:2]),
)
def test_no_command_runs_a_pickle(place, shared, words, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_BACKBONE", str(place / "model"))  # of quickstart
    monkeypatch.setenv("COURSE_PROFILE", "smoke")
    shutil.copytree(shared / "tree", place.parent / "whole" / "tree")
    command, *rest = words.format(p=place).split()
    if command == "finetune":
        small = ["--train_examples", "4", "--dev_examples", "4", "--device", "cpu"]
        status = exit_status(lambda: finetune([*rest, *small]))
    else:
        status = tree_cli.main(rest) if command == "tree" else cli.main([command, *rest])
    said = capsys.readouterr().err
    assert status == 2 and f"{PICKLE}: is a pickle that may run code: it names io.open" in said
    assert "--trust_pickle" in said.splitlines()[-1]


READERS = {
    "load_backbone": load_backbone,
    "load_pruned": load_pruned,
    "load_with_words": lambda d: load_with_words(d, AutoModelForSequenceClassification),
    "Classifier.load": Classifier.load,
    "read_weights": lambda d: read_weights(d / PICKLE),
    "weight_shapes": lambda d: weight_shapes(d / PICKLE),
    "load_plain": lambda d: load_plain(paddle.nn.Linear(2, 2), d / PICKLE),
}


@pytest.mark.parametrize("name", READERS)
def test_no_function_runs_a_pickle(place, name):
    with pytest.raises(InputError, match=rf"{PICKLE}: is a pickle that may run code"):
        READERS[name](place / "model")


@pytest.mark.parametrize("name", [PICKLE, "optimizer.pdopt", "scheduler.pdparams"])
def test_no_resume_runs_a_pickle(tmp_path, forge, name):
    tiny_trainer.build(tmp_path / "run", max_steps=2).train()
    checkpoint = tmp_path / "run" / "checkpoint-2"
    for file in (*checkpoint.glob("*.safetensors"), checkpoint / "scheduler.json"):
        file.unlink()
    forge(checkpoint / name)
    again = tiny_trainer.build(tmp_path / "run", max_steps=3)
    with pytest.raises(InputError, match="is missing"):  # of the files in the seal
        again.train(str(checkpoint))
    seal = json.loads((checkpoint / "course.json").read_text())
    (checkpoint / "course.json").unlink()
    seal["files"] = describe_files(checkpoint)  # by whoever forged it
    (checkpoint / "course.json").write_text(json.dumps(seal))
    with pytest.raises(InputError, match=r"model\.safetensors: does not exist"):
        again.train(str(checkpoint))


@pytest.mark.parametrize("exported", [False, True])
def test_no_tokenizer_runs_a_pickle(shared, tmp_path, forge, exported):
    """ErnieTinyTokenizer unpickles a list of words, and tokenizer_config.json can ask for it."""
    if exported:
        model, tokenizer = load_backbone(shared / "model")
        directory = export_model(model, tmp_path / "m", tokenizer).parent
    else:
        directory = shutil.copytree(shared / "model", tmp_path / "m")
        (directory / "manifest.json").unlink()
    file = directory / "deploy.json"
    if exported:
        file.write_text(json.dumps({**json.loads(file.read_text()), "files": {}}))
    (directory / "tokenizer_config.json").write_text('{"tokenizer_class": "ErnieTinyTokenizer"}')
    (directory / "spm_cased_simp_sampled.model").touch()
    forge(directory / "dict.wordseg.pickle")
    with pytest.raises(InputError, match=r"dict\.wordseg\.pickle: is a pickle that may run code"):
        Predictor(directory).tokenizer if exported else load_backbone(directory)


def test_neither_the_hub_nor_shards_run_a_pickle(shared, tmp_path, forge, monkeypatch):
    file = forge(tmp_path / "cache" / PICKLE)
    monkeypatch.setattr(
        AutoModelForSequenceClassification,
        "from_pretrained",
        lambda *a, **k: paddle.load(str(file)),
    )
    with pytest.raises(InputError, match=rf"{PICKLE}: is a pickle that may run code"):
        load_backbone("ernie-of-a-stranger")
    monkeypatch.undo()
    copy = shutil.copytree(shared / "model", tmp_path / "m")
    shards = {"metadata": {}, "weight_map": {"classifier.weight": forge(copy / PICKLE).name}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(shards))
    with pytest.raises(InputError, match=r"index\.json: is of weights in several files"):
        load_backbone(copy)


def test_who_trusts_a_pickle_gets_what_it_holds(shared, tmp_path, capsys):
    ran = tmp_path / "ran"
    copy = shutil.copytree(shared / "model", tmp_path / "m")
    weights = read_weights(copy / "model.safetensors")
    for name in ("model.safetensors", "manifest.json"):
        (copy / name).unlink()

    class Own(dict):  # a class of somebody's own, made by a function of theirs
        def __reduce__(self):
            return eval, (f"open({str(ran)!r}, 'a').close() or values", {"values": dict(self)})

    (copy / PICKLE).write_bytes(pickle.dumps(Own(weights), 4))
    with pytest.raises(InputError, match=r"names builtins\.eval"):
        load_backbone(copy)
    assert not ran.exists()
    model, _ = load_backbone(copy, trust_pickle=True)
    assert (model.classifier.weight.numpy() == weights["classifier.weight"]).all()
    with trust_pickles():
        assert set(read_weights(copy / PICKLE)) == set(weights)
    assert ran.exists()
    words = ["export", "--model_dir", str(copy), "--output_dir", str(tmp_path / "out")]
    assert cli.main(words) == 2 and cli.main([*words, "--trust_pickle"]) == 0


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_what_paddle_writes_is_read_as_paddle_reads_it(tmp_path, protocol):
    layer = paddle.nn.Linear(2, 3)
    schedule = paddle.optimizer.lr.NoamDecay(4, 2)
    optimizer = paddle.optimizer.AdamW(schedule, parameters=layer.parameters())
    layer(paddle.ones([1, 2])).sum().backward()
    optimizer.step()
    mixed = {"a": [layer.weight, (1, 2.5, None, True, "文")], "n": np.float32(1.5), 3: {"x": 1}}
    mixed["kinds"] = [np.arange(6).reshape(2, 3).T, np.zeros(0, ">i2"), np.ones(2, bool)]
    for value in (layer.state_dict(), optimizer.state_dict(), schedule.state_dict(), mixed):
        paddle.save(value, str(tmp_path / "file"), protocol=protocol)
        theirs = paddle.load(str(tmp_path / "file"), return_numpy=True)
        ours = read_pickle(tmp_path / "file")
        np.testing.assert_equal(ours, theirs)
    old = OrderedDict(weight=layer.weight.numpy())
    for value in (old, paddle.load(str(tmp_path / "file"))["a"][0]):
        paddle.save(value, str(tmp_path / "file"), protocol=protocol)
        np.testing.assert_equal(
            read_pickle(tmp_path / "file"), paddle.load(str(tmp_path / "file"), return_numpy=True)
        )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        pickle.dumps({"a": np.array([print], object)}),
        pickle.dumps({"a": np.zeros(9)})[:-30],
        b"\x80\x04cnumpy\ndtype\n.",
        b"\x80\x02c__builtin__\nbytes\n\x8a\x05\0\0\0\xc0\0\x85R.",  # 3 GB of zeros
        # an object type without a call; fields, and flags, by a state that NumPy would believe
        b"\x80\x02cnumpy\ndtype\nU\x01O\x85\x81.",
        b"\x80\x04\x8e\0\0\0\0\0\1\0\0abc.",  # 1 TB of bytes
        b"\x80\x02cnumpy\ndtype\nU\x02f4\x85R(K\x03U\x01<U\x01aNNJ\xff\xff\xff\xffK\x01K?tb.",
        b"\x80\x02cnumpy\ndtype\nU\x02f4\x85R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK?tb.",
    ],
    ids=range(9),
)
def test_other_pickles_are_refused_in_words(tmp_path, content):
    (tmp_path / PICKLE).write_bytes(content)
    with pytest.raises(InputError, match=f"{PICKLE}: (is (damaged|a pickle)|holds a )"):
        read_weights(tmp_path / PICKLE)


# ---- manifests


def swap(text: str) -> str:
    lines = text.split("\n")
    lines[10], lines[11] = lines[11], lines[10]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("vocab.txt", swap),
        ("config.json", lambda text: text.replace('heads": 2', 'heads": 4')),
        ("tokenizer_config.json", lambda text: text.replace("true", "false")),
        ("special_tokens_map.json", lambda text: text.replace("[MASK]", "[SEP]")),
        ("model.safetensors", None),
        ("added_tokens.json", lambda text: "{}"),
    ],
)
def test_a_file_that_was_changed_after_saving_is_named(shared, tmp_path, name, change):
    directory = shutil.copytree(shared / "model", tmp_path / "m")
    file = directory / name
    if change is None:
        weights = read_weights(file)
        write_weights(file, {**weights, "classifier.bias": weights["classifier.bias"] + 1})
    else:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(change(before), encoding="utf-8", newline="\n")
        assert file.read_text(encoding="utf-8") != before
    for load in (load_backbone, READERS["load_with_words"], load_pruned):
        with pytest.raises(InputError, match=f"{name}: (is damaged or )?was .*delete manifest"):
            load(directory)
    (directory / "manifest.json").unlink()
    load_backbone(directory)


@pytest.mark.parametrize("record", ["7", "null", "[]"])
def test_a_manifest_of_other_things_is_damaged(shared, tmp_path, record):
    directory = shutil.copytree(shared / "model", tmp_path / "m")
    file = directory / "manifest.json"
    file.write_text(f'{{"files": {{"vocab.txt": {record}}}}}')
    with pytest.raises(InputError, match=r"manifest\.json: is missing or damaged"):
        load_backbone(directory)


def test_a_model_of_a_tree_has_a_manifest_too(shared, tmp_path):
    classifier = Classifier(*load_backbone(shared / "tree"))
    classifier.save(tmp_path / "m")
    listed = json.loads((tmp_path / "m" / "manifest.json").read_text())["files"]
    assert {"thresholds.json", "config.json", "vocab.txt", "model.safetensors"} <= set(listed)
    classifier.export(tmp_path / "m")  # it replaces the configuration, and says so
    Classifier.load(tmp_path / "m")
    file = tmp_path / "m" / "thresholds.json"
    file.write_text(file.read_text().replace("0.5", "0.6", 1))
    with pytest.raises(InputError, match=r"thresholds\.json: is damaged or was changed"):
        Classifier.load(tmp_path / "m")


def test_a_copied_record_hides_no_forged_file(shared, tmp_path):
    """What is made of an export records its vocabulary: a changed one would be vouched for."""
    from course_lib.compression import quantize_embeddings

    prefix = export_model(
        *[load_backbone(shared / "model")[0], tmp_path / "a"], load_backbone(shared / "model")[1]
    )
    vocabulary = tmp_path / "a" / "vocab.txt"
    vocabulary.write_text(swap(vocabulary.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(InputError, match=r"vocab\.txt: is damaged or was changed"):
        quantize_embeddings(prefix, tmp_path / "b" / "model")


@pytest.mark.parametrize("read", [read_weights, weight_shapes])
def test_a_number_format_that_numpy_lacks_is_named(read, tmp_path):
    file = tmp_path / "model.safetensors"
    head = json.dumps({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    file.write_bytes(len(head).to_bytes(8, "little") + head + bytes(4))
    with pytest.raises(InputError, match=r"a is in BF16, which is not read here; .* F32"):
        read(file)
