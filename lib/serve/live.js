const main = document.querySelector('main');
let pause = 2000;
async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.pathname + '?part=' + encodeURIComponent(main.dataset.stamp),
                             { cache: 'no-store' });
  if (answer.status !== 200) return;
  const html = await answer.text();
  const open = [...main.querySelectorAll('details')].map(one => one.open);
  const slider = main.querySelector('input[type=range]');
  const place = slider && slider.value !== slider.max ? slider.value : null;
  main.innerHTML = html;
  main.dataset.stamp = answer.headers.get('X-Stamp');
  main.querySelectorAll('details').forEach((one, i) => { one.open = Boolean(open[i]); });
  const moved = main.querySelector('input[type=range]');
  if (moved && place !== null && Number(place) <= Number(moved.max)) moved.value = place;
  enliven();
}
async function live() {
  try { await refresh(); pause = 2000; } catch (gone) { pause = Math.min(60000, pause * 2); }
  setTimeout(live, pause);
}
setTimeout(live, pause);
