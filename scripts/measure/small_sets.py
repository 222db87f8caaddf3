# SPDX-License-Identifier: Apache-2.0
"""What finetuning, races for gamma and projected GANs give on four sets of a few hundred pictures.

    python3 scripts/measure/sets.py --out sets         # once; its text says what it needs
    python3 scripts/measure/small_sets.py --sets sets --features WHEEL --out small

  a  gantrain finetune beside plain --init-from with the preset's values, equal kimg, three seeds
  b  gantrain tune for gamma beside five fixed gammas, one seed
  c  projected-tiny beside stylegan2-tiny at equal seconds, on larger sets: the bases of the models
Models are measured by pictures that nothing was trained on. DIR/results.jsonl has a line for each run
that has ended; the same command goes on with those that have not. --table only prints what is there.
Standard library alone.
"""
import argparse
import json
import os
import pathlib
import shlex
import shutil
import statistics
import sys
import threading
import time

from sets import SETS

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from programs import Programs, Stopped, machine, say

SEEDS = (1, 2, 3)
FACTORS = (0.25, 0.5, 1, 2, 4)  # times the preset's gamma, which is this one:
GAMMA = 0.1
RACED = "gamma=auto*{0.25,1,4}"
PRESETS = ("projected-tiny", "stylegan2-tiny")
DATA_OF_C = ("fashion", "icons")
METRICS = ("fd_lite0", "swd")  # the first one decides; lower is better


# What the numbers of each part depend on.
OF_FINETUNING = ("features", "images", "kimg", "start_kimg", "by", "run_images")
SETTINGS = {"a": OF_FINETUNING, "b": OF_FINETUNING, "c": ("features", "images", "seconds", "threads_c")}


def hold_settings(args):
    """Refuses a folder whose numbers come from other settings. One that has none gets these."""
    path = args.out / "settings.json"
    names = [name for part in args.part.split(",") for name in SETTINGS[part]]
    settings = {name: str(getattr(args, name)) for name in names} | {"features": args.features.name}
    earlier = json.loads(path.read_text()) if path.exists() else {}
    for name, value in settings.items():
        if earlier.get(name, value) != value:
            sys.exit(f"--{name.replace('_', '-')} {value}: {args.out} has numbers of {earlier[name]}: another --out is needed")
    path.write_text(json.dumps(earlier | settings))


