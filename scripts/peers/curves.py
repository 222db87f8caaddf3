#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole trainings of gantrain beside the official codes: quality against kimg and against minutes.

    scripts/peers/curves.py --data PICTURES.zip --out FOLDER --gantrain build/gantrain --python PYTHON \
        --stylegan2 CHECKOUT --r3gan CHECKOUT [--kimg 48 --every 8 --seeds 3 --threads 1 --jobs 2]
    scripts/peers/curves.py ... --stylegan3 CHECKOUT --resolution 16 --seeds 1

Each code trains the same small network on the same pictures, without augmentation, from as many seeds. What the
average of the generator draws at equal steps is measured by one judge, `gantrain metrics --images`, for all.
PICTURES.zip comes from `gantrain data pack PATH -o PICTURES.zip --resolution 32 --channels 3 --png-level 0`;
CHECKOUTs are of the official repositories; PYTHON has torch, numpy and Pillow, and scipy for StyleGAN3. Where the
pictures have classes, classifier.py trains a classifier first, in whose features `fd` compares.
FOLDER/curves.json has all numbers, FOLDER/NET-METRIC.svg the curves. The same command goes on where it was ended,
and measures again nothing that was measured. Law: from a fifth of the length on, the median of gantrain's seeds
lies in the band of the official code's, widened by a tenth, and the other way round; and at equal minutes gantrain
is ahead. Exit 1 where it does not hold.
"""
import argparse
import concurrent.futures
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SLACK = 0.1

# What both sides are told, by net: gantrain's preset and keys, and the flags of official_run.py.
SAME = {
    "stylegan2": (
        ["--preset", "stylegan2-tiny", "--set", "ada.mode=none", "--set", "stylegan2.gamma=0.1"],
        ["--channel-base", "512", "--channel-max", "64", "--z-dim", "64", "--w-dim", "64", "--map-depth", "2",
         "--gamma", "0.1", "--lr", "0.0025", "--beta2", "0.99", "--ema-kimg", "5", "--ema-rampup", "0.05"]),
    "r3gan": (
        ["--preset", "r3gan-tiny", "--set", "ada.mode=none", "--set", "r3gan.gamma=0.5", "--set", "ema.half_life=5",
         "--set", "ema.rampup=0.05",
         *(word for player in "GD" for key in ("lr=5e-4", "beta2=0.99") for word in ("--set", f"{player}.adam.{key}"))],
        ["--z-dim", "32", "--width", "32:24,48", "--cardinality", "32:3,6", "--blocks", "1", "--gamma", "0.5",
         "--lr", "5e-4", "--beta2", "0.99", "--ema-kimg", "5", "--ema-rampup", "0.05"]),
    "stylegan3": (
        ["--preset", "stylegan3-tiny", "--set", "ada.mode=none", "--set", "stylegan3.gamma=0.1"],
        ["--channel-base", "512", "--channel-max", "32", "--d-channel-max", "64", "--z-dim", "64", "--w-dim", "64",
         "--map-depth", "2", "--num-layers", "6", "--margin", "6", "--gamma", "0.1", "--lr", "0.0025", "--beta2", "0.99",
         "--ema-kimg", "5", "--ema-rampup", "0.05"]),
}
BATCH = 16


def call(command, log, env=None):
    with open(log, "a") as output:
        ended = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=env)
    if ended.returncode:
        sys.exit(f"{' '.join(command[:3])} ... ended with {ended.returncode}: see {log}")


class Run:
    """One training: a net, a side ("official" or "gantrain") and a seed."""

    def __init__(self, args, net, side, seed):
        self.args, self.net, self.side, self.seed = args, net, side, seed
        self.folder = os.path.join(args.out, f"{net}-{side}-{seed}")
        os.makedirs(self.folder, exist_ok=True)
        self.log = os.path.join(self.folder, "log.txt")

    def train(self):
        if os.path.exists(os.path.join(self.folder, "trained")):
            return self
        (self.train_official if self.side == "official" else self.train_gantrain)()
        open(os.path.join(self.folder, "trained"), "w").close()
        return self

    def train_official(self):
        args = self.args
        call([args.python, os.path.join(HERE, "official_run.py"), "--net", self.net, "--official",
              getattr(args, self.net), "--data", args.data, "--out", self.folder, "--kimg", str(args.kimg), "--every",
              str(args.every), "--seed", str(self.seed), "--draws", str(args.draws), "--", "--resolution",
              str(args.resolution), "--batch", str(BATCH), "--threads", str(args.threads), *SAME[self.net][1]], self.log)

    def train_gantrain(self):
        args, every = self.args, str(self.args.every)
        call([args.gantrain, *SAME[self.net][0], "--data", args.data, "--resolution", str(args.resolution), "--batch", str(BATCH),
              "--kimg", str(args.kimg), "--seed", str(self.seed), "--nproc", "1", "--threads", str(args.threads), "--device",
              "cpu", "--run-dir", os.path.join(self.folder, "run"), "--set", "metrics.names=none", "--set",
              "samples.every=1000000", "--set", "data.mirror=off", "--set", f"save.every={every}"], self.log)

    def steps(self):
        """{kimg: (seconds of training until then, pictures drawn)}"""
        if self.side == "official":
            with open(os.path.join(self.folder, "times.json")) as file:
                times = json.load(file)
            return {float(kimg): (seconds, os.path.join(self.folder, f"{round(float(kimg) * 1000)}.zip"))
                    for kimg, seconds in times.items()}
        seconds = {}
        with open(os.path.join(self.folder, "run", "stats.jsonl")) as file:
            for line in file:
                tick = json.loads(line)
                seconds[tick["Progress/kimg"]["mean"]] = tick["Timing/total_sec"]["mean"]
        steps = {}
        for name in sorted(os.listdir(os.path.join(self.folder, "run"))):
            if not name.startswith("model-") or not name[6:7].isdigit():
                continue
            kimg = float(name[len("model-"):-len(".safetensors")])
            if kimg > 0:
                nearest = min(seconds, key=lambda at: abs(at - kimg))
                steps[kimg] = (seconds[nearest], os.path.join(self.folder, "run", name))
        return steps

    def measure(self):
        """[{kimg, seconds, metric: value}] of all steps."""
        file = os.path.join(self.folder, "measured.json")
        measured = json.load(open(file)) if os.path.exists(file) else []
        measured = [row for row in measured if all(name in row for name in self.args.metrics.split(","))]
        known = {row["kimg"] for row in measured}
        for kimg, (seconds, drawn) in sorted(self.steps().items()):
            if kimg not in known:
                measured.append({"kimg": kimg, "seconds": seconds, **self.values_of(drawn)})
                with open(file + ".part", "w") as output:
                    json.dump(measured, output)
                os.replace(file + ".part", file)
        return sorted(measured, key=lambda row: row["kimg"])

    def values_of(self, drawn):
        args, pictures = self.args, drawn
        if drawn.endswith(".safetensors"):
            pictures = os.path.join(self.folder, "drawn")
            shutil.rmtree(pictures, ignore_errors=True)
            call([args.gantrain, "generate", "--model", drawn, "--seeds", f"0-{args.draws - 1}", "--outdir", pictures], self.log)
        command = [args.gantrain, "metrics", "--images", args.data, pictures, "--metrics", args.metrics, "--num-reals",
                   str(args.draws), "--num-images", str(args.draws), "--json", "-q"]
        if args.lite0:
            command += ["--lite0", args.lite0]
        if "fd" in args.metrics.split(","):
            command += ["--detector", args.detector]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if ended.returncode:
            sys.exit(f"{' '.join(command)} ended with {ended.returncode}")
        values = {}
        for line in ended.stdout.splitlines():
            if line.startswith("{"):
                values.update(json.loads(line)["results"])
        return values


def has_classes(path):
    with zipfile.ZipFile(path) as archive:
        if "dataset.json" not in archive.namelist():
            return False
        labels = json.loads(archive.read("dataset.json")).get("labels")
    return bool(labels) and all(isinstance(label, int) for _, label in labels)


def value_at(curve, minutes, metric):
    """The metric of a curve at so many minutes, by the straight line between its measurements."""
    points = [(row["seconds"] / 60, row[metric]) for row in curve]
    for (before, a), (after, b) in zip(points, points[1:]):
        if before <= minutes <= after:
            return a + (b - a) * (minutes - before) / (after - before)
    return math.inf if minutes < points[0][0] else points[-1][1]


def band_of(curves, i, metric):
    values = [curve[i][metric] for curve in curves]
    return min(values), statistics.median(values), max(values)


def breaks(curves, metric, kimg):
    """[text] of the steps at which the law does not hold."""
    ours, theirs = curves["gantrain"], curves["official"]
    found = []
    for i, row in enumerate(theirs[0]):
        if row["kimg"] < kimg / 5:
            continue
        for name, inside, outside in (("gantrain", ours, theirs), ("the official code", theirs, ours)):
            median = band_of(inside, i, metric)[1]
            low, _, high = band_of(outside, i, metric)
            if not low * (1 - SLACK) <= median <= high * (1 + SLACK):
                found.append(f"{metric} at kimg {row['kimg']:g}: {name}'s median {median:.4g} is outside "
                             f"{low:.4g} to {high:.4g}")
        minutes = statistics.median(curve[i]["seconds"] for curve in theirs) / 60
        if minutes > statistics.median(curve[-1]["seconds"] for curve in ours) / 60:
            continue  # gantrain was at its end by then
        median = statistics.median(curve[i][metric] for curve in theirs)
        ahead = statistics.median(value_at(curve, minutes, metric) for curve in ours)
        if not ahead < median:
            found.append(f"{metric} after {minutes:.3g} minutes: gantrain's median {ahead:.4g} is not below {median:.4g}")
    return found


def draw_curves(curves, metric, title):
    """An SVG: bands of seeds and medians against kimg, and medians against minutes."""
    width, height, left, top = 420, 240, 50, 30
    colours = {"gantrain": "#1f6fb2", "official": "#c9571b"}
    highest = max(row[metric] for side in curves.values() for curve in side for row in curve)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * (width + left) + 20} {height + 80}" '
             'font-family="sans-serif" font-size="12">', f'<text x="{left}" y="18">{title}</text>']
    for panel, unit in enumerate(("kimg", "minutes")):
        x0 = left + panel * (width + left)
        at = lambda row: row["kimg"] if unit == "kimg" else row["seconds"] / 60
        widest = max(at(curve[-1]) for side in curves.values() for curve in side)
        x = lambda value: x0 + value / widest * (width - 20)
        y = lambda value: top + height * (1 - value / highest)
        parts.append(f'<path d="M{x0} {top}V{top + height}H{x0 + width - 20}" fill="none" stroke="#888"/>')
        parts.append(f'<text x="{x0}" y="{top + height + 18}">0</text><text x="{x0 + width - 60}" '
                     f'y="{top + height + 18}">{widest:.3g} {unit}</text><text x="{x0 - 45}" y="{top + 8}">{highest:.3g}</text>')
        for side, seeds in curves.items():
            rows = range(len(seeds[0]))
            means = [statistics.mean(at(curve[i]) for curve in seeds) for i in rows]
            bands = [band_of(seeds, i, metric) for i in rows]
            if unit == "kimg":
                outline = [(x(m), y(b[0])) for m, b in zip(means, bands)] + [(x(m), y(b[2])) for m, b in zip(means, bands)][::-1]
                parts.append(f'<polygon points="{" ".join("%.1f,%.1f" % p for p in outline)}" fill="{colours[side]}" opacity="0.2"/>')
            line = " ".join(f"{x(m):.1f},{y(b[1]):.1f}" for m, b in zip(means, bands))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colours[side]}" stroke-width="2"/>')
    for i, (side, colour) in enumerate(colours.items()):
        parts.append(f'<text x="{left + 160 * i}" y="{top + height + 40}" fill="{colour}">{side}</text>')
    return "\n".join(parts + ["</svg>", ""])


def report(args, all_curves):
    broken = []
    for net, curves in all_curves.items():
        for metric in args.metrics.split(","):
            print(f"{net}, {metric}: medians of {args.seeds} seeds (least, most)")
            for i, row in enumerate(curves["official"][0]):
                cells = {side: "%8.4g (%.4g, %.4g)" % (lambda b: (b[1], b[0], b[2]))(band_of(seeds, i, metric))
                         for side, seeds in curves.items()}
                print(f"  kimg {row['kimg']:6g}  gantrain {cells['gantrain']:28}  official {cells['official']}")
            broken += [f"{net}: {text}" for text in breaks(curves, metric, args.kimg)]
            with open(os.path.join(args.out, f"{net}-{metric}.svg"), "w") as file:
                file.write(draw_curves(curves, metric, f"{net}, {metric}: lower is better"))
        seconds = {side: statistics.median(curve[-1]["seconds"] for curve in seeds) for side, seeds in curves.items()}
        print(f"  {args.kimg:g} kimg take {seconds['gantrain']:.0f} s, official {seconds['official']:.0f} s")
    with open(os.path.join(args.out, "curves.json"), "w") as file:
        json.dump({"command": sys.argv, "curves": all_curves, "law": broken or "holds"}, file, indent=1)
    for text in broken:
        print("outside: " + text)
    return 1 if broken else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="zip of PNGs of the resolution")
    parser.add_argument("--out", required=True)
    parser.add_argument("--gantrain", required=True, help="the program")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch, numpy and Pillow")
    parser.add_argument("--stylegan2", help="checkout of StyleGAN2-ADA's official PyTorch code")
    parser.add_argument("--r3gan", help="checkout of R3GAN's official code")
    parser.add_argument("--stylegan3", help="checkout of StyleGAN3's official code")
    parser.add_argument("--resolution", type=int, default=32, help="of the pictures")
    parser.add_argument("--kimg", type=float, default=48)
    parser.add_argument("--every", type=float, default=8, help="kimg between measurements")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of each training")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    parser.add_argument("--draws", type=int, default=2048, help="pictures of each measurement")
    parser.add_argument("--metrics", help="names, comma between; default: swd, fd where the pictures have classes, "
                        "fd_lite0 where its weights are given")
    parser.add_argument("--lite0", help="weights of EfficientNet-Lite0, for fd_lite0")
    args = parser.parse_args()
    nets = [net for net in SAME if getattr(args, net)]
    if not nets:
        parser.error("--stylegan2, --r3gan or --stylegan3 must name a checkout")
    if args.metrics is None:
        args.metrics = "swd" + (",fd" if has_classes(args.data) else "") + (",fd_lite0" if args.lite0 else "")
    os.makedirs(args.out, exist_ok=True)
    args.detector = os.path.join(args.out, "classifier.pt")
    if "fd" in args.metrics.split(",") and not os.path.exists(args.detector):
        call([args.python, os.path.join(HERE, "classifier.py"), "--data", args.data, "--out", args.detector],
             os.path.join(args.out, "classifier.txt"))
    runs = [Run(args, net, side, seed) for seed in range(1, args.seeds + 1) for net in nets
            for side in ("official", "gantrain")]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for run in [pool.submit(run.train) for run in runs]:
            run.result()
        measured = list(pool.map(Run.measure, runs))
    curves = {net: {side: [rows for run, rows in zip(runs, measured) if (run.net, run.side) == (net, side)]
                    for side in ("gantrain", "official")} for net in nets}
    sys.exit(report(args, curves))


if __name__ == "__main__":
    main()
