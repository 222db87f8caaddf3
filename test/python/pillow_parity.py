# SPDX-License-Identifier: Apache-2.0
"""`data pack` with every --fit and --filter against Pillow's crop, paste and resize.

pillow_parity.py GANTRAIN FOLDER: at least 99 % of each picture's values are within 1 level of Pillow's.
"""

import io
import pathlib
import subprocess
import sys
import zipfile

import numpy
from PIL import Image

from mixed_pictures import photograph

GANTRAIN, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
FILTERS = {
    "lanczos": Image.Resampling.LANCZOS,
    "bicubic": Image.Resampling.BICUBIC,
    "bilinear": Image.Resampling.BILINEAR,
    "box": Image.Resampling.BOX,
}
# Larger and smaller than the results, odd, equal to one of them, one pixel wide or high.
SIZES = [(256, 192), (97, 131), (40, 24), (300, 31), (1, 50), (60, 1), (1, 1)]
RESULTS = ["64", "50x33"]
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def pictures(channels):
    """Photographs and white noise, which no filter smooths away."""
    random = numpy.random.default_rng(channels)
    for i, size in enumerate(SIZES):
        for kind in ("photograph", "noise"):
            if kind == "photograph":
                values = photograph(random, size, channels)
            else:
                values = random.integers(0, 256, (size[1], size[0], channels), dtype=numpy.uint8)
            yield f"{i} {kind}.png", Image.fromarray(values.squeeze(2) if channels == 1 else values, MODES[channels])


def rounded(number):
    return int(number + 0.5)


def cropped(image, size, resample):
    """The largest part of the result's proportions, in the middle."""
    ratio = size[0] / size[1]
    width, height = image.size
    if width * size[1] >= height * size[0]:
        width = min(max(rounded(height * ratio), 1), width)
    else:
        height = min(max(rounded(width / ratio), 1), height)
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return image.crop((left, top, left + width, top + height)).resize(size, resample)


def padded(image, size, resample):
    """The whole picture on white, or on nothing where there is alpha."""
    scale = min(size[0] / image.width, size[1] / image.height)
    inner = tuple(min(max(rounded(scale * side), 1), most) for side, most in zip(image.size, size))
    background = {"L": 255, "RGB": (255, 255, 255), "RGBA": (255, 255, 255, 0)}[image.mode]
    canvas = Image.new(image.mode, size, background)
    canvas.paste(image.resize(inner, resample), ((size[0] - inner[0]) // 2, (size[1] - inner[1]) // 2))
    return canvas


FITS = {"crop": cropped, "pad": padded, "stretch": lambda image, size, resample: image.resize(size, resample)}


def pack(folder, channels, result, fit, resample):
    out = ROOT / f"{channels}-{result}-{fit}-{resample}.zip"
    command = [GANTRAIN, "data", "pack", folder, "-o", out, "--resolution", result, "--fit", fit]
    command += ["--filter", resample, "--channels", str(channels)]
    subprocess.run(command, check=True, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    with zipfile.ZipFile(out) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".png"))
        return [numpy.asarray(Image.open(io.BytesIO(archive.read(name)))).astype(int) for name in names]


def main():
    worst = 1.0
    for channels in MODES:
        files = sorted(pictures(channels), key=lambda file: file[0])
        folder = ROOT / f"pictures{channels}"
        folder.mkdir()
        for name, image in files:
            image.save(folder / name)
        for result in RESULTS:
            size = tuple(map(int, result.split("x") if "x" in result else (result, result)))
            for fit, fitted in FITS.items():
                for resample, constant in FILTERS.items():
                    got = pack(folder, channels, result, fit, resample)
                    assert len(got) == len(files)
                    for (name, image), ours in zip(files, got):
                        theirs = numpy.asarray(fitted(image, size, constant)).astype(int)
                        assert ours.shape == theirs.shape, f"{name}: {ours.shape}, Pillow {theirs.shape}"
                        share = (abs(ours - theirs) <= 1).mean()
                        worst = min(worst, share)
                        what = f"{image.mode} {image.size} {name} to {result}, {fit}, {resample}"
                        assert share >= 0.99, f"{what}: {share:.2%} of the values within 1 of Pillow's"
    print(f"at least {worst:.2%} of each picture's values are within 1 of Pillow's")


main()
