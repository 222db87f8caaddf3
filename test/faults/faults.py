#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does to tiny runs what a night on a cluster does, and prints one table.

  faults.py GANTRAIN [--kills N] [--states N] [--each N] [--seed S] [--jobs J] [--folder F]

It kills runs at random N times, damages N states, and brings about each kind of failure N times.
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

    def add(self, kind, count, wrong):
        with self.lock:
            row = self.rows.setdefault(kind, [0, 0])
            row[0] += count
            row[1] += bool(wrong)
            self.wrong += wrong
            for line in wrong:
                print(f"WRONG  {line}", flush=True)

    def skip(self, kind, reason):
        with self.lock:
            self.unable[kind] = reason

    def text(self):
        lines = [f"{'fault':42} {'times':>6} {'wrong':>6}"]
        lines += [f"{kind:42} {count:6} {wrong:6}" for kind, (count, wrong) in self.rows.items()]
        lines += [f"{kind:42} not done: {reason}" for kind, reason in self.unable.items()]
        return "\n".join(lines)


def kill_rounds(lab, table, options, pool):
    def one(index):
        shape = kills.SHAPES[index % len(kills.SHAPES)]
        with table.lock:
            if done[0] >= options.kills:
                return
        wrong, count = kills.kill_round(lab, shape, random.Random(f"{options.seed} kill {index}"))
        with table.lock:
            done[0] += count
        table.add(f"random kills: {shape}", count, wrong)
    done = [0]
    index = 0
    while done[0] < options.kills:
        batch = range(index, index + options.jobs)
        list(pool.map(one, batch))
        index += options.jobs


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
                for shape in kills.SHAPES if options.kills else []:
                    lab.undisturbed(shape)
                kill_rounds(lab, table, options, pool)
                state_rounds(lab, table, options, pool)
        finally:
            lab.end_all()
    print(table.text(), flush=True)
    return 1 if table.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
