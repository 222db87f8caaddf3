# SPDX-License-Identifier: Apache-2.0
"""Failures that are brought about one at a time: each ends with the right exit code, and its cause is
named on the screen and, where a run had begun, in its folder. Where it can be mended, the run then goes
on to the weights of the undisturbed run."""
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import processes
from kills import last_lines
from runs import Shape, free_port, on_disk, states, weights_of
from wire import Unable

TWO = Shape("dcgan-tiny", 2)
STYLE = Shape("stylegan2-tiny", 2)
LONG = ("--kimg", "500", "--save-every", "0.1")  # struck before it ends


def check(what, end, code, cause, folder, *, node=0, disk=True):
    """Lines of what is not right about the end of a run."""
    wrong = []
    if end.codes[node] != code:
        wrong.append(f"{what}: ended with {end.codes}, {code} is right: {last_lines(end.text)}")
    if not re.search(cause, end.text):
        wrong.append(f"{what}: {cause!r} was not said: {last_lines(end.text)}")
    if disk and not re.search(cause, on_disk(folder)):
        wrong.append(f"{what}: {cause!r} is not on disk in {folder.name}")
    if end.left:
        wrong.append(f"{what}: processes left: {end.left}")
    return wrong


def goes_on(what, lab, shape, folder, more=()):
    """The same command again reaches the weights of the undisturbed run."""
    end = lab.train(shape, folder, more)
    if end.codes != [0] * shape.nodes:
        return [f"{what}: going on ended with {end.codes}: {last_lines(end.text)}"]
    if weights_of(folder) != lab.undisturbed(shape)[0]:
        return [f"{what}: other weights than the undisturbed run's"]
    return []


def started(lab, shape, more=(), **how):
    folder = lab.new_folder("fault")
    run = lab.start(shape, folder, (*LONG, *more), **how)
    if not run.wait_for("speed  "):
        raise RuntimeError(f"did not begin:\n{run.text()}")
    return run, folder


def a_rank_killed_by(number):
    def inject(lab, random):
        run, folder = started(lab, TWO)
        time.sleep(random.uniform(0, 0.5))
        victim = random.choice(run.roles()["child"])
        processes.send(victim, number)
        name = signal.Signals(number).name
        return check(f"a rank by {name}", run.wait(), 6,
                     rf"rank [01]\b[^\n]*pid {victim}\b[^\n]*(signal {int(number)}|{name})", folder)
    return inject


def rank_stopped(lab, random):
    run, folder = started(lab, TWO, ("--hang-timeout", "3s"))
    victim = random.choice(run.roles()["child"])
    processes.send(victim, signal.SIGSTOP)
    return check("a rank by SIGSTOP", run.wait(), 6, rf"rank [01]\b[^\n]*pid {victim}\b", folder)


def has_error_file(what, folder, rank):
    return [] if (folder / f"errors/rank{rank}.json").exists() else [f"{what}: no errors/rank{rank}.json"]


def launcher_stopped(lab, _):
    """The launcher of another node is frozen: its ranks cannot say so."""
    folder = lab.new_folder("fault")
    run = lab.start(Shape("dcgan-tiny", 1, 2), folder, (*LONG, "--hang-timeout", "3s"))
    if not run.wait_for("speed  "):
        raise RuntimeError(f"did not begin:\n{run.text()}")
    processes.send(run.launchers[1].pid, signal.SIGSTOP)
    run.launchers[0].wait(60)
    wrong = has_error_file("a launcher by SIGSTOP", folder, 1)
    processes.send(run.launchers[1].pid, signal.SIGCONT)
    return wrong + check("a launcher by SIGSTOP", run.wait(), 6, r"node 1 \([^\n]*no sign of life", folder)


def fork_server_killed(lab, _):
    folder = lab.new_folder("fault")
    run = lab.start(TWO, folder)
    # Two looks: the guard, which is forked first, has the mark for the moment before it hides it.
    first, now = set(), set()
    while run.running() and not first & now:
        time.sleep(0.02)
        first, now = now, set(run.roles()["child"])
    if not first & now:
        raise RuntimeError("the fork server was not seen")
    processes.send(min(first & now), signal.SIGKILL)
    what = "the fork server"
    wrong = check(what, run.wait(), 6, r"signal 9|SIGKILL", folder)
    return wrong or has_error_file(what, folder, 0) or goes_on(what, lab, TWO, folder)


