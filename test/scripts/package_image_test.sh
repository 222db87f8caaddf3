#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The image: a whole OCI archive, the same bytes twice. Unpacked, as root, it trains and draws as a user that it does not
# know, with a read-only root, 64 MB of /dev/shm or none, and a home folder that cannot be written.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
. "$(dirname "${BASH_SOURCE[0]}")/debian_root.sh"
[ -e "${1:-}" ] || skip "the program was not built"
build=$(dirname "$(realpath "$1")")
[ -e "$build/libgantrain_trainer.so" ] || skip "the trainer library was not built"
command -v patchelf >/dev/null || skip "no patchelf"

# --- the same bytes from the same folders
mkdir -p "$tmp/layer/a" "$tmp/packages"
echo text >"$tmp/layer/a/file"
ln -s a/file "$tmp/layer/link"
write() { SOURCE_DATE_EPOCH=1767225600 python3 "$root/scripts/package/make_image.py" "$tmp/$1" 1.2.3 "$tmp/layer" >/dev/null; }
write one.tar
sleep 1
touch "$tmp/layer/a/file"
write two.tar
cmp "$tmp/one.tar" "$tmp/two.tar"

image=$("$root/scripts/package.sh" image --build "$build" -o "$tmp/packages" | tail -n 1)
expect "one file" "gantrain-$("$1" --version | cut -d' ' -f2)-image.tar" "$(ls -A "$tmp/packages")"
expect "at most 170 MB" yes "$( (($(stat -c %s "$image") <= 170000000)) && echo yes)"
mkdir "$tmp/archive" "$tmp/image"
tar -C "$tmp/archive" -xf "$image"
python3 - "$tmp/archive" >"$tmp/layers" <<'PY'
import gzip, hashlib, json, pathlib, sys

folder = pathlib.Path(sys.argv[1])
def content(descriptor):
    data = (folder / "blobs" / descriptor["digest"].replace(":", "/")).read_bytes()
    assert descriptor["digest"] == "sha256:" + hashlib.sha256(data).hexdigest() and descriptor["size"] == len(data)
    return data
index = json.loads((folder / "index.json").read_bytes())
manifest = json.loads(content(index["manifests"][0]))
config = json.loads(content(manifest["config"]))
assert config["config"]["Entrypoint"] == ["/usr/bin/gantrain"] and config["config"]["WorkingDir"] == "/runs"
names = [layer["digest"].replace(":", "/") for layer in manifest["layers"]]
for layer, inside in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
    assert inside == "sha256:" + hashlib.sha256(gzip.decompress(content(layer))).hexdigest()
docker = json.loads((folder / "manifest.json").read_bytes())[0]
assert docker["Layers"] == ["blobs/" + name for name in names]
print(*names, sep="\n")
PY
while read -r layer; do tar -C "$tmp/image" -xzf "$tmp/archive/blobs/$layer"; done <"$tmp/layers"
rm -r "$tmp/archive" "$image"
for name in LICENSE dash.txt libarchive.txt libc6.txt; do
  expect "it has $name" "$name" "$(cd "$tmp/image/usr/share/doc/gantrain" && echo $name*)"
done

if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
  skip "the image was checked; running it takes root and a mount namespace"
fi
{ echo "$OVER"; cat <<'END'; } >"$tmp/run.sh"
set -euo pipefail
new=$1/image
mount --bind "$new" "$new"
mount -t proc proc "$new/proc"
mount -t tmpfs -o mode=1777 none "$new/runs"
devices "$new"
mount -o remount,bind,ro "$new"
! touch "$new/usr/written" 2>/dev/null
run() { as_user "$new" 12345 /etc sh -c 'cd /runs && exec "$@"' sh "$@"; }
run gantrain --smoke
umount "$new/dev/shm"
mount -o remount,ro "$new/dev"
run gantrain generate --model runs/latest --seeds 0-3 -o grid.png
run gantrain --preset dcgan-tiny --nproc 2 --kimg 0.1 --run-dir without_shm --set train.batch=16
END
code=0
unshare -m bash "$tmp/run.sh" "$tmp" >"$tmp/said" 2>&1 || code=$?
expect "it trains and draws as any user" "0" "$code$([ "$code" = 0 ] || cat "$tmp/said")"
mkdir "$tmp/here"
(cd "$tmp/here" && "$1" --smoke) >"$tmp/own" 2>&1
expect "with the weights that the build ends with" "$(smoke_digest "$tmp/own")" "$(smoke_digest "$tmp/said")"
