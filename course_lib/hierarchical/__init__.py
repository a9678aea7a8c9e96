"""Only the command `python -m course_lib.hierarchical`; see course_lib.tasks.hierarchical."""
