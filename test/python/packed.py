# SPDX-License-Identifier: Apache-2.0
"""Reads packed data as StyleGAN's tools do, with zipfile and Pillow.

packed.py make FOLDER         writes pictures of three classes, two of them broken
packed.py many FILE.zip       writes 66000 tiny pictures without labels
packed.py check FILE.zip|FOLDER COUNT WIDTH HEIGHT CLASSES
                              checks the layout; exit code 1 with the reason where it is another
"""

import io
import json
import os
import pathlib
import sys
import zipfile

try:
    import numpy
    from PIL import Image
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)


def make(folder):
    random = numpy.random.RandomState(0)
    for number in range(30):
        kind = ["cat", "dog", "owl"][number % 3]
        (folder / kind).mkdir(parents=True, exist_ok=True)
        width, height = 40 + number, 90 - number
        pixels = random.randint(0, 256, (height, width, 3), numpy.uint8)
        mode = ["RGB", "L", "P", "RGBA", "CMYK"][number % 5]
        ending = "jpg" if mode == "CMYK" else "png"
        Image.fromarray(pixels).convert(mode).save(folder / kind / f"{number:03}.{ending}")
    (folder / "cat" / "text.png").write_text("no picture")
    whole = (folder / "dog" / "001.png").read_bytes()
    (folder / "dog" / "cut.png").write_bytes(whole[: len(whole) // 2])


def many(path):
    files = []
    for color in range(16):
        file = io.BytesIO()
        Image.new("RGB", (4, 4), (color * 16, 0, 255)).save(file, "PNG")
        files.append(file.getvalue())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for number in range(66000):
            archive.writestr(f"{number:06}.png", files[number % 16])


class Packed:
    """Files by name, of a zip or a folder, in the order in which they lie there."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path) if path.is_file() else None
        self.path = path

    def names(self):
        if self.archive:
            return self.archive.namelist()
        found = []
        for folder, _, files in os.walk(self.path):
            found += [os.path.relpath(os.path.join(folder, name), self.path) for name in files]
        return sorted(found)

    def read(self, name):
        return self.archive.read(name) if self.archive else (self.path / name).read_bytes()


def check(path, count, width, height, classes):
    packed = Packed(path)
    names = packed.names()
    assert len(names) == count + 1, f"{len(names)} files"
    assert names[-1] == "dataset.json", f"last is {names[-1]}"
    if packed.archive:
        assert packed.archive.testzip() is None, "a checksum is wrong"
        assert all(entry.compress_type == zipfile.ZIP_STORED for entry in packed.archive.infolist())
    modes = set()
    for number, name in enumerate(names[:-1]):
        digits = f"{number:08}"
        assert name == f"{digits[:5]}/img{digits}.png", name
        if number % max(1, count // 1000) == 0:
            image = Image.open(io.BytesIO(packed.read(name)))
            image.load()
            assert image.size == (width, height), f"{name}: {image.size}"
            assert image.format == "PNG", name
            modes.add(image.mode)
    assert len(modes) == 1 and modes <= {"L", "RGB"}, f"modes {modes}"
    labels = json.loads(packed.read("dataset.json"))["labels"]
    if classes == 0:
        assert labels is None, "labels where there are none"
    else:
        assert [name for name, _ in labels] == names[:-1], "labels of other names"
        assert {label for _, label in labels} == set(range(classes)), "other classes"
    print(f"{path}: {count} pictures as they should be")


if __name__ == "__main__":
    place = pathlib.Path(sys.argv[2])
    if sys.argv[1] == "make":
        make(place)
    elif sys.argv[1] == "many":
        many(place)
    else:
        check(place, *[int(number) for number in sys.argv[3:]])
