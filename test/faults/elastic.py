# SPDX-License-Identifier: Apache-2.0
"""Rounds of random kills under runs whose ranks and nodes come and go. What is killed is replaced or
started again, at last the run is stopped, and then has the weights of one that was told its numbers of
ranks beforehand."""
import re
import signal
import subprocess
import time
from dataclasses import dataclass

import processes
import runs
from kills import doubled_rows, last_lines, litter, remove

KILLS_OF_A_ROUND = 10
SECONDS_BETWEEN = 2.5  # two kills, at most: some come while the ranks still regroup
SECONDS_TO_TRAIN = 90
BATCH = 16


@dataclass(frozen=True)
class Shape:
    """A run of `least` to `most` ranks on one node, or of one to `nodes` nodes of `most` ranks."""
    preset: str
    least: int
    most: int
    nodes: int = 1

    @property
    def ranks(self):
        return f"{self.least}:{self.most}" if self.nodes == 1 else self.most

    @property
    def node_words(self):
        return f"1:{self.nodes}"

    def __str__(self):
        nodes = f" x 1:{self.nodes} nodes" if self.nodes > 1 else ""
        return f"{self.preset} {self.ranks} ranks{nodes}"


SHAPES = [Shape("dcgan-tiny", 1, 4), Shape("stylegan2-tiny", 1, 3), Shape("dcgan-tiny", 1, 1, 2),
          Shape("pggan-tiny", 1, 2), Shape("stylegan2-tiny", 1, 2, 2), Shape("dcgan-tiny", 2, 4),
          Shape("stylegan3-tiny", 1, 2), Shape("stylegan1-tiny", 1, 1, 2)]
# The victim and the signal.
VICTIMS = [("rank", signal.SIGKILL)] * 6 + [("launcher", signal.SIGKILL)] * 2 + [
    ("all ranks", signal.SIGKILL), ("rank", signal.SIGSTOP), ("launcher", signal.SIGTERM)]


def plan_of(log):
    """The numbers of ranks by iteration that a log tells of, as launch.rank_plan takes them. What was
    trained after the state that a later start resumed from does not count."""
    ranks, before = {}, {}
    for line in log.splitlines():
        if found := re.match(r"\S+ \S+ batch \d+ = (\d+) ranks? x ", line):
            before, ranks = ranks, {0: int(found.group(1))}
        elif found := re.search(r"resume  at ([\d.]+) kimg", line):
            start = round(float(found.group(1)) * 1000 / BATCH)
            ranks = {**{at: count for at, count in before.items() if at < start}, start: ranks[0]}
        elif found := re.search(r"ranks   \d+ -> (\d+) at iteration (\d+),", line):
            ranks[int(found.group(2))] = int(found.group(1))
    return ",".join(f"{at}:{count}" for at, count in sorted(ranks.items()))


