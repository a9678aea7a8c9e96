"""Fine-tune the backbone in FP32 and in 16 bits on a GPU. NOT RUN ON A GPU by the course.

    python examples/gpu/mixed_precision.py [--dtype bfloat16] [--steps 100]
    python examples/gpu/mixed_precision.py --dry-run     two steps of each on the CPU, in FP32

O1 computes matrix products in 16 bits and keeps the weights in FP32; O2 keeps the model in 16 bits
and a copy of the weights in FP32. float16 needs its loss scaled, or small gradients become 0.
"""

import argparse
import time

import course_lib  # noqa: F401 - before paddle
from course_lib.data import create_dataloader, load_reviews
from course_lib.models import load_backbone, suggested_learning_rate
from course_lib.runtime import seed_everything, select_device

import paddle
from paddle.nn import functional


def run(level: str, dtype: str, steps: int, batch_size: int, enabled: bool) -> tuple[float, float]:
    """Steps per second and the last loss; `enabled` False is FP32, as on a CPU."""
    seed_everything(42)
    train = load_reviews("train", max_examples=steps * batch_size)
    model, tokenizer = load_backbone(label_list=train.label_list)
    rate = suggested_learning_rate(model)
    optimizer = paddle.optimizer.AdamW(rate, parameters=model.parameters(), multi_precision=True)
    half = enabled and level != "O0"
    if half and level == "O2":
        model, optimizer = paddle.amp.decorate(model, optimizer, level="O2", dtype=dtype)
    scaler = paddle.amp.GradScaler(enable=half and dtype == "float16")
    loader = create_dataloader(train, tokenizer, "train", batch_size=batch_size)
    model.train()
    begin, loss = time.perf_counter(), paddle.zeros([])
    for ids, types, labels in loader:
        with paddle.amp.auto_cast(enable=half, level="O1" if level == "O0" else level, dtype=dtype):
            loss = functional.cross_entropy(model(ids, types).astype("float32"), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
    last = float(loss)  # waits for the GPU
    return steps / (time.perf_counter() - begin), last


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), default="float16")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    device = select_device("cpu" if args.dry_run else "gpu")
    steps, batch_size = (2, 4) if args.dry_run else (args.steps, 32)
    for level in ("O0", "O1", "O2"):
        speed, loss = run(level, args.dtype, steps, batch_size, enabled=device != "cpu")
        name = "FP32" if level == "O0" else f"{args.dtype} {level}"
        print(f"{name} on {device}: {speed:.2f} steps/s, last loss {loss:.4f}")
    if args.dry_run:
        print("dry run: all three in FP32 on the CPU. 16 bits need a GPU.")


if __name__ == "__main__":
    main()
