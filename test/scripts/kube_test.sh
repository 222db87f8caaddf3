#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gantrain kube: manifests as they were looked at once (test/scripts/kube), read by the published schemas; values that YAML or
# Kubernetes could take for something else; what is refused.
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
gantrain=$(realpath "${1:-$root/build/gantrain}")
[ -x "$gantrain" ] || skip "no $gantrain: scripts/build.sh"
cd "$tmp"
python=${GANTRAIN_PYTHON:-python3}
why=
"$python" -c 'import kubeflow_trainer_api, yaml' 2>/dev/null || why="$python has no kubeflow_trainer_api and yaml"

# kube FILE FLAG...: writes a manifest.
kube() { "$gantrain" kube -q -o "$@"; }
# read_as FILE WORD...: reads it by the schemas; the container has to receive these words.
read_as() { [ -n "$why" ] || "$python" "$root/test/python/kube_schema.py" "$@"; }

for kind in job jobset trainjob; do
  kube "$kind.yaml" --kind "$kind" --name faces --namespace vision --nnodes 2 --gpus 8 --mem 256Gi --claim runs \
    --data-claim photos --secret faces-key --image registry.example:5000/gantrain:cuda -- \
    --preset stylegan2 --data /data/photos --grace 1m
  [ -z "${GANTRAIN_UPDATE:-}" ] || cp "$kind.yaml" "$root/test/scripts/kube/$kind.yaml"
  expect "the $kind" "$(cat "$root/test/scripts/kube/$kind.yaml")" "$(cat "$kind.yaml")"
  read_as "$kind.yaml" train --preset stylegan2 --data /data/photos --grace 1m --run-dir /runs/faces --nproc 8
  kube one.yaml --kind "$kind" --image i -- --preset dcgan-tiny --device cpu 2>/dev/null
  read_as one.yaml train --preset dcgan-tiny --device cpu --run-dir /runs/dcgan-tiny --nproc 1
  ! grep -q 'nvidia\|WORLD_SIZE\|kind: S' one.yaml || expect "one pod without a GPU" "needs none of that" "$(cat one.yaml)"
done

# Words that are no text in YAML, quotes, ends of lines, dollars as Kubernetes reads them, other scripts, hidden characters.
hostile=(yes No null '~' 1e3 0x10 1:20 '- a' 'a: b' '#c' "it's" '"q"' 'a\nb' $'two\nlines' $'tab\there' '$HOME' '$(RANK)'
  '$$(X)' '$' '&a' '*a' '!t' '%y' '@z' '`w' '{a}' '[b]' '|' '>' ' lead' 'trail ' 'köln' '東京' '😀' $'\u200b\u202e\ufeff' $'\u0085' $'\x7f' '---' '...' '?')