class Results:
    """results.jsonl: a line for each job that has ended."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()
        self.entries = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # cut off
                self.entries[entry["job"]] = entry

    def add(self, entry):
        with self.lock:
            self.entries[entry["job"]] = entry
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def of(self, part, **wanted):
        return [entry for entry in self.entries.values()
                if entry["part"] == part and all(entry.get(key) == value for key, value in wanted.items())]


class Experiment:
    """The commands of each job. A job is a dictionary; its name is its run's folder, too."""

    def __init__(self, args):
        self.args = args
        self.out = args.out
        self.programs = Programs(args.gantrain.split(), args.minutes)
        self.results = Results(args.out / "results.jsonl")

    def place(self, device, threads=1):
        return ["--device", device, "--nproc", "1", "--threads", str(threads), "-q"]

    def start_model(self, base):
        """The model to begin at, networks and all; None where it is not trained yet."""
        run = self.out / "starts" / base
        models = sorted(run.glob("model-*.safetensors"))
        done = (run / "STATUS").exists() and (run / "STATUS").read_text().startswith("done")
        return models[-1] if models and done else None

    def log(self, job):
        path = self.out / "logs" / (job["job"].replace("/", "-") + ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def run_of(self, job):
        return self.out / "runs" / job["job"].replace("/", "-")

    def train_words(self, job, data, *more):
        args = self.args
        return ["train", "--data", str(args.sets / data), "--metrics", "none", "--set", "samples.every=1000",
                "--run-dir", str(self.run_of(job)), *more]

    def starting(self, job):
        model = self.start_model(SETS[job["set"]])
        return ["--preset", "stylegan2-tiny", "--init-from", str(model), "--kimg", str(self.args.kimg), "--save-every",
                str(self.args.kimg), "--seed", str(job["seed"]), *self.place(self.args.device)]

    def measured(self, job, model, test):
        """Returns the metrics of a model, by pictures that were not trained on."""
        output = self.programs.run(["metrics", str(model), "--data", str(self.args.sets / test), "--metrics",
                                    ",".join(METRICS), "--lite0", str(self.args.features), "--num-images",
                                    str(self.args.images), "--json", "-q", "--device", self.args.device], self.log(job))
        values = {}
        for line in output.splitlines():
            if line.startswith("{"):
                entry = json.loads(line)
                values[entry["metric"]] = round(entry["results"][entry["metric"]], 4)
        return values

    def grid(self, job, model):
        file = self.out / "grids" / (job["job"].replace("/", "-") + ".png")
        file.parent.mkdir(exist_ok=True)
        self.programs.run(["generate", "--model", str(model), "--seeds", "0-31", "-o", str(file), "--device", "cpu",
                           "-q"], self.log(job))

    # Each of the functions below runs a job and returns what is to be told of it.
    def start(self, job):
        run = self.out / "starts" / job["set"]
        words = ["train", "--preset", "stylegan2-tiny", "--data", str(self.args.sets / f"{job['set']}-base.zip"),
                 "--kimg", str(self.args.start_kimg), "--save-raw", "--save-every", str(self.args.start_kimg),
                 "--metrics", "none", "--set", "samples.every=1000", "--run-dir", str(run),
                 *self.place(self.args.device)]
        self.programs.run(words, self.log(job))
        return {"command": words}

    def plain(self, job):
        """The preset's values, or a fixed gamma."""
        words = self.train_words(job, f"{job['set']}.zip", *self.starting(job))
        if job["arm"] != "plain":
            words += ["--set", f"gamma={GAMMA * float(job['arm'])}"]
        self.programs.run(words, self.log(job))
        if job["seed"] == SEEDS[0] and job["arm"] == "plain":
            self.grid(job, self.run_of(job))
        return {"command": words, "values": self.measured(job, self.run_of(job), f"{job['set']}-test.zip")}

    def finetune(self, job):
        folder = self.run_of(job)
        words = ["finetune", str(self.args.sets / f"{job['set']}.zip"), "--from",
                 str(self.start_model(SETS[job["set"]])), "--by", self.args.by, "-o", str(folder), "--", "--kimg",
                 str(self.args.kimg), "--seed", str(job["seed"]), "--features", str(self.args.features), "--set",
                 f"metrics.images={self.args.run_images}", "--set", "samples.every=1000", *self.place(self.args.device)]
        self.programs.run(words, self.log(job))
        state = json.loads((folder / "finetune.json").read_text())
        best = folder / "best.safetensors"
        last = sorted((folder / "run").glob("model-[0-9]*.safetensors"))[-1]
        if job["seed"] == SEEDS[0]:
            self.grid(job, best)
        return {"command": words, "values": self.measured(job, best, f"{job['set']}-test.zip"),
                "last": self.measured(job, last, f"{job['set']}-test.zip"), "ended": state["ended"],
                "returns": len(state["returns"]), "curve": curve_of(folder / "run", self.args.by)}

    def tune(self, job):
        folder = self.run_of(job)
        words = ["tune", "--try", RACED, "--by", self.args.by, "-o", str(folder), "--", "--data",
                 str(self.args.sets / f"{job['set']}.zip"), "--features", str(self.args.features), "--set",
                 f"metrics.images={self.args.run_images}", "--set", "samples.every=1000", *self.starting(job)]
        self.programs.run(words, self.log(job))
        race = json.loads((folder / "tune.json").read_text())
        images = sum(max((value["kimg"] for value in racer["values"]), default=0) for racer in race["candidates"])
        model = folder / race["winner"]
        return {"command": words, "values": self.measured(job, model, f"{job['set']}-test.zip"),
                "winner": race["winner"], "kimg": images, "race": race["candidates"]}

    def timed(self, job):
        """So many seconds, which --stop-after counts (75 is its exit code), or the kimg that were said to take
        them on idle cores."""
        threads = self.args.threads_c
        length = ["--kimg", self.args.kimg_c[job["arm"]]] if self.args.kimg_c else [
            "--kimg", "100000", "--stop-after", f"{self.args.seconds}s"]
        words = self.train_words(job, f"{job['set']}-base.zip", "--preset", job["arm"], *length, "--seed", "1",
                                 "--mirror", "--save-every", "100000", *self.place(self.args.device_c, threads))
        if job["arm"].startswith("projected"):
            words += ["--features", str(self.args.features)]
        run = self.run_of(job)
        if not (run.exists() and any(run.glob("state-*.pt"))):
            try:
                self.programs.run(words, self.log(job), threads=threads, codes=(75,))
            except Stopped:
                shutil.rmtree(run, ignore_errors=True)  # equal seconds are seconds of one piece
                raise
        self.grid(job, run)
        return {"command": words, "values": self.measured(job, run, f"{job['set']}-base-test.zip"),
                "kimg": newest_kimg(run), "threads": threads}

    def jobs(self):
        """All that was asked for, what takes longest and what others wait for first."""
        jobs = []
        parts = self.args.part.split(",")

        def add(part, set_, arm, seed, run):
            jobs.append({"job": f"{part}/{set_}/{arm}/{seed}", "part": part, "set": set_, "arm": str(arm), "seed": seed,
                         "run": run})
        if "c" in parts:
            for set_ in DATA_OF_C:
                for preset in PRESETS:
                    add("c", set_, preset, 1, self.timed)
        if "a" in parts or "b" in parts:
            for base in dict.fromkeys(SETS.values()):
                if not self.start_model(base):
                    add("start", base, "start", 1, self.start)
        for seed in self.args.seeds:
            for set_ in SETS:
                if "a" in parts:
                    add("a", set_, "finetune", seed, self.finetune)
                if "a" in parts or ("b" in parts and seed == self.args.seeds[0]):
                    add("a", set_, "plain", seed, self.plain)  # of part b, too
            if "b" in parts and seed == self.args.seeds[0]:
                for set_ in SETS:
                    add("b", set_, "tune", seed, self.tune)
                    for factor in FACTORS:
                        if factor != 1:
                            add("b", set_, factor, seed, self.plain)
        left = [job for job in jobs if job["part"] != "start" and self.args.only in job["job"] and
                job["job"] not in self.results.entries]
        bases = {SETS[job["set"]] for job in left if job["part"] in ("a", "b")}
        starts = [job for job in jobs if job["part"] == "start" and job["set"] in bases]
        timed = [job for job in left if job["part"] == "c"]
        return timed + starts + [job for job in left if job["part"] != "c"]

    def do(self, job):
        begun = time.monotonic()
        run = job.pop("run")
        try:
            told = run(job)
        except Stopped:
            return
        except (RuntimeError, OSError, ValueError, IndexError, KeyError) as error:
            say(f"FAILED {job['job']}: {error}")
            return
        told["command"] = shlex.join(["gantrain", *told["command"]])
        entry = {**job, "kimg": self.args.kimg, **told, "seconds": round(time.monotonic() - begun, 1),
                 "device": self.args.device_c if job["part"] == "c" else self.args.device, "machine": machine(),
                 "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
        self.results.add(entry)
        say(f"{job['job']}: {entry.get('values', '')} in {entry['seconds']} s")


def newest_kimg(run):
    return max(float(state.name[len("state-"):-len(".pt")]) for state in run.glob("state-*.pt"))


def curve_of(run, metric):
    """What a run measured of itself: [[kimg, value], ...]."""
    file = run / f"metric-{metric}.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [[line["kimg"], round(line["results"][metric], 4)] for line in lines]


def run_all(experiment, jobs, slots):
    """Runs jobs in their order, as many at a time as there are slots; a job of part c takes one for each of
    its threads. What begins at a model waits for it."""
    free = threading.Condition()
    state = {"slots": slots, "running": set()}

    def ready(job):
        need = min(experiment.args.threads_c, slots) if job["part"] == "c" else 1
        waits = job["part"] in ("a", "b") and not experiment.start_model(SETS[job["set"]])
        return need <= state["slots"] and not waits

    def work(job, need):
        name = job["job"]
        experiment.do(job)
        with free:
            state["slots"] += need
            state["running"].remove(name)
            free.notify_all()

    with free:
        while jobs and not experiment.programs.over():
            job = next((one for one in jobs if ready(one)), None)
            if job:
                jobs.remove(job)
                need = min(experiment.args.threads_c, slots) if job["part"] == "c" else 1
                state["slots"] -= need
                state["running"].add(job["job"])
                threading.Thread(target=work, args=(job, need), daemon=True).start()
            elif not state["running"]:
                say("what is left waits for a model that could not be trained")
                break
            else:
                free.wait(1)
        while state["running"]:
            free.wait(1)


def median_of(entries, metric, key="values"):
    values = [entry[key][metric] for entry in entries if metric in entry.get(key, {})]
    return (statistics.median(values), len(values)) if values else (float("nan"), 0)


def table_a(results):
    lines = ["a  finetune beside --init-from; medians of the seeds, lower is better",
             f"{'set':<9}{'metric':<10}{'plain':>9}{'finetune':>10}{'its last':>10}{'ratio':>7}  seeds  verdict"]
    for metric in METRICS:
        for set_ in SETS:
            plain, n = median_of(results.of("a", set=set_, arm="plain"), metric)
            tuned, m = median_of(results.of("a", set=set_, arm="finetune"), metric)
            last, _ = median_of(results.of("a", set=set_, arm="finetune"), metric, "last")
            verdict = "" if not n or not m else "better" if tuned < plain else "WORSE"
            lines.append(f"{set_:<9}{metric:<10}{plain:>9.4g}{tuned:>10.4g}{last:>10.4g}{tuned / plain:>7.2f}"
                         f"  {n}, {m}   {verdict}")
    return lines


def table_b(results):
    lines = ["b  tune beside fixed gammas (times the preset's)",
             f"{'set':<9}{'metric':<10}" + "".join(f"{factor:>9}" for factor in FACTORS) +
             f"{'tune':>9}{'to best':>9}{'kimg':>7}  winner"]
    for metric in METRICS:
        for set_ in SETS:
            fixed = {f: median_of(results.of("a", set=set_, arm="plain", seed=SEEDS[0]) if f == 1 else
                                  results.of("b", set=set_, arm=str(f)), metric)[0] for f in FACTORS}
            races = results.of("b", set=set_, arm="tune")
            tuned = median_of(races, metric)[0]
            known = [value for value in fixed.values() if value == value]
            best = min(known) if known else float("nan")
            extra = f"{races[0]['kimg']:>7.4g}  {races[0]['winner']}" if races else ""
            lines.append(f"{set_:<9}{metric:<10}" + "".join(f"{value:>9.4g}" for value in fixed.values()) +
                         f"{tuned:>9.4g}{tuned / best - 1:>+9.1%}{extra}")
    return lines


def table_c(results):
    lines = ["c  equal seconds of training", f"{'set':<9}{'preset':<16}{'kimg':>7}" +
             "".join(f"{metric:>10}" for metric in METRICS) + "  threads, seconds"]
    for set_ in DATA_OF_C:
        for preset in PRESETS:
            for entry in results.of("c", set=set_, arm=preset):
                lines.append(f"{set_:<9}{preset:<16}{entry['kimg']:>7.4g}" +
                             "".join(f"{entry['values'][metric]:>10.4g}" for metric in METRICS) +
                             f"  {entry['threads']}, {entry['seconds']}")
    return lines


def print_tables(results, parts):
    for part, table in (("a", table_a), ("b", table_b), ("c", table_c)):
        if part in parts.split(","):
            print("\n".join(table(results)) + "\n", flush=True)


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--gantrain", default="build/gantrain", help="the program, or a command that ends with it")
    add("--sets", type=pathlib.Path, required=True, help="what sets.py made")
    add("--features", type=pathlib.Path, required=True, help="weights of EfficientNet-Lite0 (gantrain features)")
    add("--out", type=pathlib.Path, required=True, help="for results.jsonl, runs, grids, the models to begin at")
    add("--part", default="a,b,c")
    add("--only", default="", help="jobs whose names have this text: a/gnome")
    add("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=list(SEEDS))
    add("--device", default="cpu", help="of parts a and b, and of what measures")
    add("--device-c", default="cpu", help="of what part c trains")
    add("--jobs", type=int, default=os.cpu_count(), help="runs at a time, a thread each")
    add("--minutes", type=float, help="then what runs saves and ends; the same command goes on")
    add("--kimg", type=float, default=20, help="of a run of parts a and b")
    add("--start-kimg", type=float, default=100, help="of a model to begin at")
    add("--seconds", type=int, default=600, help="of a run of part c")
    add("--kimg-c", type=lambda text: dict(part.split("=") for part in text.split(",")), default={},
        help="lengths of part c in place of seconds, for busy cores: PRESET=KIMG,PRESET=KIMG")
    add("--threads-c", type=int, default=2)
    add("--images", type=int, default=1000, help="generated pictures that are measured")
    add("--by", default=METRICS[0], help="the metric by which finetune and tune choose; swd is faster on a CPU")
    add("--run-images", type=int, default=512, help="those that a run measures while it trains")
    add("--table", action="store_true", help="only print the tables")
    return parser.parse_args()


def main():
    args = parsed()
    args.out.mkdir(parents=True, exist_ok=True)
    hold_settings(args)
    experiment = Experiment(args)
    if not args.table:
        jobs = experiment.jobs()
        say(f"{len(jobs)} runs to do, {len(experiment.results.entries)} done")
        with experiment.programs.watched():
            run_all(experiment, jobs, args.jobs)
    print_tables(experiment.results, args.part)
    if not experiment.jobs():
        return 0
    return 75 if experiment.programs.over() else 1


if __name__ == "__main__":
    sys.exit(main())
