#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole trainings of gantrain beside the official codes: quality against kimg and against minutes.

    scripts/peers/curves.py --data PICTURES.zip --out FOLDER --gantrain build/gantrain --python PYTHON \
        --stylegan2 CHECKOUT --r3gan CHECKOUT [--kimg 48 --every 8 --seeds 3 --threads 1 --jobs 2]
    scripts/peers/curves.py ... --stylegan3 CHECKOUT --resolution 16 --official-seeds 1

Each code trains the same small network on the same pictures, without augmentation, from as many seeds. What the
average of the generator draws at equal steps is measured by one judge, `gantrain metrics --images`, for all.
PICTURES.zip comes from `gantrain data pack PATH -o PICTURES.zip --resolution 32 --channels 3 --png-level 0`;
CHECKOUTs are of the official repositories; PYTHON has torch, numpy and Pillow, and scipy for StyleGAN3. Where the
pictures have classes, classifier.py trains a classifier first, in whose features `fd` compares.
FOLDER/curves.json has all numbers, FOLDER/NET-METRIC.svg the curves. The same command goes on where it was ended;
more seeds, another official code or another metric train and measure only what is new. Another length, data or
what else changes the numbers is refused in a FOLDER that has some. Law: from a fifth of the length on, the median of gantrain's seeds
lies in the band of the official code's, widened by a tenth, and the other way round; and at equal minutes gantrain
is ahead. Exit 1 where it does not hold or something failed, 75 where the script was ended.
"""
import argparse
import concurrent.futures
import hashlib
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

from packed import classes_of
from programs import Programs, Stopped, machine

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
# What all numbers of a folder have in common: options, and the data.
SETTINGS = ("resolution", "kimg", "every", "threads", "draws")
# What official_run.py and classifier.py import, by the names of the packages; and a file of each official code.
PACKAGES = {"torch": "torch", "numpy": "numpy", "Pillow": "PIL.Image"}
MORE_PACKAGES = {"stylegan3": {"scipy": "scipy.signal, scipy.optimize"}}
CODES = {"stylegan2": "training/networks.py training/networks_stylegan2.py", "r3gan": "training/networks.py",
         "stylegan3": "training/networks_stylegan3.py"}


def save_whole(path, value, **more):
    """A JSON file, which is there whole or not at all."""
    with open(path + ".part", "w") as file:
        json.dump(value, file, **more)
    os.replace(path + ".part", path)


def load(path, other):
    """What a JSON file holds; another value where it is not there."""
    try:
        with open(path) as file:
            return json.load(file)
    except FileNotFoundError:
        return other


class Run:
    """One training: a net, a side ("official" or "gantrain") and a seed."""

    def __init__(self, args, programs, net, side, seed):
        self.args, self.programs, self.net, self.side, self.seed = args, programs, net, side, seed
        self.folder = os.path.join(args.out, f"{net}-{side}-{seed}")
        self.log = os.path.join(self.folder, "log.txt")

    def trained(self):
        return os.path.exists(os.path.join(self.folder, "trained"))

    def call(self, command, captured=False):
        return self.programs.run(command, self.log, threads=None, captured=captured)

    def train(self):
        if self.trained():
            return
        os.makedirs(self.folder, exist_ok=True)
        (self.train_official if self.side == "official" else self.train_gantrain)()
        with open(os.path.join(self.folder, "trained"), "w") as file:
            file.write(machine() + "\n")

    def train_official(self):
        args = self.args
        self.call([args.python, os.path.join(HERE, "official_run.py"), "--net", self.net, "--official",
                   getattr(args, self.net), "--data", args.data, "--out", self.folder, "--kimg", str(args.kimg), "--every",
                   str(args.every), "--seed", str(self.seed), "--draws", str(args.draws), "--", "--resolution",
                   str(args.resolution), "--batch", str(BATCH), "--threads", str(args.threads), *SAME[self.net][1]])

    def train_gantrain(self):
        args, every = self.args, str(self.args.every)
        self.call([args.gantrain, *SAME[self.net][0], "--data", args.data, "--resolution", str(args.resolution), "--batch",
                   str(BATCH), "--kimg", str(args.kimg), "--seed", str(self.seed), "--nproc", "1", "--threads",
                   str(args.threads), "--device", "cpu", "--run-dir", os.path.join(self.folder, "run"), "--set",
                   "metrics.names=none", "--set", "samples.every=1000000", "--set", "data.mirror=off", "--set",
                   f"save.every={every}"])

    def steps(self):
        """{kimg: (seconds of training until then, pictures drawn)}"""
        if self.side == "official":
            times = load(os.path.join(self.folder, "times.json"), {})
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

    def measured(self):
        return os.path.join(self.folder, "measured.json")

    def measure(self):
        """[{kimg, seconds, metric: value}] of all steps. What was measured in an earlier call is kept."""
        rows = {row["kimg"]: row for row in load(self.measured(), [])}
        for kimg, (seconds, drawn) in sorted(self.steps().items()):
            row = rows.setdefault(kimg, {"kimg": kimg, "seconds": seconds})
            missing = [name for name in self.args.metrics.split(",") if name not in row]
            if missing:
                row.update(self.values_of(drawn, missing))
                save_whole(self.measured(), list(rows.values()))
        return sorted(rows.values(), key=lambda row: row["kimg"])

    def values_of(self, drawn, metrics):
        args, pictures = self.args, drawn
        if drawn.endswith(".safetensors"):
            pictures = os.path.join(self.folder, "drawn")
            shutil.rmtree(pictures, ignore_errors=True)
            self.call([args.gantrain, "generate", "--model", drawn, "--seeds", f"0-{args.draws - 1}", "--outdir", pictures])
        command = [args.gantrain, "metrics", "--images", args.data, pictures, "--metrics", ",".join(metrics), "--num-reals",
                   str(args.draws), "--num-images", str(args.draws), "--json", "-q"]
        if args.lite0:
            command += ["--lite0", args.lite0]
        if "fd" in metrics:
            command += ["--detector", args.detector]
        values = {}
        for line in self.call(command, captured=True).splitlines():
            if line.startswith("{"):
                values.update(json.loads(line)["results"])
        return values


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
            print(f"{net}, {metric}: medians of " + " and ".join(f"{len(seeds)} seeds of {side}" for side, seeds in curves.items()) +
                  " (least, most)")
            for i, row in enumerate(curves["official"][0]):
                cells = {side: "%8.4g (%.4g, %.4g)" % (lambda b: (b[1], b[0], b[2]))(band_of(seeds, i, metric))
                         for side, seeds in curves.items()}
                print(f"  kimg {row['kimg']:6g}  gantrain {cells['gantrain']:28}  official {cells['official']}")
            broken += [f"{net}: {text}" for text in breaks(curves, metric, args.kimg)]
            with open(os.path.join(args.out, f"{net}-{metric}.svg"), "w") as file:
                file.write(draw_curves(curves, metric, f"{net}, {metric}: lower is better"))
        seconds = {side: statistics.median(curve[-1]["seconds"] for curve in seeds) for side, seeds in curves.items()}
        print(f"  {args.kimg:g} kimg take {seconds['gantrain']:.0f} s, official {seconds['official']:.0f} s")
    return keep(args, all_curves, broken)


def keep(args, curves, broken):
    """Writes curves.json, where nets of earlier calls stay, and tells what does not hold. The exit code."""
    path = os.path.join(args.out, "curves.json")
    earlier = load(path, {"curves": {}, "law": []})
    others = {net: sides for net, sides in earlier["curves"].items() if net not in curves}
    law = [] if earlier["law"] == "holds" else [text for text in earlier["law"] if text.split(":")[0] in others]
    save_whole(path, {"command": sys.argv, "machines": machines_of(args.out), "curves": {**others, **curves},
                      "law": law + broken or "holds"}, indent=1)
    for text in broken:
        print("outside: " + text)
    return 1 if broken else 0


def machines_of(folder):
    """Those on which something was trained. Minutes are comparable only where it is one."""
    found = set()
    for run in os.listdir(folder):
        path = os.path.join(folder, run, "trained")
        if os.path.exists(path):
            with open(path) as file:
                found.add(file.read().strip() or "unknown")
    return sorted(found)


def hash_of(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def hold_settings(args):
    """Refuses a folder whose numbers come from other settings. One that has none gets these."""
    path = os.path.join(args.out, "settings.json")
    settings = {**{name: getattr(args, name) for name in SETTINGS}, "data": hash_of(args.data)}
    earlier = load(path, settings)
    for name, value in settings.items():
        if earlier.get(name, value) != value:
            sys.exit(f"--{name}: {args.out} has numbers of {earlier[name]}, not of {value}: another --out is needed")
    save_whole(path, settings)


def missing_packages(python, packages):
    """Names of those packages that a Python cannot import, each with what it says."""
    if not shutil.which(python):
        sys.exit(f"--python {python}: there is no such program")
    tried = subprocess.run([python, "-c", "import sys\nfor package in sys.argv[1:]:\n"
                            "    name, modules = package.split('=')\n"
                            "    try: exec('import ' + modules)\n"
                            "    except Exception as error: print(f'{name} ({error})')",
                            *("=".join(package) for package in packages.items())], stdout=subprocess.PIPE, text=True)
    return tried.stdout.splitlines() + [f"everything (exit code {tried.returncode})"] * (tried.returncode != 0)


def check_needs(args, runs):
    """Ends with what is not there for the trainings to come."""
    if not shutil.which(args.gantrain):
        sys.exit(f"--gantrain {args.gantrain}: there is no such program")
    nets = list(dict.fromkeys(run.net for run in runs if run.side == "official" and not run.trained()))
    for net in nets:
        if not any(os.path.isfile(os.path.join(getattr(args, net), file)) for file in CODES[net].split()):
            sys.exit(f"--{net} {getattr(args, net)}: none of {CODES[net].replace(' ', ', ')} there")
    packages = dict(PACKAGES) if nets or not has_detector(args) else {}
    for net in nets:
        packages.update(MORE_PACKAGES.get(net, {}))
    missing = packages and missing_packages(args.python, packages)
    if missing:
        sys.exit(f"--python {args.python} lacks {', '.join(missing)}; for {', '.join(nets) or 'the classifier'} it needs "
                 f"{', '.join(packages)}")


def has_detector(args):
    return "fd" not in args.metrics.split(",") or os.path.exists(args.detector)


def train_detector(args, programs):
    """The classifier in whose features `fd` compares. Values by one that is no longer there are forgotten."""
    if has_detector(args):
        return
    for folder in os.listdir(args.out):
        path = os.path.join(args.out, folder, "measured.json")
        if os.path.exists(path):
            save_whole(path, [{name: row[name] for name in row if name != "fd"} for row in load(path, [])])
    programs.run([args.python, os.path.join(HERE, "classifier.py"), "--data", args.data, "--out", args.detector],
                 os.path.join(args.out, "classifier.txt"), threads=None, captured=False)


def do_all(pool, function, runs):
    """What the function returns for each run. The first failure is told at once, and then nothing more is begun."""
    jobs = [pool.submit(function, run) for run in runs]
    done, _ = concurrent.futures.wait(jobs, return_when=concurrent.futures.FIRST_EXCEPTION)
    failures = [job.exception() for job in done if job.exception()]
    if failures:
        for failure in failures:
            print(str(failure) or "ended: the same command goes on", file=sys.stderr, flush=True)
        pool.shutdown(wait=False, cancel_futures=True)
        raise failures[0]
    return [job.result() for job in jobs]


def hold_steps(runs, measured):
    """All curves are compared step by step, so all must have been measured at the same ones."""
    steps = [[round(row["kimg"], 1) for row in rows] for rows in measured]
    for run, own in zip(runs, steps):
        if own != steps[0] or not own:
            sys.exit(f"{run.folder} has pictures at kimg {own}, {runs[0].folder} at {steps[0]}")


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
    parser.add_argument("--official-seeds", type=int, help="of the official codes, where they take long; default: --seeds")
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
        args.metrics = "swd" + (",fd" if classes_of(args.data) else "") + (",fd_lite0" if args.lite0 else "")
    if abs(args.kimg / args.every - round(args.kimg / args.every)) > 1e-6:
        parser.error("--kimg must be a multiple of --every")
    os.makedirs(args.out, exist_ok=True)
    args.detector = os.path.join(args.out, "classifier.pt")
    programs = Programs()
    runs = [Run(args, programs, net, side, seed) for seed in range(1, args.seeds + 1) for net in nets
            for side, last in (("official", args.official_seeds or args.seeds), ("gantrain", args.seeds)) if seed <= last]
    check_needs(args, runs)
    hold_settings(args)
    try:
        with programs.watched(), concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            do_all(pool, lambda _: train_detector(args, programs), [None])
            do_all(pool, Run.train, runs)
            measured = do_all(pool, Run.measure, runs)
    except Stopped:
        return 75
    except RuntimeError:
        return 1
    hold_steps(runs, measured)
    curves = {net: {side: [rows for run, rows in zip(runs, measured) if (run.net, run.side) == (net, side)]
                    for side in ("gantrain", "official")} for net in nets}
    return report(args, curves)


if __name__ == "__main__":
    sys.exit(main())
