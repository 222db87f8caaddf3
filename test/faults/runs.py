# SPDX-License-Identifier: Apache-2.0
"""Tiny runs: how they are started, awaited and compared."""
import hashlib
import itertools
import os
import socket
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path

import processes

SECONDS_TO_END = 12  # that all processes of a run have after one of them was killed
PRESETS = {"dcgan-tiny": 0.8, "pggan-tiny": 0.8, "stylegan1-tiny": 0.4, "stylegan2-tiny": 0.25, "stylegan3-tiny": 0.25}  # kimg


@dataclass(frozen=True)
class Shape:
    """A run's networks and processes. The undisturbed run of each shape is made once."""
    preset: str = "dcgan-tiny"
    ranks: int = 1  # of each node
    nodes: int = 1

    @property
    def node_words(self):
        return str(self.nodes)

    def __str__(self):
        nodes = f" x {self.nodes} nodes" if self.nodes > 1 else ""
        return f"{self.preset} {self.ranks} rank{'s' if self.ranks > 1 else ''}{nodes}"


@dataclass
class End:
    """How a run's launchers ended: an exit code for each node, negative where a signal ended it."""
    codes: list
    text: str        # what all of them printed
    left: list       # pids of processes that outlived them
    seconds: float   # from the start


@dataclass
class Run:
    """Launchers that were started together."""
    folder: Path
    launchers: list
    mark: str
    outputs: list
    begin: object = None  # starts the launcher of a node
    started: float = field(default_factory=time.monotonic)

    def running(self):
        return any(launcher.poll() is None for launcher in self.launchers)

    def text(self):
        return "".join(Path(path).read_text(errors="replace") for path in self.outputs)

    def roles(self, node=0):
        return processes.roles(self.launchers[node].pid, self.mark)

    def wait_for(self, words, seconds=60):
        """Until a launcher has printed the words; False if all ended or the time is over before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if words in self.text():
                return True
            if not self.running():
                return words in self.text()
            time.sleep(0.01)
        return False

    def wait(self, seconds=120):
        end = time.monotonic() + seconds
        codes = []
        for launcher in self.launchers:
            try:
                codes.append(launcher.wait(max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired:
                codes.append(None)  # it hangs
        left = processes.wait_gone(self.mark, 0 if None in codes else SECONDS_TO_END)
        seconds = time.monotonic() - self.started
        processes.kill_all(self.mark)
        return End(codes, self.text(), left, seconds)


class Lab:
    """A folder for runs, the program, and the weights of undisturbed runs."""

    def __init__(self, program, folder):
        self.program = Path(program).resolve()
        self.folder = Path(folder)
        self.names = itertools.count()
        self.marks = []
        self.weights = {}

    def new_folder(self, name="run"):
        return self.folder / f"{name}-{next(self.names):05}"

    def words(self, shape, folder, more=()):
        return [str(self.program), "--preset", shape.preset, "--device", "cpu", "--threads", "1",
                "--nproc", str(shape.ranks), "--resolution", "16", "--batch", "16",
                "--kimg", str(PRESETS[shape.preset]), "--metrics", "none", "--save-every", "0.1",
                "--save-raw",  # so that comparisons of models see every network
                "--grace", "8s", "--run-dir", str(folder), *more]

    def start(self, shape, folder, more=(), environment=None, prepare=None, prefix=((), ())):
        """Starts the launchers of all nodes. `prepare` is called in each before it begins; `prefix`
        holds words before the command of each node."""
        mark = uuid.uuid4().hex
        self.marks.append(mark)
        port = str(free_port())
        outputs = [self.folder / f"output-{mark}-{node}.txt" for node in range(shape.nodes)]

        def begin(node):
            words = self.words(shape, folder, more)
            if shape.nodes > 1:
                words += ["--nnodes", shape.node_words, "--node-rank", str(node),
                          "--master-port", port]
                if "--master-addr" not in more:
                    words += ["--master-addr", "127.0.0.1"]
            with open(outputs[node], "ab") as sink:
                return subprocess.Popen(
                    [*prefix[node], *words], stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                    cwd=self.folder, preexec_fn=prepare, start_new_session=True,
                    env={**os.environ, processes.MARK: mark, **(environment or {})})
        return Run(Path(folder), [begin(node) for node in range(shape.nodes)], mark, outputs, begin)

    def train(self, shape, folder, more=(), **how):
        return self.start(shape, folder, more, **how).wait()

    def end_all(self):
        for mark in self.marks:
            processes.kill_all(mark)

    def undisturbed(self, shape):
        """The digest of the weights that a run of this shape ends with when nothing happens, and the
        seconds that it takes."""
        if shape not in self.weights:
            folder = self.new_folder("undisturbed")
            end = self.train(shape, folder)
            if end.codes != [0] * shape.nodes:
                raise RuntimeError(f"{shape}: the undisturbed run fails:\n{end.text}")
            self.weights[shape] = (weights_of(folder), end.seconds)
        return self.weights[shape]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def models(folder):
    return sorted(Path(folder).glob("model-*.safetensors"))


def states(folder):
    """Oldest first."""
    return sorted(Path(folder).glob("state-*.pt"))


def weights_of(folder):
    return hashlib.sha256(models(folder)[-1].read_bytes()).hexdigest()


def on_disk(folder):
    """All that a run's files say of how it ended."""
    found = []
    for pattern in ("STATUS", "log*.txt", "errors/*.json"):
        for path in sorted(Path(folder).glob(pattern)):
            found.append(path.read_text(errors="replace"))
    return "\n".join(found)
