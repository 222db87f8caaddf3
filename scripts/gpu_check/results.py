# SPDX-License-Identifier: Apache-2.0
"""What results.jsonl of gpu_check.sh says:  results.py COMMAND FILE ...

finished FILE PART STEP   exit 0 if a former call ended the step with nothing skipped
value FILE NAME           the number of the last figure of that name
show FILE JSON            prints the table, writes JSON; exit 1: something failed, 75: not finished

A step that begins again takes back its former rows, so a table has each check once. A line that was
cut off (its machine went away) is passed over.
"""

import json
import os
import sys

VERDICTS = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped", "FIGURE": "figures", "LATE": "not finished"}


def lines_of(path):
    """Returns the file's JSON objects."""
    found = []
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                found.append(entry)
    return found


def read(path):
    """Returns (calls, {(part, step): {"rows", "finished"}}) in the order in which steps first began."""
    calls, steps = [], {}
    for entry in lines_of(path):
        if "call" in entry:
            calls.append(entry["call"])
            continue
        step = steps.setdefault((entry.get("part"), entry.get("step")), {"rows": [], "finished": False})
        if entry.get("begun"):
            step.update(rows=[], finished=False)
        elif entry.get("finished"):
            step["finished"] = True
        elif "check" in entry:
            step["rows"].append(entry)
    return calls, steps


def all_rows(steps):
    """Returns the rows of all steps; one that was not ended, for which nothing was skipped, has LATE."""
    rows = []
    for (part, name), step in steps.items():
        rows += step["rows"]
        if not step["finished"] and not any(row["verdict"] == "SKIP" for row in step["rows"]):
            rows.append({"part": part, "step": name, "check": name, "verdict": "LATE", "seconds": 0,
                         "text": "not finished: the same command goes on"})
    return rows


def show(path, json_path):
    """Prints the table and writes the JSON; returns the exit code."""
    calls, steps = read(path)
    rows = all_rows(steps)
    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}
    form = "%-7s %-46s %-7s %7s  %s"
    print(form % ("part", "check", "verdict", "seconds", "what"))
    for row in rows:
        print(form % (row["part"], row["check"], row["verdict"], row["seconds"], row["text"]))
    last = calls[-1] if calls else {}
    print("\nGPU %s, driver %s, commit %s" % tuple(last.get(key, "unknown") for key in ("gpu", "driver", "commit")))
    print(", ".join("%d %s" % (count[verdict], word) for verdict, word in VERDICTS.items()))
    seconds = sum(row["seconds"] for row in rows)
    with open(json_path + ".new", "w", encoding="utf-8") as file:
        json.dump({**last, "seconds": seconds, "failed": count["FAIL"], "unfinished": count["LATE"], "calls": len(calls),
                   "checks": rows}, file, indent=1)
    os.replace(json_path + ".new", json_path)
    return 1 if count["FAIL"] else 75 if count["LATE"] else 0


def main():
    """Returns the exit code."""
    command, path, *rest = sys.argv[1:]
    if command == "show":
        return show(path, *rest)
    _, steps = read(path)
    if command == "finished":
        return not steps.get(tuple(rest), {}).get("finished", False)
    values = [row["value"] for row in all_rows(steps) if row["check"] == rest[0] and "value" in row]
    if values:
        print(values[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
