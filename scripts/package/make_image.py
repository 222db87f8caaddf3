# SPDX-License-Identifier: Apache-2.0
"""Writes an image as one OCI archive, which needs no container program: make_image.py FILE VERSION LAYER...

Each LAYER is a folder that becomes a layer over those before it. podman, skopeo, enroot and apptainer read the
archive, and `docker load`, too, by its manifest.json. The same folders give the same bytes: members are sorted, belong
to root and have the time SOURCE_DATE_EPOCH.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import sys
import tarfile
import tempfile
import time

EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
CONFIG = {
    "Entrypoint": ["/usr/bin/gantrain"],
    "Env": [
        "PATH=/usr/bin:/bin",
        "HOME=/runs",
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    ],
    "WorkingDir": "/runs",
}


class HashedFile:
    """A file that is written to, with the SHA-256 and the number of the bytes that passed."""

    def __init__(self, file):
        self.file = file
        self.hash = hashlib.sha256()
        self.size = 0

    def write(self, data):
        self.hash.update(data)
        self.size += len(data)
        return self.file.write(data)

    def flush(self):
        self.file.flush()

    def digest(self):
        return "sha256:" + self.hash.hexdigest()


def plain(member):
    """The entry of a tar archive without what differs between machines."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = EPOCH
    return member


def add_folder(archive, folder):
    for path in sorted(folder.rglob("*")):
        archive.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=plain)


def write_layer(folder, file):
    """Compresses the folder into the file; returns what the manifest and the configuration say of it."""
    packed = HashedFile(file)
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, compresslevel=6, mtime=0) as compressed:
        inside = HashedFile(compressed)
        with tarfile.open(fileobj=inside, mode="w|", format=tarfile.PAX_FORMAT, bufsize=1 << 20) as archive:
            add_folder(archive, folder)
    descriptor = {
        "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
        "digest": packed.digest(),
        "size": packed.size,
    }
    return descriptor, inside.digest()


class Archive:
    """The image layout of the OCI in a tar archive: blobs under their hashes, an index that names the first."""

    def __init__(self, path):
        self.tar = tarfile.open(path, "w", format=tarfile.PAX_FORMAT)

    def add_file(self, name, file, size):
        member = plain(tarfile.TarInfo(name))
        member.size = size
        member.mode = 0o644
        self.tar.addfile(member, file)

    def add_bytes(self, name, content):
        self.add_file(name, io.BytesIO(content), len(content))

    def add_json(self, media_type, value):
        content = json.dumps(value, indent=1, sort_keys=True).encode()
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        self.add_bytes(blob(digest), content)
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def add_layer(self, folder):
        with tempfile.TemporaryFile(dir=folder.parent) as file:
            descriptor, inside = write_layer(folder, file)
            file.seek(0)
            self.add_file(blob(descriptor["digest"]), file, descriptor["size"])
        return descriptor, inside


def blob(digest):
    return "blobs/" + digest.replace(":", "/")


def image_config(version, layers):
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(EPOCH))
    labels = {
        "org.opencontainers.image.title": "gantrain",
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    return {
        "created": created,
        "architecture": "amd64",
        "os": "linux",
        "config": {**CONFIG, "Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [inside for _, inside in layers]},
        "history": [{"created": created, "created_by": "scripts/package.sh image"} for _ in layers],
    }


def write_image(path, version, folders):
    archive = Archive(path)
    archive.add_bytes("oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    layers = [archive.add_layer(folder) for folder in folders]
    config = archive.add_json("application/vnd.oci.image.config.v1+json", image_config(version, layers))
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    manifest = archive.add_json(
        manifest_type,
        {"schemaVersion": 2, "mediaType": manifest_type, "config": config, "layers": [layer for layer, _ in layers]},
    )
    name = f"localhost/gantrain:{version}"
    # podman load takes the whole name from the first, containerd from the second.
    manifest["annotations"] = {"org.opencontainers.image.ref.name": name, "io.containerd.image.name": name}
    index = {"schemaVersion": 2, "manifests": [manifest]}
    archive.add_bytes("index.json", json.dumps(index, indent=1, sort_keys=True).encode())
    docker = {
        "Config": blob(config["digest"]),
        "RepoTags": [name],
        "Layers": [blob(layer["digest"]) for layer, _ in layers],
    }
    archive.add_bytes("manifest.json", json.dumps([docker], indent=1, sort_keys=True).encode())
    archive.tar.close()


def main():
    path, version, *folders = sys.argv[1:]
    path = pathlib.Path(path)
    part = path.with_name("." + path.name + ".part")
    write_image(part, version, [pathlib.Path(folder) for folder in folders])
    part.replace(path)  # only a whole image has the name of one
    print(path)


if __name__ == "__main__":
    main()
