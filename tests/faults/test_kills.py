"""Commands are killed, and what they end with in the end has the bits of an unbroken run."""

import json
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import workshop

TIMES = re.compile(r".*(seconds|runtime|per_second)")
KILLED = {  # in how many tests, at least once in each: of all, and in `make test`
    "train": (20, 3), "hierarchical train": (20, 3), "compress": (20, 1),
    "export": (15, 1), "hierarchical export": (10, 1),
}  # fmt: skip
RESUME = {"train": ["--resume"], "hierarchical train": ["--init_from_ckpt", "newest"]}


@pytest.fixture(scope="module")
def run():
    with workshop.warm() as run:
        yield run


def outcome(directory: Path) -> dict[str, object]:
    """What each file holds, but for hours and durations: logs, and the seal of such a file."""

    def without_times(pairs):
        return {key: value for key, value in pairs if not TIMES.match(key)}

    found = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = str(path.relative_to(directory))
        if path.name in ("metrics.json", "trainer_state.json") and "/." not in f"/{name}":
            found[name] = json.loads(path.read_text(), object_pairs_hook=without_times)
        elif not path.name.startswith("vdlrecords") and path.name != "course.json":
            found[name] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def unbroken(place, run):
    """By command: what a run that nobody kills leaves, its changes of files and its seconds."""
    made = {}

    def unbroken(name: str):
        if name not in made:
            (place / name).mkdir()
            status, told, seconds = run(place / name, workshop.COMMANDS[name].split())
            assert status == 0, told
            changes = int((place / "changes").read_text())
            made[name] = outcome(place / name / "out"), changes, seconds
        return made[name]

    return unbroken


@pytest.mark.parametrize("name", KILLED if workshop.ALL else ["export"])
def test_a_fork_gives_the_bits_of_a_process_of_its_own(name, place, unbroken):
    cwd = place / f"{name} alone"
    cwd.mkdir()
    words = workshop.COMMANDS[name].split()
    module = ["course_lib.hierarchical", *words[1:]] if " " in name else ["course_lib", *words]
    subprocess.run([sys.executable, "-m", *module], cwd=cwd, env=workshop.ENV, check=True)
    assert outcome(cwd / "out") == unbroken(name)[0]


def as_told(name: str, cwd: Path, told: str) -> tuple[list[str], Path]:
    """The command line of a user who has read why the last one was refused, and its place."""
    errors = [line for line in told.splitlines() if "error" in line.lower()]
    assert len(errors) == 1 and errors[0].startswith("error: out: "), told
    words = workshop.COMMANDS[name].split()
    if "to go on with it" in told:
        return words + RESUME[name], cwd
    if "holds no training" not in told:
        assert "expected a new directory\n" in told
        cwd = cwd.with_name(f"{cwd.name} new")
        cwd.mkdir()
    return words, cwd


SEEDS = [(name, seed) for name, some in KILLED.items() for seed in range(some[not workshop.ALL])]


@pytest.mark.parametrize(("name", "seed"), SEEDS)
def test_what_was_killed_ends_with_the_same_bits(name, seed, place, run, unbroken):
    expected, changes, seconds = unbroken(name)
    sizes = [len(content) for content in expected.values() if isinstance(content, bytes)]
    chance = random.Random(f"{name} {seed}")
    planned = chance.choice([1, 1, 1, 2])
    cwd = place / f"{name} {seed}"
    cwd.mkdir()
    words, deaths, refusals, status = workshop.COMMANDS[name].split(), [], [], None
    while status != 0 or not deaths:
        end = {
            "change": chance.randint(1, changes),
            "after": chance.uniform(0, seconds),
            "size": int(chance.choice(sizes) * chance.random()),
        }
        way = chance.choice(["change", "change", "after", "size"])
        end = {way: end[way]} if len(deaths) < planned else {}
        status, told, _ = run(cwd, words, **end)
        if status == 2:
            refusals.append(told)
            assert len(refusals) < 3, refusals
            words, cwd = as_told(name, cwd, told)
        elif status < 0:
            deaths.append(end)
            assert len(deaths) <= planned
            for file, content in outcome(cwd / "out").items():  # what has its name is whole
                assert file.startswith("checkpoints") or content == expected.get(file, content)
            if name in RESUME and chance.random() < 0.5:
                words = workshop.COMMANDS[name].split() + RESUME[name]
        elif not deaths:  # it was over too early to be killed
            shutil.rmtree(cwd / "out")
        assert status in (0, 2, -signal.SIGKILL, -signal.SIGXFSZ), (deaths, told)
    assert outcome(cwd / "out") == expected, deaths
    workshop.FIGURES[f"kills of {name}, with equal bits in the end"] += len(deaths)
    for one in deaths:
        workshop.FIGURES[f"kills by {next(iter(one))}"] += 1
