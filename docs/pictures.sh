#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes the pictures of reading-a-run.md:  docs/pictures.sh GANTRAIN [FOLDER]
# Three tiny trainings on a CPU (two minutes of one core), one that learns, one that collapses, one that diverges, and of each page what comes
# first. Needs chromium-headless-shell or chromium, and pngquant.
set -euo pipefail
program=$(realpath "$1")
folder=$(realpath "${2:-$(dirname "${BASH_SOURCE[0]}")}")
browser=$(command -v chromium-headless-shell || command -v chromium)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

train() { # train NAME FLAG...
  "$program" --preset dcgan-tiny --device cpu --threads 1 --nproc 1 --run-dir "$@" 2>/dev/null
}
train healthy --resolution 16 --kimg 40 --set metrics.every=2 --set train.tick=0.5 --set samples.every=10
train collapsed --resolution 16 --kimg 2.5 --metrics swd,msssim --set metrics.images=128 --set metrics.every=0.25 \
  --set ema.half_life=0.1 --set metrics.collapse_after=0.5 --set samples.every=0.5 --set train.tick=0.1 \
  --set samples.columns=8 --set samples.rows=4 --set dcgan.norm=none --set G.adam.lr=0.1 --set D.adam.lr=0.0001
train diverged --resolution 16 --kimg 2.5 --metrics swd,msssim --set metrics.images=128 --set metrics.every=0.25 \
  --set ema.half_life=0.1 --set metrics.collapse_after=0.5 --set samples.every=0.5 --set train.tick=0.1 \
  --set samples.columns=8 --set samples.rows=4 --set dcgan.norm=none --set G.adam.lr=1 --set D.adam.lr=1

# The page without facts and names: verdict, pictures beside real ones, the first four charts.
style='<style>.facts, .next, h1, h2, details, input, figcaption, .values, .top p:not(.verdict p), .verdict p { display: none !important }
  body { margin: .6rem auto; max-width: 700px } .verdict b { font-size: 15px } .verdict { font-size: 14px; margin: 0 }
  .cells { grid-template-columns: 1fr 1fr !important; gap: .6rem 1rem; margin-top: .6rem } h3 { font-size: 12px }
  .cells figure p { font-size: 10px; line-height: 1.35; margin: 0 } .cells figure p b { font-size: 10px }
  .frames img, .cells > figure > img { height: 166px; object-fit: cover; object-position: top } </style>'
for name in healthy collapsed diverged; do
  { cat "$name/report.html"; echo "$style"; } >"$name.html"
  HOME=$work "$browser" --no-sandbox --disable-gpu --hide-scrollbars --window-size=700,615 \
    --screenshot="$work/$name.png" "file://$work/$name.html" 2>/dev/null
  pngquant --force --speed 1 --output "$folder/$name.png" 48 "$work/$name.png"
done
