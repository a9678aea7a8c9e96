"""Every strategy of CompressTrainer from end to end, on tiny models."""

import course_lib  # noqa: F401
from course_lib.deploy import Predictor, export_model

import compression_tasks as tasks
import numpy as np
import pytest
import training_runs as runs

pytestmark = pytest.mark.slow

FILES = {  # what each strategy leaves below output_dir, beside model
    "ptq": ["abs_max4_2/int8"],
    "qat": ["int8"],
    "ptq+embeddings": ["abs_max4_2/int8", "abs_max4_2/quant_emb"],
    "qat+embeddings": ["int8", "quant_emb"],
    "embeddings": ["quant_emb"],
}
FILES |= {
    f"dynabert+{strategy}": [f"width_mult_0.5/{name}" for name in ("model", *names)]
    for strategy, names in FILES.items()
}
del FILES["embeddings"]  # not a strategy by itself


@pytest.mark.parametrize("strategy", FILES)
def test_every_strategy(strategy, tmp_path):
    trainer = tasks.compressor(tmp_path, strategy, tasks.sequence_task())
    before = runs.weights_digest(trainer.model)
    frame = trainer.compress()
    assert runs.weights_digest(trainer.model) == before and trainer.model.training
    paths = [str(path.relative_to(tmp_path)) for path in frame["path"]]
    assert paths == ["model", *FILES[strategy]]
    assert frame["embeddings"].tolist() == ["quant_emb" in path for path in paths]
    assert (frame["megabytes"] > 0).all()
    batch = trainer.data_collator(list(trainer.eval_dataset)[:8])
    inputs = {name: batch[name].numpy() for name in ("input_ids", "token_type_ids")}
    outputs = [Predictor(path).run(inputs)[0] for path in frame["path"]]
    for path, output in zip(paths, outputs, strict=True):
        quantised = "int8" in path or ("emb" in path and strategy != "dynabert+embeddings")
        assert Predictor(tmp_path / path).quantized == quantised
        if "width" not in path and "qat" not in strategy:
            np.testing.assert_allclose(output, outputs[0], atol=0.05)


def test_all_combinations_of_the_lists_are_tried(tmp_path):
    frame = tasks.compressor(
        tmp_path,
        "ptq",
        tasks.sequence_task(),
        algo_list=["abs_max", "avg"],
        batch_num_list=[1, None],
        batch_size_list=[4],
    ).compress()
    made = frame.iloc[1:]
    assert len(made) == 4 and set(made["algo"]) == {"abs_max", "avg"}
    assert all(path.with_name("int8.pdmodel").is_file() for path in made["path"])


def test_a_static_model_is_quantised(tmp_path):
    task = tasks.sequence_task()
    first = export_model(task[0], tmp_path / "given", name="my")
    trainer = tasks.compressor(
        tmp_path / "out", "ptq", task, input_infer_model_path=str(first), train_dataset=None
    )
    frame = trainer.compress()
    assert frame["path"].tolist() == [first, tmp_path / "out/abs_max4_2/int8"]
    assert not (tmp_path / "out/model.pdmodel").exists()
