"""`python -m course_lib.hierarchical`, and the script that paddle.distributed.launch starts."""

from course_lib.cli.hierarchical import main

if __name__ == "__main__":
    raise SystemExit(main())
