#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Folders for and from the Hugging Face Hub, read by huggingface_hub, without a network.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain=$(realpath "${1:-$root/build/gantrain}")
[ -x "$gantrain" ] || skip "no $gantrain: scripts/build.sh"
quickly "$gantrain"
gantrain=$quick
cd "$tmp"
python=${GANTRAIN_PYTHON:-python3}
why=
"$python" -c 'import sys; sys.modules["hf_xet"] = None; import huggingface_hub, yaml' 2>/dev/null || why="$python has no huggingface_hub"
read_folder() { [ -n "$why" ] || HF_HUB_OFFLINE=1 HF_HOME=$tmp/home "$python" "$root/test/python/hub_folder.py" "$@"; }

# A run whose data and metrics have names that no YAML would take as they are.
"$gantrain" -q --preset dcgan-tiny --resolution 16 --nproc 1 --device cpu --threads 1 --kimg 0.1 --metrics none --run-dir run
models=(run/model-*.safetensors)
model=$(basename "${models[-1]}")
sed -i "s|\"value\":\"synth:shapes\"|\"value\":\"/home/me/yes: 'my' \\\\\"cats\\\\\" # \\\\u0007\\\\ufeff.zip\"|; s|\"value\": \"synth:shapes\"|\"value\": \"/home/me/yes: 'my' \\\\\"cats\\\\\" # \\\\u0007\\\\ufeff.zip\"|" run/config.json
for row in '"fid": 12.25' '"a: b\n- c": 1e-07' '"no": 3' '"nothing": null'; do
  echo "{\"results\": {$row}, \"snapshot\": \"$model\", \"recipe\": {\"fakes\": 1024}}" >>run/metric-own.jsonl
done
"$gantrain" export run --to hf -o shared 2>said
expect "what can be run next" "next    hf upload ORG/shared shared" "$(tail -1 said)"
read_folder shared '{"metrics": {"fid": 12.25, "a: b\\x0a- c": 1e-07, "no": 3}}' '{"dataset": "yes: '"'my'"' \"cats\" # \\x07.zip"}' \
  '{"tags": ["gan", "dcgan", "gantrain", "pytorch", "image-generation"]}'

