#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hostile_test.sh GANTRAIN: what a stranger can do with a folder that others look at or train in, with a file, and with a
# port that he reaches. The victim's files stay as they are, no command crashes, hangs or takes the memory, and what serves
# goes on to serve. The parts one by one are in the unit tests (SECURITY.md names them).
. "$(dirname "${BASH_SOURCE[0]}")/check.sh"
command -v python3 >/dev/null || skip "no python3, which plays the stranger"
gantrain=$1
stranger=(python3 "$root/test/scripts/hostile.py")
secret=CorrectHorseBatteryStaple
victim=$tmp/victim
running=()
at_end() {
  [ ${#running[@]} -eq 0 ] || kill -9 "${running[@]}" 2>/dev/null || true
  rm -rf "$tmp"
}
mkdir -p "$tmp/home" "$tmp/work" "$victim/folder"
export HOME=$tmp/home GANTRAIN_CACHE_DIR=$tmp/cache XDG_RUNTIME_DIR=$tmp/home
unset LD_LIBRARY_PATH GANTRAIN_JOB_SECRET
echo "$secret" >"$victim/secret"
echo precious >"$victim/file"
cd "$tmp/work"

content_of_victim() { (cd "$victim" && find . -printf '%p %y %m %s %l %T@\n' | sort && cat file secret); }
before=$(content_of_victim)
unchanged() { [ "$before" = "$(content_of_victim)" ] || expect "$1: the victim" unchanged "$(diff <(echo "$before") <(content_of_victim))"; }

# attack WHAT CODES MIB COMMAND...: it ends with one of the exit codes, in that memory, and tells nothing of the victim.
attack() {
  local what=$1 codes=$2 most=$3 code peak
  shift 3
  read -r code peak <<<"$("${stranger[@]}" measure "$tmp/out" "$@")"
  [[ " $codes " == *" $code "* ]] || { tail -5 "$tmp/out" >&2; expect "$what: exit code" "$codes" "$code"; }
  [ "$peak" -lt "$most" ] || expect "$what: memory" "below $most MiB" "$peak MiB"
  ! grep -q "$secret" "$tmp/out" || expect "$what shows the secret" no yes
  unchanged "$what"
}

# await WHAT COMMAND...: until the command succeeds.
await() {
  local what=$1 i
  shift
  for ((i = 0; i < 600; ++i)); do
    ! "$@" 2>/dev/null || return 0
    sleep 0.1
  done
  expect "$what" yes no
}

# start_serve ARGUMENT...: sets port, server and token.
start_serve() {
  rm -f "$tmp/said"
  "$gantrain" serve --port 0 "$@" >"$tmp/said" 2>"$tmp/serve.err" &
  server=$! running+=($!)
  await "serve says its address" grep -q '^http' "$tmp/said"
  port=$(sed -n 's|^http://127.0.0.1:\([0-9]*\)/$|\1|p' "$tmp/said")
  token=$(sed -n 's/^token in //p' "$tmp/said")
}
# ended PID CODE WHAT
ended() {
  local code=0
  wait "$1" || code=$?
  running=("${running[@]/$1/}")
  expect "$3: exit code" "$2" "$code"
}

train=("$gantrain" --preset dcgan-tiny --device cpu --threads 1 --resolution 16 --metrics none --batch 16
  --set train.tick=0.05)
"${train[@]}" --kimg 0.1 --run-dir trained 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
model=$(basename trained/model-000000.1*.safetensors)

# --- libraries from the current folder
mkdir data
"${stranger[@]}" pictures data
cp data/1.png a.png
expect "what is built finds no library from the current folder" "" \
  "$(open_runpaths "$gantrain" "$(dirname "$gantrain")"/libgantrain_*.so)"
if cc=$(command -v cc || command -v gcc || command -v clang); then
  {
    echo '#include <fcntl.h>
__attribute__((constructor)) static void own(void) { creat("OWNED", 0600); }'
    nm -D --undefined-only "$(dirname "$gantrain")/libgantrain_trainer.so" | sed -n 's/.* \(archive_[a-z0-9_]*\).*/void \1(void) {}/p'
  } >"$tmp/own.c"
  "$cc" -shared -fPIC -w -o "$tmp/own.so" "$tmp/own.c"
  cd data
  for name in libarchive.so.13 $(readelf -d "$gantrain" "$(dirname "$gantrain")"/libgantrain_*.so |
    sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    cp "$tmp/own.so" "$name"
  done
  mkdir "$tmp/other" && cp "$tmp/own.so" "$tmp/other/libarchive.so.13"
  (cd "$tmp/other" && LD_LIBRARY_PATH=. "$gantrain" data inspect . >"$tmp/out" 2>&1) || true
  expect "such a library would be seen" OWNED "$(cd "$tmp/other" && ls OWNED)"
  attack "data inspect beside libraries" 0 300 "$gantrain" data inspect .
  attack "inspect beside libraries" 0 300 "$gantrain" inspect 1.png
  attack "training beside libraries" 0 1000 "${train[@]}" --data . --kimg 0.05 --run-dir ../beside
  start_serve .
  kill "$server"
  ended "$server" 0 "serve beside libraries"
  expect "nothing of it was run" "" "$(find "$tmp/work" -name OWNED)"
  cd "$tmp/work"
  rm -r beside
fi

# --- links where a run writes
folder_with() { # folder_with NAME...: a run folder in which these are links to the victim's file
  rm -rf planted && cp -r trained planted
  for name; do ln -sf "$victim/file" "planted/$name"; done
}
folder_with STATUS config.json command.txt env.json report.html "$model" samples/latest.png
"${stranger[@]}" plant planted "$victim/file" $$ STATUS state-000000.208.pt
attack "a run among links" "0 3 8" 1000 "${train[@]}" --kimg 0.2 --run-dir planted
for name in .lock log.txt stats.jsonl; do
  folder_with $name
  attack "a run whose $name is a link" "3 4 8" 1000 "${train[@]}" --kimg 0.2 --run-dir planted
  expect "it is named" 1 "$(grep -c "^error.*planted/$name" "$tmp/out")"
done
for name in samples errors; do
  folder_with
  rm -rf "planted/$name"
  ln -s "$victim/folder" "planted/$name"
  attack "a run whose folder $name is a link" "0 3 4 8" 1000 "${train[@]}" --kimg 0.2 --run-dir planted
done
mkdir packed && ln -s "$victim/file" packed/dataset.json && ln -s "$victim/folder" packed/00000
attack "packing into a folder of links" "0 2 8" 300 "$gantrain" data pack data -o packed --resolution 16 --force
for name in packed.zip.partial packed.zip.partial.journal packed.zip; do
  rm -rf packed*
  ln -s "$victim/file" $name
  attack "packing beside a link" "0 2 8" 300 "$gantrain" data pack data -o packed.zip --resolution 16 --force
done
rm -rf packed* && mkdir packed.partial && ln -s "$victim/folder" packed.partial/00000 && : >packed.partial.journal
attack "packing into a folder of links" "0 2 8" 300 "$gantrain" data pack data -o packed --resolution 16

# --- run folders of a stranger
mkdir runs
for what in deep nested pipes endless links bomb; do
  cp -r trained "runs/$what"
  "${stranger[@]}" ruin "runs/$what" $what "$victim"
  attack "report: $what" 0 300 "$gantrain" report "runs/$what" -o "$what.html"
  attack "inspect: $what" "0 3" 300 "$gantrain" inspect "runs/$what"
  ! grep -qs "$secret" "$what.html" || expect "report shows the secret" no yes
done
for name in config.json env.json errors/rank0.json stats.jsonl; do
  attack "inspect: $name, nested" "0 3" 300 "$gantrain" inspect "runs/deep/$name"
done
attack "inspect: a pipe" 3 300 "$gantrain" inspect runs/pipes/STATUS
attack "inspect: an endless file" 3 300 "$gantrain" inspect runs/endless/command.txt
cp -r trained runs/manifest
"${stranger[@]}" ruin runs/manifest manifest "$victim"
cp -r trained runs/hashes
"${stranger[@]}" ruin runs/hashes hashes "$victim"
for what in deep nested manifest hashes pipes endless links; do
  cp -r "runs/$what" resumed
  attack "resuming: $what" "0 3 4 8" 1000 "${train[@]}" --kimg 0.2 --run-dir resumed
  rm -rf resumed
done

# --- models of a stranger
for what in escapes nested deep; do
  mkdir "$what"
  "${stranger[@]}" model "trained/$model" "$what/$model" $what
  attack "inspect: a model, $what" "0 3" 300 "$gantrain" inspect "$what/$model"
  cp "$tmp/out" "$what/inspected"
  attack "export: a model, $what" "0 3" 300 "$gantrain" export "$what/$model" --to python -o "$what/exported"
  cp "$tmp/out" "$what/said"
done
expect "no control character reaches the terminal or an exported text" "" \
  "$(LC_ALL=C grep -rlP '[\x00-\x08\x0b-\x1f\x7f]' escapes --include=inspected --include=said --include=README.md --include='*.py' || true)"
expect "no line is forged" "" "$(grep -h '^error   forged' escapes/inspected escapes/said || true)"

# --- a detector that is another one than was said
echo "no network" >detector.pt
attack "a detector of another sum" 3 1000 "$gantrain" metrics trained --metrics fid --device cpu --detector detector.pt \
  --detector-sha256 "$(sha256sum a.png | cut -d ' ' -f 1)"
expect "it was not run" 1 "$(grep -c '^error.*detector.pt: sha256 .* was not run' "$tmp/out")"

# --- serve
cp -r trained runs/fine && rm runs/fine/.lock
echo "running" >runs/fine/STATUS
start_serve runs --token auto
token=$(cat "$token")
expect "the token's file" 600 "$(stat -c %a "$XDG_RUNTIME_DIR"/gantrain/serve-*.token)"
expect "reading needs the token" 401 "$("${stranger[@]}" status "$port" /)"
ln -s "$victim/file" runs/fine/STOP
ln -s "$victim/file" "runs/fine/STOP.tmp$server"
ln -s "$victim/folder" runs/fine/SAVE
for name in stop save; do expect "$name" 200 "$("${stranger[@]}" post "$port" "$token" /run/fine/$name)"; done
unchanged "STOP and SAVE"
expect "STOP is a file" "regular empty file" "$(stat -c %F runs/fine/STOP)"
kill "$server"
ended "$server" 0 "serve with a token"
expect "the token goes with it" "" "$(ls "$XDG_RUNTIME_DIR/gantrain")"
start_serve runs
"${stranger[@]}" pages "$port" "$server" "$secret" deep nested pipes endless links bomb fine
"${stranger[@]}" slow "$port" "$server" 16 >/dev/null
ended "$server" 0 "serve with 16 slow clients"
# No client holds its end. Another try only where the machine was busy otherwise.
for _ in 1 2 3; do
  start_serve runs
  seconds=$("${stranger[@]}" slow "$port" "$server" 200)
  ended "$server" 0 "serve with 200 slow clients"
  [ "${seconds%.*}" -ge 3 ] || break
done
[ "${seconds%.*}" -lt 3 ] || expect "SIGTERM is obeyed" "within 3 s" "after $seconds s"
(ulimit -n 64 -s 1024; exec "$gantrain" serve runs --port 0 >"$tmp/few" 2>"$tmp/serve.err") &
server=$! running+=($!)
await "serve says its address" grep -q '^http' "$tmp/few"
port=$(grep -o '[0-9]*/$' "$tmp/few" | tr -d /)
"${stranger[@]}" requests "$port" "$server"
"${stranger[@]}" slow "$port" "$server" 100 >/dev/null
ended "$server" 0 "serve with 64 descriptors and small stacks"
unchanged "serve"

# --- the link of the launchers
job=("${train[@]}" --kimg 0.1 --nnodes 2 --nproc 1 --master-addr 127.0.0.1)
port=$("${stranger[@]}" free_port)
"${job[@]}" --node-rank 0 --master-port "$port" --run-dir two >"$tmp/node0" 2>&1 &
node0=$! running+=($!)
"${stranger[@]}" strangers "$port"
expect "its secret is for its user alone" 600 "$(stat -c %a two/.job-secret)"
attack "node 1 of a job that strangers tried to join" 0 1000 "${job[@]}" --node-rank 1 --master-port "$port" --run-dir two
ended "$node0" 0 "node 0 of that job"
expect "strangers are counted" 1 "$(grep -c 'refused 10 connections' "$tmp/node0")"

false_node0() { # false_node0 SECRET FOLDER: sets false0
  port=$("${stranger[@]}" free_port)
  "${stranger[@]}" node0 "$port" "$1" "$2" >"$tmp/told" 2>&1 &
  false0=$! running+=($!)
}
# One that knows no secret is not followed.
false_node0 wrong "$victim/folder"
GANTRAIN_JOB_SECRET=$secret$secret "${job[@]}" --node-rank 1 --master-port "$port" --out out >"$tmp/node1" 2>&1 &
node1=$! running+=($!)
ended "$false0" 0 "a node 0 without the secret"
kill "$node1"
ended "$node1" 75 "the node that it met"
unchanged "a node 0 without the secret"
# One that knows it leads nobody out of the folder of his own command.
false_node0 "" "$victim/folder"
attack "a node 0 that names another folder" 4 1000 "${job[@]}" --node-rank 1 --master-port "$port" --out out
expect "it is said" 1 "$(grep -c "^error.*$victim/folder is not in" "$tmp/out")"
unchanged "everything"
