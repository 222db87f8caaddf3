// SPDX-License-Identifier: Apache-2.0
#include "page/html.h"

#include <fmt/format.h>

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
// margins are those of page/charts.cpp.
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

namespace {

// Bytes of the character that begins at `at`, 0 if it is no UTF-8 (RFC 3629, without overlong
// forms' finer rules, which no browser minds).
size_t character_size(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(at);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + size > text.size()) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  return size;
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t'; }

std::string_view entity_of(char c) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};
  for (const auto& [character, entity] : kEntities) {
    if (c == character) return entity;
  }
  return "";
}

}  // namespace

std::string escape_html(std::string_view text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t size = character_size(text, i);
    const std::string_view entity = entity_of(text[i]);
    if (size == 0 || (size == 1 && is_control(text[i]))) {
      out += kReplacement;
    } else if (!entity.empty()) {
      out += entity;
    } else {
      out += text.substr(i, size);
    }
    i += size == 0 ? 1 : size;
  }
  return out;
}

std::string html_page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n</head>\n"
      "<body>\n{}<script>{}</script>\n</body>\n</html>\n",
      escape_html(title),
      kPageStyle,
      body,
      kPageScript);
}

std::string html_section(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<h2>{}</h2>\n{}", escape_html(title), html);
}

std::string html_folded(const std::string& title, const std::string& html) {
  if (html.empty()) return "";
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", escape_html(title), html);
}

std::string html_cells(const std::string& html) {
  return html.empty() ? "" : "<div class=\"cells\">\n" + html + "</div>\n";
}

std::string html_table_of(const std::vector<std::string>& heads, const std::string& rows_html) {
  std::string out = "<div class=\"wide\"><table>\n<tr>";
  for (const std::string& head : heads) out += "<th>" + escape_html(head) + "</th>";
  return out + "</tr>\n" + rows_html + "</table></div>\n";
}

std::string html_table(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (const std::string& cell : row) out += "<td>" + escape_html(cell) + "</td>";
    out += "</tr>\n";
  }
  return html_table_of(heads, out);
}

std::string html_facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string out;
  for (const auto& [name, value] : facts) {
    if (value.empty()) continue;
    out +=
        fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_html(name), escape_html(value));
  }
  return out.empty() ? "" : "<dl>\n" + out + "</dl>\n";
}

}  // namespace gantrain
