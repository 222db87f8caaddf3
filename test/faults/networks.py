# SPDX-License-Identifier: Apache-2.0
"""Two nodes in two network namespaces: the network between them is cut, slow or lossy."""
import contextlib
import os
import subprocess
import time

from injections import Unable, check
from kills import last_lines
from runs import Shape, weights_of

NODES = Shape("dcgan-tiny", 1, 2)
ADDRESSES = ("10.87.3.1", "10.87.3.2")


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unable(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")


class Network:
    """Two namespaces with a pair of devices between them."""

    def __init__(self):
        names = [f"gantrain{os.getpid()}-{node}" for node in (0, 1)]
        self.names = names
        self.devices = [f"gt{os.getpid() % 100000}n{node}" for node in (0, 1)]

    def __enter__(self):
        try:
            for name in self.names:
                command("ip", "netns", "add", name)
            command("ip", "link", "add", self.devices[0], "netns", self.names[0], "type", "veth",
                    "peer", "name", self.devices[1], "netns", self.names[1])
            for node in (0, 1):
                inside = ("ip", "-n", self.names[node])
                command(*inside, "address", "add", f"{ADDRESSES[node]}/24", "dev", self.devices[node])
                command(*inside, "link", "set", self.devices[node], "up")
                command(*inside, "link", "set", "lo", "up")
        except (Unable, FileNotFoundError) as error:
            self.__exit__()
            raise Unable(str(error)) from error
        return self

    def __exit__(self, *_):
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def cut(self):
        """Packets vanish: nobody is told that a connection has ended."""
        command("ip", "-n", self.names[1], "link", "set", self.devices[1], "down")

    def disturb(self, *how):
        for node in (0, 1):
            command("tc", "-n", self.names[node], "qdisc", "replace", "dev", self.devices[node],
                    "root", "netem", *how)

    def start(self, lab, folder, more=()):
        prefix = [("ip", "netns", "exec", name) for name in self.names]
        return lab.start(NODES, folder, ("--master-addr", ADDRESSES[0], "--timeout", "30s", *more),
                         prefix=prefix)


def network_cut(lab, random):
    with Network() as network:
        folder = lab.new_folder("fault")
        run = network.start(lab, folder, ("--kimg", "500"))
        if not run.wait_for("speed  "):
            return [f"network: did not begin: {last_lines(run.wait().text)}"]
        time.sleep(random.uniform(0, 0.5))
        network.cut()
        since = time.monotonic()
        end = run.wait(90)
        took = time.monotonic() - since
        wrong = check("network cut", end, 6, r"node [01]", folder)
        wrong += check("network cut", end, 6, r"node [01]", folder, node=1)
        return wrong + ([f"network cut: noticed after {took:.0f} s"] if took > 25 else [])


def disturbed(name, *how):
    def inject(lab, _):
        with Network() as network:
            network.disturb(*how)
            folder = lab.new_folder("fault")
            end = network.start(lab, folder).wait(110)
            if end.codes != [0, 0]:
                return [f"{name}: ended with {end.codes}: {last_lines(end.text)}"]
            if weights_of(folder) != lab.undisturbed(NODES)[0]:
                return [f"{name}: other weights than the undisturbed run's"]
            return []
    return inject


INJECTIONS = [
    ("network cut", True, network_cut),
    ("network slow", False, disturbed("network slow", "delay", "5ms", "2ms")),
    ("network lossy", False, disturbed("network lossy", "loss", "1%", "delay", "1ms")),
]