def file_size_limit(lab, random):
    limit = random.randrange(1000, 600_000)
    folder = lab.new_folder("fault")
    end = lab.train(TWO, folder, prepare=lambda: resource.setrlimit(
        resource.RLIMIT_FSIZE, (limit, limit)))
    wrong = check(f"file size limit {limit}", end, 8, r"[Ff]ile (size|too large)", folder, disk=False)
    return wrong or goes_on(f"file size limit {limit}", lab, TWO, folder)


class Disk:
    """A small file system of its own."""

    def __init__(self, lab, size):
        self.folder = lab.new_folder("disk")
        self.folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", self.folder],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unable(f"mounting: {done.stderr.strip()}")

    def grow(self):
        subprocess.run(["mount", "-o", "remount,size=1g", self.folder], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.folder], check=True)


def full_disk(lab, random):
    """From a size at which the run's first file does not fit to one at which its last does not."""
    folder = lab.new_folder("probe")
    lab.train(TWO, folder)
    needed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    size = random.randrange(64 * 1024, int(0.95 * needed))
    with Disk(lab, size) as disk:
        run = disk.folder / "run"
        end = lab.train(TWO, run)
        what = f"disk of {size} bytes"
        wrong = check(what, end, 8, r"No space left|free", run, disk=False)
        disk.grow()
        return wrong or goes_on(what, lab, TWO, run)


def read_only_folder(lab, _):
    """A file system that can be read alone comes to lie over the run folder."""
    run, folder = started(lab, TWO)
    over = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", folder],
                          capture_output=True, text=True, check=False)
    if over.returncode != 0:
        processes.kill_all(run.mark)
        raise Unable(f"mounting: {over.stderr.strip()}")
    end = run.wait(60)
    subprocess.run(["umount", "-l", folder], check=True)
    # Nothing can be written there any more, the reason neither.
    return check("a read-only folder", end, 8, r"Read-only|not writable", folder, disk=False)


def folder_removed(lab, _):
    run, folder = started(lab, TWO)
    gone = folder.with_name(folder.name + "-gone")  # at once: a file saved meanwhile would keep the folder
    folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
    return check("the run folder removed", run.wait(60), 8, re.escape(folder.name), folder,
                 disk=False)


