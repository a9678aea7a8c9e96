"""The command line: `python -m course_lib`."""
