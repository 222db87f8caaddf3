# SPDX-License-Identifier: Apache-2.0
"""States that were damaged: none is loaded, none crashes the program, and the one before it takes
its place."""
import os
import shutil
import zipfile

from kills import last_lines, remove
from runs import PRESETS, Shape, states, weights_of

SHAPES = [Shape(preset) for preset in PRESETS] + [Shape("dcgan-tiny", 2)]


def cut(path, random, _):
    os.truncate(path, random.randrange(path.stat().st_size))


def flipped(path, random, _):
    with open(path, "r+b") as file:
        file.seek(random.randrange(path.stat().st_size))
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1 << random.randrange(8)]))


def blanked(path, random, _):
    """A range of zeros, as a file system leaves behind that wrote no data after a power failure."""
    size = path.stat().st_size
    start = random.randrange(size)
    with open(path, "r+b") as file:
        file.seek(start)
        before = file.read(random.randrange(1, 70000))
        file.seek(start)
        file.write(bytes(len(before)))
    return any(before)  # else nothing has changed


def swapped(path, random, other):
    """Two blocks of the file, or a block of the state before it."""
    content = bytearray(path.read_bytes())
    source = bytearray(other.read_bytes()) if random.random() < 0.5 else content
    length = random.randrange(16, 4096)
    to, of = (random.randrange(len(content) - length), random.randrange(len(source) - length))
    moved = bytes(source[of:of + length])
    if moved == content[to:to + length]:
        return False
    content[to:to + length] = moved
    path.write_bytes(content)
    return True


def grown(path, random, _):
    with open(path, "ab") as file:
        file.write(random.randbytes(random.randrange(1, 5000)))


def rewritten(path, random, _):
    """A record is shorter or longer than its tensor, and the archive's own checksums are right."""
    with zipfile.ZipFile(path) as old:
        entries = [(entry, old.read(entry)) for entry in old.infolist()]
    tensors = [i for i, (entry, data) in enumerate(entries)
               if "/data/" in entry.filename and len(data) >= 8]
    chosen = random.choice(tensors)
    with zipfile.ZipFile(path, "w") as new:
        for i, (entry, data) in enumerate(entries):
            if i == chosen:
                data = data[:len(data) // 2] if random.random() < 0.5 else data + data
            new.writestr(entry.filename, data)


def emptied(path, _, __):
    os.truncate(path, 0)


def made_a_folder(path, _, __):
    path.unlink()
    path.mkdir()


def made_a_pipe(path, _, __):
    path.unlink()
    os.mkfifo(path)


def made_a_link(path, _, __):
    path.unlink()
    path.symlink_to(path.name)  # to itself


DAMAGES = [cut, flipped, blanked, swapped, grown, rewritten] * 4 + [
    emptied, made_a_folder, made_a_pipe, made_a_link]


class Damage:
    def __init__(self, lab):
        self.lab = lab
        self.stopped = {}

    def stopped_run(self, shape):
        """A run folder that stands in the middle of the training, with several states."""
        if shape not in self.stopped:
            folder = self.lab.new_folder("stopped")
            kimg = str(PRESETS[shape.preset] * 0.7)
            end = self.lab.train(shape, folder, ("--kimg", kimg, "--keep-last", "3"))
            if end.codes != [0] or len(states(folder)) < 2:
                raise RuntimeError(f"{shape}: no states to damage:\n{end.text}")
            self.stopped[shape] = folder
        return self.stopped[shape]

    def round(self, shape, random):
        """What was not right: nothing, or one line."""
        folder = self.lab.new_folder("damaged")
        shutil.copytree(self.stopped_run(shape), folder, symlinks=True)
        newest, other = states(folder)[-1], states(folder)[-2]
        damage = random.choice(DAMAGES)
        if damage(newest, random, other) is False:
            remove(folder)
            return []  # the file is as it was
        run = self.lab.start(shape, folder)
        end = run.wait(60)
        what = f"{shape}, {damage.__name__}, {folder.name}"
        if end.codes != [0] or end.left:
            return [f"{what}: ended with {end.codes}, left {end.left}: {last_lines(end.text)}"]
        if newest.name not in end.text or "trying the one before it" not in end.text:
            return [f"{what}: the damaged state is not named"]
        if f"({newest.name})" in end.text or weights_of(folder) != self.lab.undisturbed(shape)[0]:
            return [f"{what}: the damaged state was loaded"]
        remove(folder)
        return []
