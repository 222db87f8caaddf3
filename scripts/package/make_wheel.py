# SPDX-License-Identifier: Apache-2.0
"""Writes a wheel of a prepared folder: make_wheel.py STAGE OUT VERSION GLIBC README

STAGE holds gantrain/ (the package), share/ (what goes into the environment's share) and licenses/.
GLIBC is the oldest C library that the programs run with, as 2.34. The same files give the same bytes:
members are sorted and have the time SOURCE_DATE_EPOCH.
"""

import base64
import hashlib
import os
import pathlib
import sys
import time
import zipfile

METADATA = """\
Metadata-Version: 2.1
Name: gantrain
Version: {version}
Summary: Trains GANs on one to many devices
License: Apache-2.0
Classifier: Environment :: Console
Classifier: Environment :: GPU :: NVIDIA CUDA :: 13
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.10
Requires-Dist: torch==2.11.0
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: gantrain package.sh
Root-Is-Purelib: false
Tag: {tag}
"""

ENTRY_POINTS = """\
[console_scripts]
gantrain = gantrain.__main__:main
"""


def staged_files(stage, info, data):
    """Returns (name in the wheel, path) of every file of the prepared folder."""
    places = {"gantrain": "gantrain", "share": f"{data}/data/share", "licenses": f"{info}/licenses"}
    files = []
    for folder, place in places.items():
        for path in sorted((stage / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                files.append((f"{place}/{path.relative_to(stage / folder)}", path))
    return files


class Wheel:
    """A wheel being written; every member is noted for RECORD."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w")
        epoch = max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800)  # zip begins with 1980
        self.time = time.gmtime(epoch)[:6]
        self.record = []

    def add(self, name, content, executable=False):
        member = zipfile.ZipInfo(name, self.time)
        member.compress_type = zipfile.ZIP_DEFLATED
        member.create_system = 3  # Unix: the mode counts
        member.external_attr = (0o100755 if executable else 0o100644) << 16
        self.archive.writestr(member, content, compresslevel=9)  # a ZipInfo has no other say
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self, info):
        name = f"{info}/RECORD"
        self.add(name, "".join(f"{line}\n" for line in [*self.record, f"{name},,"]).encode())
        self.archive.close()


def main():
    stage, out, version, glibc, readme = sys.argv[1:]
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    info = f"gantrain-{version}.dist-info"
    path = pathlib.Path(out) / f"gantrain-{version}-{tag}.whl"
    part = path.with_suffix(".part")
    wheel = Wheel(part)
    for name, file in staged_files(pathlib.Path(stage), info, f"gantrain-{version}.data"):
        wheel.add(name, file.read_bytes(), os.access(file, os.X_OK))
    text = pathlib.Path(readme).read_text(encoding="utf-8")
    wheel.add(f"{info}/METADATA", METADATA.format(version=version, readme=text).encode())
    wheel.add(f"{info}/WHEEL", WHEEL.format(tag=tag).encode())
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    wheel.close(info)
    part.replace(path)  # only a whole wheel has the name of one
    print(path)


if __name__ == "__main__":
    main()
