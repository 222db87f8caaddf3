# SPDX-License-Identifier: Apache-2.0
"""Mixed pictures, ten broken files among them, through `data inspect`, `data pack` and training.

mixed_data.py GANTRAIN FOLDER [MEGABYTES]    (6; the acceptance test takes 200)
"""

import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import numpy
from PIL import Image

from mixed_pictures import FORMS, broken_pictures, mixed_pictures

GANTRAIN, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
MEGABYTES = int(sys.argv[3]) if len(sys.argv) > 3 else 6
# What broken files may cost beside the memory of the good ones: their headers promise up to 2.7 GB.
MOST_MORE_MB = 150
RESOLUTION = 32


def run(*arguments, code=0):
    """Runs gantrain: standard output, standard error, and the most memory of one of its processes in MB."""
    with open(ROOT / "out", "w+b") as out, open(ROOT / "err", "w+b") as err:
        process = subprocess.Popen([GANTRAIN, *map(str, arguments)], stdout=out, stderr=err, stdin=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = [(stream.seek(0), stream.read().decode())[1] for stream in (out, err)]
    assert process.returncode == code, f"{arguments}: exit code {process.returncode}\n{texts[1]}"
    return *texts, usage.ru_maxrss / 1024


def last_json(text):
    return json.loads(text.strip().splitlines()[-1])


def write_folder(path, files):
    for name, content in files:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def write_zip(path, files):
    with zipfile.ZipFile(path, "w") as archive:
        for i, (name, content) in enumerate(files):
            archive.writestr(name, content, zipfile.ZIP_DEFLATED if i % 2 else zipfile.ZIP_STORED)
    return path


def write_tar(path, files):
    with tarfile.open(path, "w") as archive:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def mixed_files():
    """Good pictures of MEGABYTES in all."""
    files, size, seed = [], 0, 0
    while size < MEGABYTES * 1_000_000:
        for name, content, _ in mixed_pictures(2 * len(FORMS), seed):
            files.append((name.replace(".", f" {seed}.", 1), content))
            size += len(content)
        seed += 1
    return files


def check_named(broken, text, what):
    missing = [name for name in broken if name not in text]
    assert not missing, f"{what} does not name {missing}:\n{text}"


def check_data_set(kind, path, good, broken, clean_memory):
    """Inspects, packs and trains on one form of the data; the pixels that were packed."""
    out, _, memory = run("data", "inspect", path, "--json")
    seen = last_json(out)
    check_named(broken, "\n".join(entry["file"] for entry in seen["bad"]), f"inspect of the {kind}")
    assert len(seen["bad"]) == len(broken), seen["bad"]
    assert seen["pictures"] == len(good), f"{seen['pictures']} of {len(good)} pictures"
    assert sorted(c["name"] for c in seen["classes"]) == sorted({name.split("/")[0] for name, _ in good})
    assert memory < clean_memory + MOST_MORE_MB, f"{kind}: {memory:.0f} MB, {clean_memory:.0f} MB without broken files"

    packed = ROOT / f"packed-{kind}.zip"
    out, _, memory = run("data", "pack", path, "-o", packed, "--resolution", RESOLUTION, "--json")
    assert last_json(out)["pictures"] == len(good)
    check_named(broken, pathlib.Path(f"{packed}.bad.txt").read_text(), f"pack of the {kind}")
    assert memory < clean_memory + MOST_MORE_MB, f"{kind}: packing took {memory:.0f} MB"

    train = ["--preset", "dcgan-tiny", "--data", path, "--nproc", 1, "--device", "cpu", "--threads", 1]
    train += ["--set", f"data.resolution={RESOLUTION}", "--set", "data.verify=all", "--kimg", "0.2", "--batch", 32]
    _, err, _ = run(*train, "--set", "data.on_bad=skip", "--run-dir", ROOT / f"run-{kind}")
    check_named(broken, err + (ROOT / f"run-{kind}" / "log.txt").read_text(), f"training on the {kind}")
    _, err, _ = run(*train, "--run-dir", ROOT / f"refused-{kind}", code=3)
    assert any(name in err for name in broken), err
    print(f"{kind}: {len(good)} pictures packed and trained on, {len(broken)} broken ones named")
    with zipfile.ZipFile(packed) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".png"))
        return [archive.read(name) for name in names]


def bomb():
    """A zip entry of 300 MB that takes 300 KB."""
    path = ROOT / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a/bomb.png", "w") as entry:
            for _ in range(300):
                entry.write(bytes(1_000_000))
        for name, content, _ in mixed_pictures(4, 99):
            archive.writestr(name, content)
    return path


def check_bomb(clean_memory):
    out, _, memory = run("data", "inspect", bomb(), "--json")
    check_named(["bomb.png"], json.dumps(last_json(out)["bad"]), "inspect of the bomb")
    assert memory < clean_memory + MOST_MORE_MB, f"a zip bomb took {memory:.0f} MB"


def over_white(pixels):
    alpha = pixels[..., 3:].astype(float) / 255
    return (pixels[..., :3] * alpha + 255 * (1 - alpha)).round()


def check_pixels(channels):
    """Pictures that have the wanted size already are packed as Pillow reads them."""
    files = list(mixed_pictures(2 * len(FORMS), 5, size=(64, 48)))
    path = write_folder(ROOT / f"exact{channels}", [(name, content) for name, content, _ in files])
    packed = ROOT / f"exact{channels}.zip"
    run("data", "pack", path, "-o", packed, "--resolution", "64x48", "--channels", channels)
    worst = {}
    with zipfile.ZipFile(packed) as archive:
        for i, (name, _, pixels) in enumerate(sorted(files, key=lambda file: file[0].encode())):
            got = numpy.asarray(Image.open(io.BytesIO(archive.read(f"00000/img{i:08d}.png")))).astype(int)
            wanted = over_white(pixels) if channels == 3 else pixels
            form = name.rsplit(".", 1)[0].split(" ")[-1]
            worst[form] = max(worst.get(form, 0), int(abs(got - wanted).max()))
    allowed = {form: tolerance for form, (_, _, tolerance) in FORMS.items()}
    more = 1 if channels == 3 else 0  # rounding of what is laid over white
    too_much = {form: worst[form] for form in worst if worst[form] > allowed[form] + more}
    assert not too_much, f"differs from Pillow by {too_much}"
    print(f"{channels} channels: as Pillow reads them, at most {max(worst.values())} apart")


def main():
    good, broken = mixed_files(), broken_pictures()
    assert len(broken) == 10
    size = sum(len(content) for _, content in good) / 1e6
    print(f"{len(good)} pictures of {len(FORMS)} forms, {size:.1f} MB")
    clean = write_folder(ROOT / "clean", good)
    _, _, clean_memory = run("data", "inspect", clean, "--json")
    check_bomb(clean_memory)
    everything = good + list(broken.items())
    forms = {
        "folder": write_folder(ROOT / "folder", everything),
        "zip": write_zip(ROOT / "mixed.zip", everything),
        "tar": write_tar(ROOT / "mixed.tar", everything),
    }
    packed = [check_data_set(kind, path, good, broken, clean_memory) for kind, path in forms.items()]
    assert packed[0] == packed[1] == packed[2], "folder, zip and tar are packed to different pictures"
    for channels in (3, 4):
        check_pixels(channels)


main()