def pictures(lab, count, side=16):
    """A folder with PNGs of noise, written without a library."""
    import struct
    import zlib
    folder = lab.new_folder("pictures")
    folder.mkdir()

    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data
                + struct.pack(">I", zlib.crc32(kind + data)))
    for i in range(count):
        rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
        (folder / f"{i:04}.png").write_bytes(
            b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return folder


def broken_picture(lab, random):
    data = pictures(lab, 64)
    victim = data / f"{random.randrange(64):04}.png"
    victim.write_bytes(victim.read_bytes()[:200])
    folder = lab.new_folder("fault")
    end = lab.train(TWO, folder, ("--data", str(data), "--set", "data.on_bad=fail"))
    return check("a broken picture", end, 3, re.escape(victim.name), folder, disk=False)


def changed_data(lab, random):
    data = pictures(lab, 64)
    folder = lab.new_folder("fault")
    words = ("--data", str(data))
    first = lab.train(TWO, folder, (*words, "--kimg", "0.3"))
    victim = data / f"{random.randrange(64):04}.png"
    victim.unlink()
    wrong = [] if first.codes == [0] else [f"changed data: the first session: {first.text[-300:]}"]
    return wrong + check("changed data", lab.train(TWO, folder, words), 2, re.escape(victim.name),
                         folder, disk=False)


def too_little_memory(lab, _):
    folder = lab.new_folder("fault")
    limit = 3 << 30
    end = lab.train(TWO, folder, ("--set", "dcgan.channels=4096"),
                    prepare=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    return check("too little memory", end, 7, r"memory", folder)


def too_little_memory_to_load(lab, random):
    folder = lab.new_folder("fault")
    limit = random.randrange(20 << 20, 440 << 20)  # LibTorch alone takes more
    end = lab.train(TWO, folder, prepare=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    what = f"loading in {limit >> 20} MiB"
    return check(what, end, 7, r"out of host memory", folder) + has_error_file(what, folder, 0)


def port_taken(lab, _):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        folder = lab.new_folder("fault")
        port = str(taken.getsockname()[1])
        end = lab.train(TWO, folder, ("--master-port", port, "--timeout", "5s"))
        return check("a port that is taken", end, 4, port, folder)


def absent_node(lab, _):
    folder = lab.new_folder("fault")
    end = lab.train(Shape("dcgan-tiny", 1), folder,
                    ("--nnodes", "2", "--node-rank", "0", "--master-addr", "127.0.0.1",
                     "--master-port", str(free_port()), "--timeout", "2s"))
    return check("a node that does not come", end, 4, r"node 1", folder)


def diverged(lab, _):
    folder = lab.new_folder("fault")
    wild = ("D.optimizer=sgd", "D.sgd.lr=1000", "G.optimizer=sgd", "G.sgd.lr=1000",
            "dcgan.norm=none", "dcgan.loss=lsgan", "train.nonfinite_limit=4")
    end = lab.train(TWO, folder, [word for value in wild for word in ("--set", value)])
    return check("a run that diverges", end, 5, r"training has diverged", folder)


def no_state_left(lab, _):
    folder = lab.new_folder("fault")
    lab.train(TWO, folder, ("--kimg", "0.5"))
    for path in states(folder):
        os.truncate(path, 100)
    return check("all states broken", lab.train(TWO, folder), 3, r"none of its \d states", folder,
                 disk=False)


def clock_library(lab):
    library = lab.folder / "shifted_clock.so"
    if not library.exists():
        source = Path(__file__).with_name("shifted_clock.c")
        done = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Unable(f"compiling: {done.stderr.strip()}")
    return library


def clock_set(lab, random):
    """The clock jumps while the run trains: nothing but time stamps may depend on it."""
    clock = lab.new_folder("clock")
    clock.write_text("0")
    environment = {"LD_PRELOAD": str(clock_library(lab)), "GANTRAIN_FAULTS_CLOCK": str(clock)}
    folder = lab.new_folder("fault")
    run = lab.start(STYLE, folder, environment=environment)
    while run.running():
        clock.write_text(str(random.choice([-1, 1]) * random.randrange(10, 10_000_000)))
        time.sleep(0.2)
    end = run.wait()
    if end.codes != [0]:
        return [f"clock: ended with {end.codes}: {last_lines(end.text)}"]
    if weights_of(folder) != lab.undisturbed(STYLE)[0]:
        return ["clock: other weights than the undisturbed run's"]
    return []


def killed_while_the_clock_goes_back(lab, random):
    """The newest state is the one with the most pictures, not the one with the latest date."""
    clock = lab.new_folder("clock")
    environment = {"LD_PRELOAD": str(clock_library(lab)), "GANTRAIN_FAULTS_CLOCK": str(clock)}
    folder = lab.new_folder("fault")
    for shift in (5_000_000, -5_000_000):
        clock.write_text(str(shift))
        run = lab.start(TWO, folder, environment=environment)
        run.wait_for("speed  ")
        time.sleep(random.uniform(0, 0.3))
        if run.running():
            processes.send(run.launchers[0].pid, signal.SIGKILL)
        run.wait()
    return goes_on("killed while the clock goes back", lab, TWO, folder)


# Name, whether it is a failure whose cause is to be named, and the function.
INJECTIONS = [
    ("rank killed (SIGKILL)", True, a_rank_killed_by(signal.SIGKILL)),
    ("rank crashes (SIGSEGV)", True, a_rank_killed_by(signal.SIGSEGV)),
    ("rank hangs (SIGSTOP)", True, rank_stopped),
    ("launcher of a node hangs (SIGSTOP)", True, launcher_stopped),
    ("fork server killed", True, fork_server_killed),
    ("file size limit", True, file_size_limit),
    ("disk full", True, full_disk),
    ("read-only folder", True, read_only_folder),
    ("run folder removed", True, folder_removed),
    ("broken picture", True, broken_picture),
    ("data changed", True, changed_data),
    ("too little memory", True, too_little_memory),
    ("too little memory to load", True, too_little_memory_to_load),
    ("port taken", True, port_taken),
    ("node absent", True, absent_node),
    ("diverged", True, diverged),
    ("no state left", True, no_state_left),
    ("clock set while training", False, clock_set),
    ("clock set back between kills", False, killed_while_the_clock_goes_back),
]