# The cache of the Hub: files are links into blobs/, refs/main names the snapshot.
repository=cache/models--me--cats
mkdir -p "$repository/blobs" "$repository/refs" "$repository/snapshots/0123abcd/more" "$repository/snapshots/older"
printf 0123abcd >"$repository/refs/main"
for file in shared/*; do
  cp "$file" "$repository/blobs/$(sha256sum <"$file" | cut -c1-64)"
  ln -s "../../blobs/$(sha256sum <"$file" | cut -c1-64)" "$repository/snapshots/0123abcd/$(basename "$file")"
done
sed -i 's/^# license: cc-by-4.0 #/license: mit #/' "$repository/blobs/$(sha256sum <shared/README.md | cut -c1-64)"
same() { expect "$1 is $2" "equal 13 tensors" "$("$gantrain" inspect --diff "$1" "$2" | sed 1,2d | xargs)"; }
for folder in "$repository" "$repository/snapshots/0123abcd" shared; do
  "$gantrain" import "$folder" -o copy.safetensors 2>/dev/null
  same copy.safetensors shared/model.safetensors
done
"$gantrain" import "$repository" -o again 2>/dev/null
expect "the card that was filled in stays" "license: mit" "$(grep -o '^license: mit' again/README.md)"
mkdir elsewhere && cp shared/* elsewhere && echo secret >private && ln -sf ../private elsewhere/README.md
"$gantrain" import elsewhere -o fresh 2>/dev/null
expect "a card that is a link to something else is not taken" 0 "$(grep -c secret fresh/README.md || true)"
rm -r fresh
"$gantrain" import shared -o fresh 2>/dev/null
read_folder fresh '{"metrics": {"fid": 12.25, "a: b\\x0a- c": 1e-07, "no": 3}}'
rm -r fresh
"$gantrain" import "run/$model" -o fresh 2>/dev/null
read_folder fresh '{"tags": ["gan", "dcgan", "gantrain", "pytorch", "image-generation"]}'
"$gantrain" generate -q --device cpu --model "$repository/snapshots/0123abcd" --seeds 3 --outdir drawn
"$gantrain" generate -q --device cpu --model "run/$model" --seeds 3 --outdir drawn_before
cmp drawn/seed0003.png drawn_before/seed0003.png

# refused CODE WORD ARGUMENT...: the exit code, and a word of the message.
refused() {
  local code=0
  "$gantrain" "${@:3}" >out 2>err || code=$?
  expect "${*:3}" "$1" "$code"
  expect "${*:3} says $2" "" "$(grep -qF -- "$2" err || cat err)"
}
rm "$repository/blobs/$(sha256sum <shared/model.safetensors | cut -c1-64)"
refused 3 "the download is not complete" import "$repository" -o x.safetensors
mkdir empty
refused 3 "holds no weights" import empty -o x.safetensors
mkdir -p two/b && cp shared/model.safetensors two/a.safetensors && cp shared/model.safetensors two/b/c.safetensors
refused 2 "name one: two/a.safetensors, two/b/c.safetensors" import two -o x.safetensors
rm two/a.safetensors
"$gantrain" import two -o x.safetensors 2>/dev/null
mkdir lfs && echo 'version https://git-lfs.github.com/spec/v1' >lfs/net.pkl
refused 3 "a pointer" import lfs -o lfs_out
expect "a refused import leaves no folder" "" "$(ls -d lfs_out 2>/dev/null)"
refused 2 "perhaps a run" import shared -o run
refused 2 "ending in .safetensors, or a folder" import shared -o x.zip
refused 2 "hf" export run --to hub -o x

# An address is only told how to download.
hub() { refused 2 "download it first: $2" import "$1" -o x.safetensors; }
hub https://huggingface.co/me/cats "hf download me/cats --local-dir cats"
hub https://huggingface.co/me/cats/ "hf download me/cats --local-dir cats"
hub "HTTPS://HuggingFace.co/me/cats?library=x#top" "hf download me/cats --local-dir cats"
hub huggingface.co/me/cats "hf download me/cats --local-dir cats"
hub https://hf.co/me/cats/tree/main "hf download me/cats --local-dir cats"
hub https://huggingface.co/me/cats/tree/v1/sub/ "hf download me/cats --include 'sub/*' --revision v1 --local-dir cats"
hub https://huggingface.co/me/cats/blob/main/a%20b/net.pkl "hf download me/cats 'a b/net.pkl' --local-dir cats"
hub "https://huggingface.co/me/cats/resolve/refs%2Fpr%2F1/net.pkl?download=true" "hf download me/cats net.pkl --revision refs/pr/1 --local-dir cats"
hub https://huggingface.co/datasets/me/photos "hf download me/photos --repo-type dataset --local-dir photos"
hub hf://me/cats "hf download me/cats --local-dir cats"
hub hf://me/cats@v2/sub/net.pkl "hf download me/cats sub/net.pkl --revision v2 --local-dir cats"
hub hf://datasets/me/photos/a.zip "hf download me/photos a.zip --repo-type dataset --local-dir photos"
hub "https://huggingface.co/me/\$(x)" "hf download 'me/\$(x)' --local-dir '\$(x)'"
hub "https://host/a%20b.pkl?key=1&x=2" "curl -fL -o 'a b.pkl' 'https://host/a%20b.pkl?key=1&x=2'"
hub s3://bucket/net.pkl "aws s3 cp s3://bucket/net.pkl net.pkl"
hub gs://bucket/net.pkl "gcloud storage cp gs://bucket/net.pkl net.pkl"
for url in https://huggingface.co/me/cats hf://me/cats; do
  refused 2 "hf download me/cats --local-dir cats" --preset dcgan-tiny --device cpu --init-from $url --run-dir no
  refused 2 "hf download me/cats --local-dir cats" finetune run --from $url -o no
  refused 2 "hf download me/cats --local-dir cats" generate --model $url -o g.png
  expect "nothing is left" "" "$(ls -d no 2>/dev/null)"
done

[ -z "$why" ] || skip "$why: its reading was not tried; all else held"
