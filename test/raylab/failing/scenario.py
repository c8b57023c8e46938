"""What a scenario is, and the ways in which one is played."""

import dataclasses
import time
from collections.abc import Callable

APP = "/home/ray/app"
PY = "/home/ray/venv/bin/python"


@dataclasses.dataclass
class Scenario:
    name: str
    ray: str  # version
    story: str  # what happens, for people
    play: Callable  # called with the failures.Cluster once Ray is up
    truth: dict  # see TestRecordedFailures in pkg/findings
    nodes: int = 1
    cpus: int = 2  # of a node
    memory: int = 0  # bytes that a pod may use; 0: as much as the machine has
    env: dict = dataclasses.field(default_factory=dict)  # of Ray's processes
    settle: float = 4  # s between the play's end and the cluster's


SCENARIOS = {}


def scenario(name, ray, story, play, outcome="failed", title="", find=(), **more):
    """Declares a scenario. title, names and not_ are what its first finding's title says, and does not say."""
    truth = {"outcome": outcome, "find": list(find) or ([title] if title else [])}
    if title:
        truth["title"] = title
    for key in ("names", "not_", "none", "jobs", "first"):
        if key in more:
            truth[key.rstrip("_")] = more.pop(key)
    assert name not in SCENARIOS, name
    SCENARIOS[name] = Scenario(name, ray, story, play, truth, **more)


def fine(name, ray, story, play, **more):
    """Declares a success, which has no finding that is an error."""
    scenario(name, ray, story, play, outcome="succeeded", none="error", **more)


def command(entrypoint, job="nightly-7", seconds=150, **options):
    """A submitted job that comes to its end."""

    def play(c, job=job):
        c.submit(entrypoint, job, **options)
        c.wait_job(job, seconds)

    return play


def program(arguments, **more):
    return command(f"{PY} {APP}/{arguments}", **more)


def shell(script, **more):
    return command(f"bash -c '{script}'", **more)


def hung(arguments, text, job="nightly-7", after=3, **options):
    """A submitted job that is at work when the cluster goes, some seconds after it printed the text."""

    def play(c):
        c.submit(f"{PY} {APP}/{arguments}", job, **options)
        c.wait_printed(text, job)
        time.sleep(after)

    return play


def by_hand(*arguments, seconds=90):
    """A driver that nobody submitted."""

    def play(c):
        c.by_hand(PY, *arguments).wait(seconds)

    return play


def jobs(*entrypoints, seconds=200):
    """Submitted jobs, one after the other: (submission ID, entrypoint)."""

    def play(c):
        for job, entrypoint in entrypoints:
            command(entrypoint, job, seconds)(c)

    return play


def together(name, *names, **more):
    """A session in which the submitted jobs of other scenarios run one after the other; what is true of each holds of its job's first finding."""
    members = [SCENARIOS[n] for n in names]
    ids = {s.name: s.name.replace("_", "-") for s in members}

    def play(c):
        for s in members:
            s.play(c, job=ids[s.name])
            time.sleep(1)

    first = {ids[s.name]: s.truth["title"] for s in members if "title" in s.truth}
    title = "|".join(f"(?:{p})" for p in first.values())
    version = members[0].ray
    fine = {ids[s.name]: [] for s in members if "title" not in s.truth}
    story = f"{len(members)} jobs, one after the other: {', '.join(names)}"
    scenario(name, version, story, play, title=title, first=first, jobs=fine, **more)
