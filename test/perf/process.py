"""What a process of the operating system has used."""

import os
import pathlib
import subprocess
import time
import urllib.request


class Process:
    """A started server. A context manager: leaving it ends the process."""

    def __init__(self, command, log, env=None):
        self.log = open(log, "wb")
        # exec: the process measured is the server, not a shell.
        self.popen = subprocess.Popen(command, env={**os.environ, **(env or {})}, stdout=self.log, stderr=self.log)
        self.proc = pathlib.Path(f"/proc/{self.popen.pid}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.popen.terminate()
        try:
            self.popen.wait(30)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()

    def wait_ready(self, url, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(url, timeout=5) as r:
                    if r.status == 200:
                        return
            except OSError:
                pass
            if self.popen.poll() is not None:
                raise RuntimeError(f"the server ended by itself; see {self.log.name}")
            time.sleep(0.05)
        raise TimeoutError(f"{url}: not ready after {seconds} s")

    def cpu(self):
        """Seconds of processor time so far, user and system."""
        fields = (self.proc / "stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Resident now and at its peak, MiB."""
        status = dict(line.split(":", 1) for line in (self.proc / "status").read_text().splitlines())
        return tuple(int(status[k].split()[0]) / 1024 for k in ("VmRSS", "VmHWM"))
