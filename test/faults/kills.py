# SPDX-License-Identifier: Apache-2.0
"""Rounds of random kills: a run is killed again and again at random times and started again with the
same command, until it ends by itself with the weights of the undisturbed run."""
import os
import signal
import time

import processes
from runs import PRESETS, Shape, weights_of

SHAPES = [Shape(preset, ranks) for preset in PRESETS for ranks in (1, 2, 4)]
SHAPES += [Shape("dcgan-tiny", 1, 2), Shape("stylegan2-tiny", 2, 2)]
KILLS_OF_A_ROUND = 10
# The victim, the signal, and the exit codes that are right for its node. Whoever is asked to stop in
# time saves and ends with 75; a run that is over already ends with 0.
VICTIMS = [("child", signal.SIGKILL, {6}), ("child", signal.SIGKILL, {6}),
           ("launcher", signal.SIGKILL, {-9}), ("all", signal.SIGKILL, {-9}),
           ("launcher", signal.SIGTERM, {75}), ("child", signal.SIGTERM, {75, 6}),
           ("child", signal.SIGSTOP, {0, 6})]
OTHER_NODES = {0, 6, 75, 4}  # of nodes whose peer was killed, also before they met


def strike(run, random):
    """Kills something of the run. Returns what it was, and the node's right exit codes."""
    name, number, codes = random.choice(VICTIMS)
    node = random.randrange(len(run.launchers))
    found = run.roles(node)
    if name == "all":
        pids = found["launcher"] + found["child"]
    else:
        pids = [random.choice(found[name])] if found[name] else found["launcher"]
        if not found[name]:  # it has not come so far
            codes = codes | {-number, 128 + number, 130, 143}
    if number == signal.SIGSTOP and pids == found["launcher"]:
        return None
    for pid in pids:
        processes.send(pid, number)
    if number == signal.SIGSTOP:
        time.sleep(0.3)
        for pid in pids:
            processes.send(pid, signal.SIGCONT)
    return f"{name} by {signal.Signals(number).name}", node, codes


def kill_round(lab, shape, random):
    """One line for each thing that was not right, and the number of kills."""
    wrong = []
    weights, seconds = lab.undisturbed(shape)
    folder = lab.new_folder("kills")
    kills = 0
    while True:
        run = lab.start(shape, folder, ("--timeout", "20s"))
        struck = None
        if kills < KILLS_OF_A_ROUND:
            end_of_wait = time.monotonic() + random.uniform(0, 0.9 * seconds)
            while run.running() and time.monotonic() < end_of_wait:
                time.sleep(0.005)
            if run.running():
                struck = strike(run, random)
                kills += struck is not None
        end = run.wait()
        what = f"{shape}, kill {kills} ({struck[0] if struck else 'none'}), {folder.name}"
        if end.left:
            wrong.append(f"{what}: processes left: {end.left}")
        for node, code in enumerate(end.codes):
            right = {0} if struck is None else struck[2] | {0} if struck[1] == node else OTHER_NODES
            if code not in right:
                wrong.append(f"{what}: node {node} ended with {code}: {last_lines(end.text)}")
        if wrong and struck is None:
            break
        if struck is None and set(end.codes) == {0}:
            break
        if kills >= KILLS_OF_A_ROUND and struck is None:
            break
    if not wrong and weights_of(folder) != weights:
        wrong.append(f"{shape}, {folder.name}: other weights than the undisturbed run's")
    wrong += doubled_rows(folder, f"{shape}, {folder.name}")
    wrong += litter(folder, f"{shape}, {folder.name}")
    if not wrong:
        remove(folder)
    return wrong, kills


def doubled_rows(folder, what):
    path = folder / "stats.jsonl"
    rows = [line.split('"Progress/kimg"')[-1].split("}")[0] for line in open(path)] if path.exists() else []
    return [] if len(set(rows)) == len(rows) else [f"{what}: doubled rows in stats.jsonl"]


def litter(folder, what):
    found = [path.name for path in folder.rglob("*") if ".tmp" in path.name]
    return [f"{what}: left behind: {', '.join(found)}"] if found else []


def last_lines(text):
    return " | ".join(text.strip().splitlines()[-3:])


def remove(folder):
    processes.wait_for_guards(folder, 30)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        else:
            os.unlink(path)
    folder.rmdir()
