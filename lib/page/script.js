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
