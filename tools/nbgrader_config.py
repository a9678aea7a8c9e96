"""Settings with which nbgrader hands out and grades the chapters of solutions/.

Copy this file into an nbgrader course directory. The blank line is the one that the learner's
editions in notebooks/ have; nbgrader's own default would stop a notebook at its first blank answer.
"""

c = get_config()  # noqa: F821, nbgrader defines it

c.ClearSolutions.code_stub = {"python": "# your answer here"}
c.ClearSolutions.begin_solution_delimeter = "BEGIN SOLUTION"
c.ClearSolutions.end_solution_delimeter = "END SOLUTION"
# Chapters train models: give a cell the time that it needs on two cores.
c.ExecutePreprocessor.timeout = 1800
