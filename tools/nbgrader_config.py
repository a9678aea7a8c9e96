"""Settings with which nbgrader hands out and grades the chapters of solutions/.

Copy this file into an nbgrader course directory. The blank line is the one that the learner's
editions in notebooks/ have; nbgrader's own default would stop a notebook at its first blank answer.
"""

from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor

c = get_config()  # noqa: F821, nbgrader defines it

c.ClearSolutions.code_stub = {"python": "# your answer here"}
c.ClearSolutions.begin_solution_delimeter = "BEGIN SOLUTION"
c.ClearSolutions.end_solution_delimeter = "END SOLUTION"
# Chapters train models: give a cell the time that it needs on two cores.
c.ExecutePreprocessor.timeout = 1800
c.ExecutePreprocessor.startup_timeout = 600

# A warning is no error: without these two, nbgrader gives no points where anything is on stderr.
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = r"(?s)."


class Unsolved(NbGraderPreprocessor):
    """A check that has not said "correct" earns no points, whatever kept it quiet."""

    def preprocess_cell(self, cell, resources, index):
        entry = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and entry.get("grade"):
            said = f"{entry['grade_id'].removesuffix('-check')}: correct"
            if not any(said in output.get("text", "") for output in cell.outputs):
                text = f"the check has not said {said!r}"
                error = {"ename": "AssertionError", "evalue": text, "traceback": [text]}
                cell.outputs.append(new_output("error", **error))
        return cell, resources


c.Autograde.autograde_preprocessors.insert(1, Unsolved)  # right after Execute
