# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces and the wire between them, which is a thread of this process: it reads the IP
packets of one side and writes them to the other, and delays, drops or answers them on the way. The
kernel's netem, which does such things too, is not everywhere."""
import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import select
import struct
import subprocess
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
ADDRESSES = ("10.87.3.1", "10.87.3.2")
MTU = 9000
RST, ACK = 0x04, 0x10


class Unable(Exception):
    """This machine lacks what the fault needs."""


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Unable(f"{' '.join(words)}: {done.stderr.strip() or done.returncode}")


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Segment:
    """A TCP segment in an IPv4 packet."""

    def __init__(self, packet):
        length = (packet[0] & 15) * 4
        tcp = packet[length:]
        self.source, self.target = packet[12:16], packet[16:20]
        self.ports = struct.unpack("!HH", tcp[:4])
        self.number, self.answer = struct.unpack("!II", tcp[4:12])
        self.payload = len(tcp) - (tcp[12] >> 4) * 4
        ends = ((self.source, self.ports[0]), (self.target, self.ports[1]))
        self.connection = frozenset(ends)


def tcp_in(packet):
    is_tcp = len(packet) >= 40 and packet[0] >> 4 == 4 and packet[9] == 6
    return Segment(packet) if is_tcp else None


def reset(source, target, ports, number, answer):
    """A packet that ends a connection at the target, as if the source had done so."""
    head = struct.pack("!HHIIBBHHH", *ports, number, answer, 5 << 4, RST | ACK, 0, 0, 0)
    pseudo = source + target + struct.pack("!BBH", 0, 6, len(head))
    head = head[:16] + struct.pack("!H", checksum(pseudo + head)) + head[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(head), 0, 0, 64, 6, 0) + source + target
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + head


class Wire(threading.Thread):
    """Carries packets between two descriptors. `delay` seconds on the way, by up to `jitter` more or
    less; the share `loss` of packets vanishes; at most `rate` bytes a second go through each way."""

    def __init__(self, ends, random, delay=0.0, jitter=0.0, loss=0.0, rate=0.0):
        super().__init__(daemon=True)
        self.ends, self.random = ends, random
        self.delay, self.jitter, self.loss, self.rate = delay, jitter, loss, rate
        self.is_cut = self.ended = False
        self.wanted = None      # a test of the segment at which a connection ends
        self.half = False       # only the side that the segment goes to hears of the end
        self.struck = None      # the connection that has ended so
        self.lost = 0           # packets
        self.queue, self.numbers = [], itertools.count()
        self.last, self.free = [0.0, 0.0], [0.0, 0.0]

    def strike(self, wanted, half=False):
        self.half, self.wanted = half, wanted

    def run(self):
        while not self.ended:
            due = self.queue[0][0] - time.monotonic() if self.queue else 0.1
            ready, _, _ = select.select(self.ends, [], [], min(max(due, 0), 0.1))
            for end in ready:
                with contextlib.suppress(OSError):
                    self.take(self.ends.index(end), os.read(end, 65536))
            while self.queue and self.queue[0][0] <= time.monotonic():
                _, _, to, packet = heapq.heappop(self.queue)
                with contextlib.suppress(OSError):
                    os.write(self.ends[to], packet)

    def take(self, side, packet):
        if self.is_cut or self.strikes(side, packet):
            return
        if self.random.random() < self.loss:
            self.lost += 1
            return
        self.send(side, packet)

    def send(self, side, packet):
        """From that side to the other one."""
        now = time.monotonic()
        due = now + self.delay + self.random.uniform(-self.jitter, self.jitter)
        if self.rate:
            self.free[side] = max(now, self.free[side]) + len(packet) / self.rate
            due = max(due, self.free[side])
        self.last[side] = due = max(due, self.last[side])  # none overtakes another
        heapq.heappush(self.queue, (due, next(self.numbers), 1 - side, packet))

    def strikes(self, side, packet):
        """Whether the packet ends a connection, or is of one that has ended: it does not arrive. An
        end comes after what was sent before it: the kernel takes no other."""
        segment = tcp_in(packet)
        if segment is None:
            return False
        if self.struck is None and self.wanted is not None and self.wanted(segment):
            self.struck = segment.connection
            self.send(side, reset(segment.source, segment.target, segment.ports,
                                  segment.number, segment.answer))
        if segment.connection != self.struck:
            return False
        if not self.half:
            self.send(1 - side, reset(segment.target, segment.source, segment.ports[::-1],
                                      segment.answer, segment.number + segment.payload & 0xFFFFFFFF))
        return True


def open_device(namespace, device):
    """Makes the device in the namespace. Its packets are read from and written to the descriptor."""
    made = []

    def enter():  # a thread of its own, since it stays in the namespace
        try:
            with open(f"/run/netns/{namespace}", "rb") as place:
                if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
            made.append(end)
        except OSError as error:
            made.append(error)
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if isinstance(made[0], OSError):
        raise Unable(f"a tun device: {made[0]}")
    return made[0]


class Network:
    """Two namespaces with a wire between them."""

    def __init__(self, random, **how):
        self.names = [f"gantrain{os.getpid()}-{node}" for node in (0, 1)]
        self.random, self.how = random, how
        self.ends, self.wire = [], None

    def __enter__(self):
        try:
            for name, address in zip(self.names, ADDRESSES):
                command("ip", "netns", "add", name)
                self.ends.append(open_device(name, "wire"))
                inside = ("ip", "-n", name)
                command(*inside, "address", "add", f"{address}/24", "dev", "wire")
                command(*inside, "link", "set", "wire", "mtu", str(MTU), "up")
                command(*inside, "link", "set", "lo", "up")
        except (Unable, FileNotFoundError) as error:
            self.__exit__()
            raise Unable(str(error)) from error
        self.wire = Wire(self.ends, self.random, **self.how)
        self.wire.start()
        return self

    def __exit__(self, *_):
        if self.wire is not None:
            self.wire.ended = True
            self.wire.join()
        for end in self.ends:
            os.close(end)
        for name in self.names:
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)

    def prefix(self):
        return [("ip", "netns", "exec", name) for name in self.names]
