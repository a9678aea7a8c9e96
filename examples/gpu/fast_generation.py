"""Compile FasterTransformer for PaddleNLP's GPT and compare it. NOT RUN ON A GPU by the course.

    python examples/gpu/fast_generation.py              compiles for minutes, and downloads sources
    python examples/gpu/fast_generation.py --dry-run    what is missing here, and `generate` alone

`generate(use_fast=True)` does nothing in PaddleNLP 2.8.1 (chapter 14), so FasterGPT is called
itself. It has greedy search as top-k with k = 1, top-k and top-p, and no beam search.
"""

import argparse
import shutil
import time

import course_lib  # noqa: F401 - before paddle
from course_lib.runtime import seed_everything, select_device

import paddle
from paddlenlp.transformers import GPTConfig, GPTForCausalLM


def missing() -> list[str]:
    """What FastGeneration needs and this machine lacks."""
    needs = {
        "a Paddle for CUDA": paddle.is_compiled_with_cuda(),
        "nvcc": shutil.which("nvcc"),
        "cmake": shutil.which("cmake"),
        "git": shutil.which("git"),
    }
    return [name for name, found in needs.items() if not found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    select_device("cpu" if args.dry_run else "gpu")
    size, tokens = (64, 4) if args.dry_run else (768, 128)
    seed_everything(42)
    config = GPTConfig(
        vocab_size=1000, hidden_size=size, num_hidden_layers=2, num_attention_heads=size // 32,
        intermediate_size=4 * size, max_position_embeddings=256, eol_token_id=1, eos_token_id=1,
        bos_token_id=1, pad_token_id=0,
    )  # fmt: skip
    model = GPTForCausalLM(config)  # random weights: only the speed counts
    model.eval()
    prompt = paddle.to_tensor([[5, 6, 7]] * 4)
    options = {"decode_strategy": "greedy_search"}
    ways = {"generate": lambda: model.generate(prompt, max_new_tokens=tokens, **options)[0]}
    if not args.dry_run:
        from paddlenlp.ops import FasterGPT

        fast = FasterGPT(model, use_fp16_decoding=False)
        length = paddle.full([4], 3, "int32")
        ways["FasterGPT"] = lambda: fast(
            input_ids=prompt,
            seq_len=length,
            decode_strategy="greedy_search",
            max_length=tokens,
            bos_token_id=1,
            eos_token_id=1,
            pad_token_id=0,
        )
    for name, way in ways.items():
        way()
        begin = time.perf_counter()
        shape = list(way().shape)
        took = (time.perf_counter() - begin) / tokens
        print(f"{name}: ids {shape}, {1000 * took:.2f} ms for a token of each of 4 texts")
    if args.dry_run:
        print(
            "dry run: FasterGPT was not compiled. Missing here:", ", ".join(missing()) or "nothing"
        )


if __name__ == "__main__":
    main()
