# SPDX-License-Identifier: Apache-2.0
"""Pillow with a folder or with zipfile: seconds of reading all pictures as arrays [C, H, W].

    python scripts/peers/pictures.py FOLDER_OR_ZIP --resolution 256

One thread. Prints one JSON line.
"""
import argparse
import io
import json
import os
import time
import zipfile

import numpy
import PIL
import PIL.Image


def pictures(path):
    """Yields the bytes of each picture."""
    if os.path.isdir(path):
        for name in sorted(os.listdir(path)):
            with open(os.path.join(path, name), "rb") as file:
                yield file.read()
    else:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                with archive.open(name) as file:
                    yield file.read()


def load(content, resolution):
    image = PIL.Image.open(io.BytesIO(content)).convert("RGB")
    if image.size != (resolution, resolution):
        image = image.resize((resolution, resolution), PIL.Image.Resampling.LANCZOS)
    return numpy.ascontiguousarray(numpy.array(image).transpose(2, 0, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path")
    parser.add_argument("--resolution", type=int, default=256)
    args = parser.parse_args()
    for warm in (True, False):
        start = time.monotonic()
        count = sum(load(content, args.resolution).shape[0] == 3 for content in pictures(args.path))
        if not warm:
            print(json.dumps({"pillow": PIL.__version__, "pictures": count,
                              "seconds": time.monotonic() - start}))


if __name__ == "__main__":
    main()
