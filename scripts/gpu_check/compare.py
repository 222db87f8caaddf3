# SPDX-License-Identifier: Apache-2.0
"""Whether two results are the same, for gpu_check.sh:  compare.py WHAT ...

pictures A B LIMIT           folders of .npy: the largest difference of a number
weights CPU REFS OTHER FLOOR [MOST]  runs from the same start: |OTHER - CPU| over |CPU - start|, for generator,
                             discriminator and average each, may be 5 times what CPU and REFS (runs on
                             the same device that round in another way, with commas between; the one
                             that differs most counts) differ by, or FLOOR, but never more than MOST
losses CPU REFS OTHER FLOOR  the last tick's losses, over their deviation within the tick, likewise
largest A B LIMIT            the newest models: the largest difference, over its tensor's largest number
same A B                     the newest models have the same bits

One tensor's largest difference says nothing here: Adam turns the rounding noise of a gradient that is
zero into a full step. So all weights of a network are one vector, whose change by training is the measure.
"""

import array
import ast
import glob
import json
import math
import os
import struct
import sys

FACTOR = 5


def float_array(data):
    """Returns the float32 numbers of the bytes."""
    numbers = array.array("f")
    numbers.frombytes(data)
    return numbers


def picture(path):
    """Returns the numbers of a .npy of float32."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    assert ast.literal_eval(data[10:10 + size].decode())["descr"] == "<f4", path
    return float_array(data[10 + size:])


def pictures(a, b, limit):
    """Compares two folders."""
    names = sorted(os.path.basename(path) for path in glob.glob(a + "/*.npy"))
    assert names and names == sorted(os.path.basename(path) for path in glob.glob(b + "/*.npy")), "other files"
    worst = 0
    for name in names:
        for x, y in zip(picture(f"{a}/{name}"), picture(f"{b}/{name}")):
            worst = max(worst, abs(x - y)) if y == y and x == x else math.inf
    print("differs by at most %.2g" % worst)
    return worst <= float(limit)


def model_files(run):
    """Returns the run's models, the oldest first."""
    files = sorted(glob.glob(run + "/model-*.safetensors"))
    assert len(files) > 1, f"{run} has not two models"
    return files


def tensors(path):
    """Returns {name: numbers} of a safetensors file's float32 tensors."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            begin, end = entry["data_offsets"]
            found[name] = float_array(data[8 + size + begin:8 + size + end])
    return found


def part_of(name):
    """Returns which network a tensor belongs to: G, D, or the average that is shared."""
    return name[0] if name.startswith(("G.", "D.")) else "average"


def distances(a, b):
    """Returns {part: norm of the difference}."""
    assert a and a.keys() == b.keys(), "other tensors"
    squares = {}
    for name, numbers in a.items():
        total = sum((x - y) * (x - y) for x, y in zip(numbers, b[name]))
        squares[part_of(name)] = squares.get(part_of(name), 0) + total
    return {part: math.sqrt(total) for part, total in squares.items()}


def weights(cpu, refs, other, floor, most="inf"):
    """Compares runs that began with the same weights."""
    start, end = (tensors(model_files(cpu)[i]) for i in (0, -1))
    changed = distances(start, end)
    runs = [*refs.split(","), other]
    assert all(tensors(model_files(run)[0]).keys() == start.keys() for run in runs), "other tensors"
    *noises, found = (distances(end, tensors(model_files(run)[-1])) for run in runs)
    noise = {part: max(one[part] for one in noises) for part in changed}
    good, words = True, []
    for part, change in changed.items():
        assert change > 0, f"training changed nothing of {part}"
        allowed = min(max(float(floor), FACTOR * noise[part] / change), float(most))
        good = good and found[part] / change <= allowed
        words.append("%s %.2g (%.2g allowed)" % (part, found[part] / change, allowed))
    print("differs of what training changed: " + ", ".join(words))
    return good


def last_tick(run):
    """Returns {loss: (mean, deviation)} of the last line of stats.jsonl."""
    with open(run + "/stats.jsonl", encoding="utf-8") as file:
        line = json.loads(file.readlines()[-1])
    return {name[5:]: (value["mean"], value["std"]) for name, value in line.items()
            if name in ("Loss/G/loss", "Loss/D/loss", "Loss/scores/fake", "Loss/scores/real")}


def losses(cpu, refs, other, floor):
    """Compares the last ticks of runs."""
    one, *others = (last_tick(run) for run in (cpu, *refs.split(","), other))
    assert one and all(values.keys() == one.keys() for values in others), "other losses"
    *noises, found = (max(abs(values[name][0] - mean) / max(deviation, 1e-6) for name, (mean, deviation) in one.items())
                      for values in others)
    allowed = max(float(floor), FACTOR * max(noises))
    print("differs by %.2g deviations (%.2g allowed)" % (found, allowed))
    return found <= allowed


def largest(a, b, limit):
    """Compares the newest models' tensors, number by number."""
    one, other = (tensors(model_files(run)[-1]) for run in (a, b))
    assert one and one.keys() == other.keys(), "other tensors"
    worst = 0
    for name, numbers in one.items():
        scale = max(1e-3, max(map(abs, numbers), default=0))
        for x, y in zip(numbers, other[name]):
            worst = max(worst, abs(x - y) / scale) if y == y and x == x else math.inf
    print("differs by at most %.2g of a tensor's largest number" % worst)
    return worst <= float(limit)


def same(a, b):
    """Compares the newest models' tensors, bit by bit."""
    one, other = (tensors(model_files(run)[-1]) for run in (a, b))
    assert one and one.keys() == other.keys(), "other tensors"
    different = [name for name in one if one[name].tobytes() != other[name].tobytes()]
    print("differs in %d of %d tensors %s" % (len(different), len(one), different[:1] or ""))
    return not different


def main():
    """Returns the exit code."""
    return not {"pictures": pictures, "weights": weights, "losses": losses, "largest": largest,
                "same": same}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
