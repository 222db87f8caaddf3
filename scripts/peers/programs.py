# SPDX-License-Identifier: Apache-2.0
"""Programs that scripts start side by side, and what these scripts tell of themselves. Standard library alone."""
import contextlib
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
import time

GRACE = 30  # seconds in which a program that is told to stop saves


class Stopped(Exception):
    """The time is up, or somebody ended the script: what ran was told to save."""


def start(command, log, threads=None, captured=False):
    """Starts a program in a session of its own. What it says goes to the end of the file `log`, but for its standard output where
    that is `captured`. `threads`: of OpenMP; None leaves the environment as it is."""
    environment = None if threads is None else dict(os.environ, OMP_NUM_THREADS=str(threads))
    with open(log, "ab") as said:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE if captured else said, stderr=said,
                                env=environment, start_new_session=True)


@contextlib.contextmanager
def running(command, log, threads=None):
    """Within it the program runs, unless it ends by itself; then it is told to end, and killed with all of its session after GRACE
    seconds."""
    child = start(command, log, threads)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


class Programs:
    """Starts programs from any thread, and ends those that run when the time is up or the script is told to end."""

    def __init__(self, start=(), minutes=None):
        """`start`: words that each command begins with."""
        self.start = list(start)
        self.running = set()
        self.lock = threading.Lock()
        self.until = float("inf") if minutes is None else time.monotonic() + 60 * minutes

    def stop(self, *_):
        """Also a handler of signals, so it takes no lock."""
        self.until = time.monotonic()

    def over(self):
        return time.monotonic() >= self.until

    def run(self, arguments, log, threads=1, codes=(), captured=True):
        """Returns what it writes to standard output, or "" unless that is `captured`; all else goes to the end of the
        file `log`. `threads`: as in start(). `codes`: exit codes that are as good as 0.
        Raises Stopped where it was ended, RuntimeError where it failed."""
        command = [*self.start, *arguments]
        with self.lock:
            if self.over():
                raise Stopped
            child = start(command, log, threads, captured)
            self.running.add(child)
        output = child.communicate()[0] or b""
        with self.lock:
            self.running.remove(child)
        if child.returncode == 0 or (child.returncode in codes and not self.over()):
            return output.decode()
        if self.over():
            raise Stopped
        raise RuntimeError(f"ended with {child.returncode}: see {log}: {shlex.join(command)}")

    def watch(self, ended):
        """Until `ended` is set: tells all that runs to save when the time is up, and kills it after GRACE seconds."""
        while not ended.wait(min(max(self.until - time.monotonic(), 0), 0.5)):
            if not self.over():
                continue
            for number in (signal.SIGTERM, signal.SIGKILL):
                with self.lock:
                    for child in self.running:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(child.pid, number)
                if ended.wait(GRACE):
                    return

    @contextlib.contextmanager
    def watched(self):
        """Within it the time counts, and SIGTERM and SIGINT stop what runs."""
        ended = threading.Event()
        watcher = threading.Thread(target=self.watch, args=(ended,), daemon=True)
        handlers = {number: signal.signal(number, self.stop) for number in (signal.SIGTERM, signal.SIGINT)}
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            for number, handler in handlers.items():
                signal.signal(number, handler)


def machine():
    """Model and number of the cores."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def say(text):
    print(time.strftime("%H:%M:%S ", time.gmtime()) + text, file=sys.stderr, flush=True)