class Round:
    """An elastic run, started again as often as it is ended."""

    def __init__(self, lab, shape, random):
        self.lab, self.shape, self.random = lab, shape, random
        self.folder = lab.new_folder("elastic")
        self.run = None
        self.wrong, self.kills, self.went_on = [], 0, 0
        self.struck_node = None

    def start(self):
        self.run = self.lab.start(self.shape, self.folder, ("--timeout", "20s", "--kimg", "500"))

    def complain(self, what):
        self.wrong.append(f"{self.shape}, kill {self.kills}, {self.folder.name}: {what}")

    def trains(self):
        """Waits until the run trains; whether it does."""
        return self.run.wait_for("speed  ", SECONDS_TO_TRAIN)

    def strike(self):
        """Kills something of one node. Returns what it was, or None where nothing was there."""
        name, number = self.random.choice(VICTIMS)
        node = self.random.randrange(len(self.run.launchers))
        if self.run.launchers[node].poll() is not None:
            return None
        found = self.run.roles(node)
        ranks = found["child"]
        pids = {"launcher": found["launcher"], "all ranks": ranks,
                "rank": [self.random.choice(ranks)] if ranks else []}[name]
        if not any([processes.send(pid, number) for pid in pids]):
            return None
        self.kills += 1
        self.struck_node = node
        if number == signal.SIGSTOP:
            time.sleep(0.3)
            for pid in pids:
                processes.send(pid, signal.SIGCONT)
        return name, number, node

    def came_too_late(self, node):
        """Whether a node that was started again found a run that was about to end."""
        others = [launcher for launcher in self.run.launchers if launcher is not self.run.launchers[node]]
        try:
            return bool(others) and all(other.wait(60) == 6 for other in others)
        except subprocess.TimeoutExpired:
            return False

    def look(self, struck):
        """What has become of the launchers, and starts again those that have ended."""
        name, number, node = struck
        if name == "launcher":
            try:
                self.run.launchers[node].wait(60)
            except subprocess.TimeoutExpired:
                return self.complain(f"{name} by {number.name}: node {node} does not end: {last_lines(self.run.text())}")
        time.sleep(self.random.uniform(0, 1))
        ended = [launcher.poll() for launcher in self.run.launchers]
        for number_of, code in enumerate(ended):
            right = {None, 6, 75 if number == signal.SIGTERM else 6} | ({-number} if name == "launcher" and number_of == node else set())
            if code not in right and not (code == 4 and self.came_too_late(number_of)):
                self.complain(f"{name} by {number.name}: node {number_of} ended with {code}: {last_lines(self.run.text())}")
        ended = [launcher.poll() for launcher in self.run.launchers]
        if any(code is None for code in ended) and number != signal.SIGTERM:
            self.went_on += 1
            for number_of, code in enumerate(ended):
                if code is not None:
                    self.run.launchers[number_of] = self.run.begin(number_of)
            return
        end = self.run.wait()
        if end.left:
            self.complain(f"{name} by {number.name}: processes left: {end.left}")
        if None in end.codes:
            self.complain(f"{name} by {number.name}: ended with {end.codes}: {last_lines(end.text)}")
        self.start()

    def disturb(self):
        self.start()
        while self.kills < KILLS_OF_A_ROUND and not self.wrong:
            if self.random.random() < 0.8 and not self.trains() and self.run.running():
                self.complain(f"does not train: {last_lines(self.run.text())}")
                return
            end_of_wait = time.monotonic() + self.random.uniform(0, SECONDS_BETWEEN)
            while self.run.running() and time.monotonic() < end_of_wait:
                time.sleep(0.005)
            if struck := self.strike():
                self.look(struck)
            elif not self.run.running():
                self.run.wait()
                self.start()

    def stop(self):
        """Lets it train for a moment and stops it. A last kill may have taken the only rank that had the
        state: then it is started again; or a node that was still loading, which the others do without."""
        for _ in range(3):
            if self.trains():
                time.sleep(self.random.uniform(0.5, SECONDS_BETWEEN))
            for launcher in self.run.launchers:
                if launcher.poll() is None:
                    launcher.send_signal(signal.SIGTERM)
                    break
            end = self.run.wait()
            if set(end.codes) != {6}:
                break
            self.start()
        codes = {code for node, code in enumerate(end.codes) if (node, code) != (self.struck_node, 6)}
        if codes != {75} or end.left:
            self.complain(f"the stop: {end.codes}, left {end.left}: {last_lines(end.text)}")

    def compare(self):
        """The weights beside those of a run that was told the ranks."""
        status = (self.folder / "STATUS").read_text()
        found = re.match(r"stopped ([\d.]+) kimg", status)
        if not found:
            return self.complain(f"STATUS: {status}")
        plan = plan_of((self.folder / "log.txt").read_text())
        told = self.lab.new_folder("told")
        end = self.lab.train(runs.Shape(self.shape.preset, self.shape.most * self.shape.nodes), told,
                             ("--kimg", found.group(1), "--set", f"launch.rank_plan={plan}"))
        if end.codes != [0]:
            self.complain(f"the run that was told {plan}: {end.codes}: {last_lines(end.text)}")
        elif runs.weights_of(self.folder) != runs.weights_of(told):
            self.complain(f"other weights than those of {plan} at {found.group(1)} kimg, {told.name}")
        else:
            remove(told)


def elastic_round(lab, shape, random):
    """One line for each thing that was not right, the number of kills, and after how many of them the
    run went on without a start."""
    one = Round(lab, shape, random)
    one.disturb()
    if not one.wrong:
        one.stop()
    if not one.wrong:
        one.compare()
    one.wrong += doubled_rows(one.folder, str(shape)) + litter(one.folder, str(shape))
    if one.wrong:
        processes.kill_all(one.run.mark)
    else:
        remove(one.folder)
    return one.wrong, one.kills, one.went_on
