# SPDX-License-Identifier: Apache-2.0
"""Two nodes in two network namespaces: the network between them is cut, slow, lossy or narrow, or ends
connections at both ends or at one."""
import time

import wire
from injections import check, goes_on
from kills import last_lines
from runs import Shape, weights_of

NODES = Shape("dcgan-tiny", 1, 2)
MESSAGE = 4000  # bytes: a segment of so many is a piece of a longer message
SECONDS_TO_NOTICE = 25


def start(network, lab, folder, more=()):
    return lab.start(NODES, folder, ("--master-addr", wire.ADDRESSES[0], "--timeout", "30s", *more),
                     prefix=network.prefix())


def ended_by_network(name, run, since, folder):
    """Both nodes have ended in time, and each says why."""
    end = run.wait(90)
    took = time.monotonic() - since
    wrong = check(name, end, 6, r"node [01]|rank [01]", folder)
    wrong += check(name, end, 6, r"node [01]|rank [01]", folder, node=1)
    return wrong + ([f"{name}: noticed after {took:.0f} s"] if took > SECONDS_TO_NOTICE else [])


def network_cut(lab, random):
    with wire.Network(random) as network:
        folder = lab.new_folder("fault")
        run = start(network, lab, folder, ("--kimg", "500"))
        if not run.wait_for("speed  "):
            return [f"network: did not begin: {last_lines(run.wait().text)}"]
        time.sleep(random.uniform(0, 0.5))
        network.wire.is_cut = True
        return ended_by_network("network cut", run, time.monotonic(), folder)


def disturbed(name, **how):
    """Such a network makes a run slower and nothing else."""
    def inject(lab, random):
        with wire.Network(random, **how) as network:
            folder = lab.new_folder("fault")
            end = start(network, lab, folder).wait(110)
            if end.codes != [0, 0]:
                return [f"{name}: ended with {end.codes}: {last_lines(end.text)}"]
            if "loss" in how and network.wire.lost == 0:
                return [f"{name}: not one packet was lost"]
            if weights_of(folder) != lab.undisturbed(NODES)[0]:
                return [f"{name}: other weights than the undisturbed run's"]
            return []
    return inject


def connection_ends(name, half=False, amid=False):
    """A connection ends while it carries a short message, or amid a long one; `half`: at one end alone.
    The same command then reaches the weights of the undisturbed run."""
    def wanted(segment):
        return segment.payload >= MESSAGE if amid else 0 < segment.payload < MESSAGE

    def inject(lab, random):
        with wire.Network(random, delay=0.02) as network:
            folder = lab.new_folder("fault")
            run = start(network, lab, folder, ("--save-every", "0.1"))
            if not run.wait_for("speed  "):
                return [f"{name}: did not begin: {last_lines(run.wait().text)}"]
            network.wire.strike(wanted, half)
            wrong = ended_by_network(name, run, time.monotonic(), folder)
        return wrong or goes_on(name, lab, NODES, folder)
    return inject


INJECTIONS = [
    ("network cut", True, network_cut),
    ("network slow", False, disturbed("network slow", delay=0.005, jitter=0.002)),
    ("network lossy", False, disturbed("network lossy", loss=0.01, delay=0.001)),
    ("network narrow", False, disturbed("network narrow", rate=10e6)),
    ("connection reset", True, connection_ends("connection reset")),
    ("connection half open", True, connection_ends("connection half open", half=True)),
    ("connection reset amid a message", True, connection_ends("connection reset amid a message", amid=True)),
    ("connection half open amid a message", True,
     connection_ends("connection half open amid a message", half=True, amid=True)),
]
