// SPDX-License-Identifier: Apache-2.0
#include "page/page_style.h"

namespace gantrain {

const char* const kPageStyle = R"(
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57616c; --paper: #ffffff;
        --rule: #e3e7ec; --well: #f6f8fa; --good: #17803d; --warn: #9a6700; --bad: #b42318;
        --c0: #2563c9; --c1: #c2570c; --c2: #17803d; --c3: #8a3fb0;
        --c4: #0e7490; --c5: #b4235a; --c6: #6b7280; --c7: #7c5e10; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa5b1; --paper: #14171b; --rule: #2c333b; --well: #1b2026;
          --good: #5fc987; --warn: #e0b04a; --bad: #ff8a7a;
          --c0: #6ea8ff; --c1: #f0955a; --c2: #5fc987; --c3: #c792ea;
          --c4: #4cc3d9; --c5: #f38bb0; --c6: #a9b1bb; --c7: #d6b35c; } }
* { box-sizing: border-box; }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1.25rem 3rem; color: var(--ink);
       background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.4rem 0 .8rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
p, figcaption { color: var(--soft); margin: .3rem 0; overflow-wrap: anywhere; }
b { color: var(--ink); font-weight: 600; }
code, pre { font: 12.5px/1.5 ui-monospace, monospace; }
code { overflow-wrap: anywhere; }
pre { overflow: auto; max-height: 30rem; padding: .7rem .8rem; margin: .5rem 0;
      border: 1px solid var(--rule); border-radius: 4px; background: var(--well);
      white-space: pre-wrap; overflow-wrap: anywhere; }
.verdict { border-left: 4px solid var(--soft); padding: .1rem .8rem; margin: .8rem 0; }
.verdict b { font-size: 1.05rem; }
.good { border-color: var(--good); } .good b { color: var(--good); }
.stopped, .young { border-color: var(--warn); }
.stopped b, .young b { color: var(--warn); }
.bad { border-color: var(--bad); } .bad b { color: var(--bad); }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(14rem, 100%), 1fr));
     gap: .7rem 1.5rem; margin: 1rem 0; }
dt { color: var(--soft); font-size: 13px; }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.cells { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr));
         gap: 1.8rem; align-items: start; }
figure { margin: 0; min-width: 0; }
.grid-box { display: flex; gap: .5rem; }
.rows { display: flex; flex-direction: column; flex: none; max-width: 30%; }
.rows span { flex: 1 1 0; display: flex; align-items: center; min-height: 0; overflow: hidden;
             font-size: 12px; line-height: 1; color: var(--soft); white-space: nowrap; }
.frames { flex: 1; min-width: 0; }
img { width: 100%; display: block; image-rendering: pixelated; border: 1px solid var(--rule); }
img[hidden] { display: none; }
input[type=range] { width: 100%; margin: .6rem 0 0; accent-color: var(--c0); }
svg { width: 100%; height: auto; display: block; touch-action: pan-y; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--rule); fill: none; }
.band { fill: var(--good); opacity: .09; }
.healthy { stroke: var(--good); stroke-dasharray: 5 4; fill: none; opacity: .8; }
.resume { stroke: var(--soft); stroke-dasharray: 2 3; fill: none; }
.cursor { stroke: var(--ink); opacity: .5; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.dot { stroke-width: 6; }
.line0 { stroke: var(--c0); } .line1 { stroke: var(--c1); } .line2 { stroke: var(--c2); }
.line3 { stroke: var(--c3); } .line4 { stroke: var(--c4); } .line5 { stroke: var(--c5); }
.line6 { stroke: var(--c6); } .line7 { stroke: var(--c7); }
.key { display: inline-block; width: .9rem; height: 3px; margin-right: .4rem;
       vertical-align: middle; }
.key0 { background: var(--c0); } .key1 { background: var(--c1); } .key2 { background: var(--c2); }
.key3 { background: var(--c3); } .key4 { background: var(--c4); } .key5 { background: var(--c5); }
.key6 { background: var(--c6); } .key7 { background: var(--c7); }
.values { min-height: 1.5em; color: var(--ink); font-size: 13px;
          font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
         border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
th { color: var(--soft); font-weight: 400; }
td:first-child { min-width: 9rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; color: var(--soft); }
details[open] > summary { margin-bottom: .8rem; }
@media (max-width: 30rem) { body { margin-top: 1rem; padding: 0 .8rem 2rem; font-size: 14px; }
  dl { grid-template-columns: 1fr 1fr; gap: .5rem 1rem; } svg text { font-size: 17px; }
  .rows { max-width: 22%; } td:first-child { min-width: 6rem; } }
@media print { body { margin: 0; max-width: none; font-size: 11px; }
  :root { --ink: #000; --soft: #444; --paper: #fff; --rule: #ccc; --well: #fff; }
  .cells { grid-template-columns: 1fr 1fr; } figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } pre { max-height: none; }
  input[type=range], .values { display: none; } }
)";

// Paths hold pixels; data-x and data-y say which numbers lie at the edges of the plot, whose
// margins are those of page/svg.cpp.
const char* const kPageScript = R"(
'use strict';
// For all that the document holds; again where that was replaced.
function enliven() {
for (const box of document.querySelectorAll('.lapse')) {
  const frames = [...box.querySelectorAll('img')], slider = box.querySelector('input');
  const place = box.querySelector('.place');
  const show = () => {
    frames.forEach((frame, i) => { frame.hidden = i !== Number(slider.value); });
    place.textContent = frames[slider.value].alt;
  };
  slider.hidden = false;
  slider.addEventListener('input', show);
  show();
}
const left = 56, right = 546, top_ = 10, bottom = 194;
for (const svg of document.querySelectorAll('svg[data-x]')) {
  const [x0, x1] = svg.dataset.x.split(' ').map(Number);
  const [y0, y1] = svg.dataset.y.split(' ').map(Number);
  const out = svg.parentNode.querySelector('.values');
  let lines = null, cursor = null;
  const read = path => [...path.getAttribute('d').matchAll(/[ML]([\d.]+) ([\d.]+)/g)]
      .map(m => [Number(m[1]), Number(m[2])]);
  const text = number => String(Number(number.toPrecision(4)));
  svg.addEventListener('pointermove', event => {
    if (!lines) {
      lines = [...svg.querySelectorAll('.line')].map(path =>
          ({ name: path.querySelector('title').textContent, points: read(path) }));
      cursor = document.createElementNS(svg.namespaceURI, 'path');
      cursor.setAttribute('class', 'cursor');
      svg.append(cursor);
    }
    const area = svg.getBoundingClientRect();
    const at = (event.clientX - area.left) * svg.viewBox.baseVal.width / area.width;
    let place = null;
    const values = [];
    for (const line of lines) {
      let best = null;
      for (const point of line.points)
        if (!best || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
      if (!best) continue;
      if (place === null) place = best[0];
      values.push(line.name + ' ' + text(y0 + (bottom - best[1]) / (bottom - top_) * (y1 - y0)));
    }
    if (place === null) return;
    cursor.setAttribute('d', 'M' + place + ' ' + top_ + 'V' + bottom);
    out.textContent = text(x0 + (place - left) / (right - left) * (x1 - x0)) + ' kimg: ' +
        values.join(', ');
  });
  svg.addEventListener('pointerleave', () => {
    out.textContent = '';
    if (cursor) cursor.setAttribute('d', '');
  });
}
}
enliven();
)";

}  // namespace gantrain
