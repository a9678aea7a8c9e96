"""Run an exported classifier with TensorRT on a GPU. NOT RUN ON A GPU by the course.

    python examples/gpu/tensorrt.py DIRECTORY              what export_model wrote
    python examples/gpu/tensorrt.py DIRECTORY --dry-run    the same calls, as far as a CPU gets

TensorRT compiles for ranges of shapes, so a first run collects the shapes of all tensors
(`collect_shape_range_info`), and a second one gives them to TensorRT.
"""

import argparse
import tempfile
import time
from pathlib import Path

import course_lib  # noqa: F401 - before paddle
from course_lib.deploy import Predictor
from course_lib.deploy.files import find_files

import numpy as np
import paddle
from paddle import inference

BATCHES = ((1, 16), (16, 64), (32, 128))  # texts, tokens: smallest, usual, largest


def configuration(prefix: Path, shapes: Path, precision: str | None, gpu: bool) -> inference.Config:
    """`precision` None collects the shapes; "float32" or "float16" runs TensorRT."""
    config = inference.Config(f"{prefix}.pdmodel", f"{prefix}.pdiparams")
    if gpu:
        config.enable_use_gpu(1000, 0)  # MB, number of the card
    if precision is None:
        config.collect_shape_range_info(str(shapes))
    elif gpu:
        kind = {"float32": inference.PrecisionType.Float32, "float16": inference.PrecisionType.Half}
        config.enable_tensorrt_engine(
            workspace_size=1 << 30, max_batch_size=32, min_subgraph_size=5,
            precision_mode=kind[precision], use_static=True, use_calib_mode=False,
        )  # fmt: skip
        config.enable_tuned_tensorrt_dynamic_shape(str(shapes), True)
    return config


def run(predictor: inference.Predictor, ids: np.ndarray) -> np.ndarray:
    for name in predictor.get_input_names():
        value = ids if name == "input_ids" else ids * 0
        predictor.get_input_handle(name).copy_from_cpu(value)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    gpu = not args.dry_run
    prefix = find_files(args.directory)
    cpu, random = Predictor(prefix), np.random.RandomState(0)
    longest = cpu.max_length or 128
    batches = [random.randint(5, 100, (n, min(t, longest))).astype("int64") for n, t in BATCHES]
    with tempfile.TemporaryDirectory() as folder:
        shapes = Path(folder, "shapes.pbtxt")
        collector = inference.create_predictor(configuration(prefix, shapes, None, gpu))
        for batch in batches:
            run(collector, batch)
        del collector  # it writes the file when it goes
        print("shapes collected:", shapes.is_file())
        for precision in ("float32", "float16"):
            predictor = inference.create_predictor(configuration(prefix, shapes, precision, gpu))
            for batch in batches:
                run(predictor, batch)  # compiles
                begin = time.perf_counter()
                logits = run(predictor, batch)
                took = 1000 * (time.perf_counter() - begin)
                off = np.abs(logits - cpu.run({"input_ids": batch})[0]).max()
                print(f"{precision} {batch.shape}: {took:.1f} ms, logits off by {off:.1e}")
    if args.dry_run:
        built = paddle.is_compiled_with_cuda()
        print(f"dry run: without TensorRT, FP32 on the CPU. Paddle for CUDA: {built}")


if __name__ == "__main__":
    main()
