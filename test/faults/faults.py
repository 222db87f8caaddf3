#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does to tiny runs what a night on a cluster does, and prints one table.

  faults.py GANTRAIN [--kills N] [--elastic N] [--states N] [--each N] [--seed S] [--jobs J] [--folder F]

It kills runs at random N times, and others whose ranks and nodes come and go, damages N states, and brings about each kind of failure N times.
Each round is to end with the weights of the undisturbed run, bit for bit, no process left, the right
exit code, and the cause named on the screen and in the run folder. What is not right is printed, and
its run folder kept. Exit code 0: all was right; 1: something was not. Kinds that this machine cannot
bring about, such as a network of its own without root, are named with the reason."""
import argparse
import concurrent.futures
import random
import sys
import tempfile
import threading
import time

import damage
import elastic
import injections
import kills
import networks
from runs import Lab


class Table:
    """Counts rounds by kind."""

    def __init__(self):
        self.lock = threading.Lock()
        self.rows = {}
        self.wrong = []
        self.unable = {}
        self.went_on = {}

    def add(self, kind, count, wrong):
        with self.lock:
            row = self.rows.setdefault(kind, [0, 0])
            row[0] += count
            row[1] += bool(wrong)
            self.wrong += wrong
            for line in wrong:
                print(f"WRONG  {line}", flush=True)

    def note(self, kind, went_on):
        """How many kills a run outlived without a start."""
        with self.lock:
            self.went_on[kind] = self.went_on.get(kind, 0) + went_on

    def skip(self, kind, reason):
        with self.lock:
            self.unable[kind] = reason

    def outlived(self, kind):
        return f"  {self.went_on[kind]} outlived" if kind in self.went_on else ""

    def text(self):
        lines = [f"{'fault':42} {'times':>6} {'wrong':>6}"]
        lines += [f"{kind:42} {count:6} {wrong:6}" + self.outlived(kind) for kind, (count, wrong) in self.rows.items()]
        lines += [f"{kind:42} not done: {reason}" for kind, reason in self.unable.items()]
        return "\n".join(lines)


def kill_rounds(table, options, pool, wanted, shapes, play):
    """Rounds of play(shape, random) until they have killed as often as wanted."""
    def one(index):
        shape = shapes[index % len(shapes)]
        with table.lock:
            if done[0] >= wanted:
                return
        kind, wrong, count = play(shape, random.Random(f"{options.seed} kill {index}"))
        with table.lock:
            done[0] += count
        table.add(kind, count, wrong)
    done = [0]
    index = 0
    while done[0] < wanted:
        batch = range(index, index + options.jobs)
        list(pool.map(one, batch))
        index += options.jobs


def resumed_rounds(lab, table, options, pool):
    def play(shape, chance):
        wrong, count = kills.kill_round(lab, shape, chance)
        return f"random kills: {shape}", wrong, count
    for shape in kills.SHAPES if options.kills else []:
        lab.undisturbed(shape)
    kill_rounds(table, options, pool, options.kills, kills.SHAPES, play)


def elastic_rounds(lab, table, options, pool):
    def play(shape, chance):
        wrong, count, went_on = elastic.elastic_round(lab, shape, chance)
        table.note(f"elastic runs: {shape}", went_on)
        return f"elastic runs: {shape}", wrong, count
    kill_rounds(table, options, pool, options.elastic, elastic.SHAPES, play)
    table.wrong += [f"{kind}: not one kill was outlived" for kind, outlived in table.went_on.items()
                    if outlived == 0]


def state_rounds(lab, table, options, pool):
    damages = damage.Damage(lab)

    def one(index):
        shape = damage.SHAPES[index % len(damage.SHAPES)]
        wrong = damages.round(shape, random.Random(f"{options.seed} state {index}"))
        table.add(f"damaged states: {shape}", 1, wrong)
    for shape in damage.SHAPES if options.states else []:
        damages.stopped_run(shape)
        lab.undisturbed(shape)
    list(pool.map(one, range(options.states)))


def injection_rounds(lab, table, options):
    for name, named, inject in injections.INJECTIONS + networks.INJECTIONS:
        if options.only not in name:
            continue
        kind = f"{name}: cause named" if named else name
        for index in range(options.each):
            try:
                wrong = inject(lab, random.Random(f"{options.seed} {name} {index}"))
            except RuntimeError as error:
                wrong = [f"{name}: {error}"]
            except injections.Unable as reason:
                table.skip(kind, reason)
                break
            table.add(kind, 1, wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("gantrain")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--elastic", type=int, default=100, help="kills of runs whose ranks come and go")
    parser.add_argument("--states", type=int, default=50)
    parser.add_argument("--each", type=int, default=1, help="rounds of each kind of failure")
    parser.add_argument("--only", default="", help="kinds of failures whose names contain this")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--folder", help="for the runs; default: a temporary one")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    table = Table()
    with tempfile.TemporaryDirectory(prefix="gantrain-faults-") as temporary:
        lab = Lab(options.gantrain, options.folder or temporary)
        lab.folder.mkdir(parents=True, exist_ok=True)
        try:
            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                injection_rounds(lab, table, options)
                resumed_rounds(lab, table, options, pool)
                elastic_rounds(lab, table, options, pool)
                state_rounds(lab, table, options, pool)
        finally:
            lab.end_all()
    print(table.text(), flush=True)
    return 1 if table.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
