from course_lib.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