groups=() n=0
for word in "${hostile[@]}"; do
  n=$((n + 1))
  kube "$n.yaml" --nnodes 2 --image i -- --preset dcgan --device cpu --data "$word" --set "run.init_from=$word" 2>>said
  groups+=(// "$n.yaml" train --preset dcgan --device cpu --data "$word" --set "run.init_from=$word" --run-dir /runs/dcgan --nproc 1)
done
read_as "${groups[@]:1}"
expect "pods without a common folder share a secret" 1 "$(grep -c '^kind: Secret' 1.yaml)"
new_secret() { kube s.yaml --nnodes 2 --image i -- --preset dcgan --device cpu 2>/dev/null; grep "  secret: " s.yaml; }
secrets=$(new_secret; new_secret)
expect "which is new each time" 2 "$(sort -u <<<"$secrets" | grep -c 'secret: "\?[0-9a-f]\{64\}')"

# What only this machine has comes along: a file of --config and variables.
echo '{"base": "dcgan-tiny", "train.kimg": 3, "data.path": "/data"}' >own.json
GANTRAIN_TRAIN__SEED=7 kube own.yaml --image i --data-claim d -- --config own.json --device cpu --batch 32
read_as own.yaml train --preset dcgan-tiny --set train.kimg=3 --set train.seed=7 --set data.path=/data --device cpu --batch 32 \
  --run-dir /runs/dcgan-tiny --nproc 1

# mounted FILE VOLUME: where.
mounted() { grep -A1 -- "- name: $2" "$1" | sed -n 's/ *mountPath: //p'; }
kube m.yaml --image i --claim c --data-claim d -- --preset dcgan --data /photos/set.zip --run-dir /scratch/me/../you/run
expect "the volumes" "/scratch/you /photos" "$(mounted m.yaml runs) $(mounted m.yaml data)"
expect "the grace of 30 s, and half a minute" 60 "$(sed -n 's/ *terminationGracePeriodSeconds: //p' m.yaml)"
for folder in /data/photos.v2 /photos.v2 /data/set.lmdb; do  # no files of pictures
  kube m.yaml --image i --claim c --data-claim d -- --preset dcgan --data "$folder"
  expect "the volume at --data $folder" "$folder" "$(mounted m.yaml data)"
done
for out in ../elsewhere /elsewhere/; do  # no folder that no volume holds
  kube m.yaml --image i --claim c -- --preset dcgan --out "$out"
  expect "the volume at --out $out" /elsewhere "$(mounted m.yaml runs)"
done
kube m.yaml --image i --claim c -- --preset dcgan --run-dir /scratch/mine/
expect "a slash at the end changes nothing" /scratch "$(mounted m.yaml runs)"
kube m.yaml --image i --claim c -- --preset dcgan --data /images
expect "the usual place" /runs "$(mounted m.yaml runs)"
expect "no /dev/shm of its own" "" "$(kube m.yaml --image i --shm 0 -- --preset dcgan 2>/dev/null; mounted m.yaml shm)"
long=$(printf 'n%.0s' {1..55})
kube m.yaml --image i --claim c --name "$long" -- --preset dcgan

# refused CODE WORD FLAG...: the exit code, and a word of the message
refused() {
  local code=0
  "$gantrain" kube "${@:3}" >out 2>err || code=$?
  expect "${*:3}" "$1 0" "$code $(stat -c %s out)"
  expect "${*:3} names $2" "" "$(grep -q -- "$2" err || cat err)"
}
for name in Faces under_score -lead trail- a.b 'two words' "" "${long}nnn" $'new\nline' köln; do refused 2 --name --name="$name"; done
refused 2 'begin with a letter' --nnodes 2 --name 7up
kube m.yaml --image i --claim c --name 7up -- --preset dcgan
refused 2 --namespace --namespace a.b
refused 2 --claim --claim A
refused 2 --data-claim --data-claim ../x
refused 2 --secret --secret a_b
refused 2 --kind --kind pod
refused 2 --shm --shm lots
refused 2 --mem --mem 64GB
refused 2 --mem --mem 0Gi
refused 2 --image --image 'a b'
refused 2 --image --image=
refused 2 --image --image -x
for image in UPPER a//b a:b:c x@sha256:12 a/B /a a/ a: 'a:b c' http://r/a a.-b; do refused 2 "--image.*lower-case" --image="$image"; done
for image in localhost:5000/a REG.example/a/b__c--d.e:V1 "[::1]:5000/a" "r.example/a:t@sha256:$(printf '0%.0s' {1..64})"; do
  kube m.yaml --image "$image" --claim c -- --preset dcgan
done
refused 2 'may be given once' --image i --image j
refused 2 --nnodes --nnodes 0
refused 2 --presett -- --presett dcgan
refused 2 dcgann -- --preset dcgann
refused 2 --batch --nproc 3 -- --batch 16
refused 2 --nnodes --nnodes 2 -- --nnodes 2
refused 2 --master-port -- --master-port 1234
refused 2 --resume -- --resume none
refused 2 --resume -- --resume some.pt
refused 2 --dry-run -- --dry-run
refused 2 --stopped-code -- --stopped-code 143
refused 2 --nproc --nproc 2 -- --nproc 4
refused 2 --gpus --nproc 8 --gpus 4
refused 2 --gpus --gpus 1 -- --device cpu
for folder in /usr/run ../etc/run / /dev/shm; do refused 2 'hide what the image needs' -- --run-dir "$folder"; done
for folder in /usr/share /dev/shm; do refused 2 'hide what the image needs' --data-claim d -- --data "$folder"; done
refused 2 'a colon' -- --run-dir /a:b/run
refused 2 'a colon' --data-claim d -- --data /a:b
refused 2 --nproc --nproc 0
refused 2 --gpus --gpus -1
refused 2 --data-claim --data-claim d -- --preset dcgan
refused 2 --data-claim --data-claim d -- --data /runs/photos
refused 8 no-such-folder -o no-such-folder/job.yaml

[ -z "$why" ] || skip "$why: the schemas were not compared; all else held"
