# SPDX-License-Identifier: Apache-2.0
"""Finds, signals and awaits the processes of a run by a mark in their environment, which children
inherit: also those that left their parent or their session."""
import os
import signal
import time
from pathlib import Path

MARK = "GANTRAIN_FAULTS_MARK"


def alive(mark):
    """The pids of all processes with the mark, zombies left out."""
    needle = f"{MARK}={mark}".encode() + b"\0"
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if needle in (entry / "environ").read_bytes() + b"\0" and state_of(entry) != "Z":
                found.append(int(entry.name))
        except OSError:
            pass  # it ended meanwhile
    return sorted(found)


def state_of(entry):
    return (entry / "stat").read_text().rpartition(")")[2].split()[0]


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def roles(launcher, mark):
    """{"launcher": [pid], "child": [pid, ...]} of one node, as far as they live. The children are
    its ranks; before these are there, the fork server that loads what they need."""
    children = []
    for pid in alive(mark):
        try:
            if parent_of(pid) == launcher:
                children.append(pid)
        except OSError:
            pass  # it ended meanwhile
    return {"launcher": [launcher], "child": children}


def send(pid, number):
    try:
        os.kill(pid, number)
        return True
    except ProcessLookupError:
        return False


def wait_for_guards(folder, seconds):
    """Until what outlives a killed launcher has written the reason into the run folder."""
    end = time.monotonic() + seconds
    while any(is_guard(entry, folder) for entry in Path("/proc").iterdir()) and time.monotonic() < end:
        time.sleep(0.02)


def is_guard(entry, folder):
    try:
        return ((entry / "comm").read_text() == "gantrain-guard\n"
                and str(folder).encode() in (entry / "cmdline").read_bytes())
    except OSError:
        return False  # no process, or it ended meanwhile


def wait_gone(mark, seconds):
    """The pids with the mark that are left after so many seconds at most."""
    end = time.monotonic() + seconds
    while (left := alive(mark)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def kill_all(mark):
    while left := alive(mark):
        for pid in left:
            send(pid, signal.SIGKILL)
        time.sleep(0.02)
