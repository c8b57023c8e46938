"""Ray's command line: a command as a user starts it, or many in forks of one process, which imports Ray once.

Most of what a start takes is imports: of forty commands minutes.
"""

import json
import multiprocessing
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import threading

MODULE = "ray.scripts.scripts"


def start(python, environment, arguments):
    """One command in a process of its own: what it printed, and its exit code. `python` is how the Ray installation's Python is started."""
    command = [*python, "-m", MODULE, *arguments]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    return {"arguments": list(arguments), "code": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def fork(python, environment, commands):
    """What start gives, of each of many commands."""
    program = pathlib.Path(__file__).read_text()  # pods do not see the file
    done = subprocess.run([*python, "-c", program], env=environment, input=json.dumps(commands), capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"Ray's command line: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def run(arguments):
    """Runs a command in a fork of this process, which has imported what `python -m` would."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # Such a process ends without taking its modules apart, which takes longer than the command.
        child = multiprocessing.get_context("fork").Process(target=command, args=(arguments, out, err))
        child.start()
        child.join()
        printed = {}
        for name, file in (("stdout", out), ("stderr", err)):
            file.seek(0)
            printed[name] = file.read().decode()
        return {"arguments": arguments, "code": child.exitcode, **printed}


def command(arguments, out, err):
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.argv[1:] = arguments
    runpy.run_module(MODULE, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    __import__(MODULE)
    del sys.modules[MODULE]  # it runs as __main__ in each fork; what it imported stays
    if threading.active_count() > 1:  # of Python: those of libraries that Ray imports (OpenBLAS, jemalloc) know of forks
        sys.exit("importing Ray has started threads, which forks would not have")
    json.dump([run(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
