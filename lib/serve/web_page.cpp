// SPDX-License-Identifier: Apache-2.0
#include "serve/web_page.h"

#include <fmt/format.h>

#include <cctype>

#include "page/html.h"
#include "page/page_style.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr const char* kMoreStyle = R"(
nav { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: center; margin-bottom: 1rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0; }
input[type=password], button { font: inherit; color: inherit; background: var(--well);
  border: 1px solid var(--rule); border-radius: 4px; padding: .15rem .6rem; }
button { cursor: pointer; }
a { color: var(--c0); }
.runs td { border-left: 0; }
)";

// What is open, and where a slider stands, stays as it is. A server that has ended is asked less
// and less often.
constexpr const char* kLiveScript = R"(
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
)";

std::string or_dash(const std::optional<double>& value, const std::string& text) {
  return value ? text : "\u2013";
}

std::string last_losses(const RunView& run) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : run.losses) {
    if (ends_with(name, "/loss"))
      parts.push_back(fmt::format("{} {:.3g}", name.substr(0, name.size() - 5), value));
  }
  return parts.empty() ? "\u2013" : join(parts, ", ");
}

}  // namespace

std::string url_path(const std::string& name) {
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_' ||
                                       c == '.' || c == '~' || c == '/');
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return out;
}

std::string list_html(const std::vector<RunView>& runs, const std::string& folder) {
  std::string html = "<h1>Runs</h1>\n";
  if (runs.empty()) {
    return html + "<p>There are no runs in <code>" + escape_html(folder) +
           "</code> yet: gantrain --out makes them there. This page shows them as they come.</p>\n";
  }
  html +=
      "<div class=\"wide\"><table class=\"runs\">\n<tr><th>Run</th><th>Status</th><th>kimg</th>"
      "<th>Images/s</th><th>To go</th><th>Losses</th><th>Verdict</th></tr>\n";
  for (const RunView& run : runs) {
    const std::string total = run.target_kimg ? " of " + number(*run.target_kimg) : "";
    const bool dead = run.state == "dead";
    html += fmt::format(
        "<tr><td><a href=\"/run/{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td><td title=\"{}\">{}</td></tr>\n",
        url_path(run.name),
        escape_html(run.name),
        escape_html(dead ? "running, says STATUS; nobody is at work" : run.status),
        or_dash(run.kimg, number(run.kimg.value_or(0)) + total),
        or_dash(run.images_per_second, fmt::format("{:.1f}", run.images_per_second.value_or(0))),
        or_dash(run.seconds_to_go, short_duration(run.seconds_to_go.value_or(0))),
        escape_html(last_losses(run)),
        escape_html(run.verdict.reason),
        escape_html(run.verdict.word));
  }
  return html + "</table></div>\n";
}

std::string web_page(const WebPage& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n"
      "<link rel=\"stylesheet\" href=\"/page.css\">\n<script src=\"/page.js\" defer></script>\n"
      "</head>\n<body>\n{}<main data-stamp=\"{}\">\n{}</main>\n</body>\n</html>\n",
      escape_html(page.title),
      page.above,
      escape_html(page.stamp),
      page.inner);
}

std::string run_header(const std::string& name,
                       bool running,
                       bool has_token,
                       const std::string& said) {
  std::string html = "<nav><a href=\"/\">all runs</a>\n";
  const std::string to = "/run/" + url_path(name);
  if (running && has_token) {
    html += fmt::format(
        "<form method=\"post\"><input type=\"password\" name=\"token\" placeholder=\"token\" "
        "aria-label=\"token\" autocomplete=\"off\" required>"
        "<button formaction=\"{0}/save\" title=\"a state and a model at the next tick\">SAVE"
        "</button><button formaction=\"{0}/stop\" title=\"saves and ends the run\">STOP</button>"
        "</form>\n",
        to);
  } else if (running) {
    html += "<span>serve --token auto has buttons to save and stop here</span>\n";
  }
  if (!said.empty()) html += "<b>" + escape_html(said) + "</b>\n";
  return html + "</nav>\n";
}

std::string page_style() { return std::string(kPageStyle) + kMoreStyle; }

std::string page_script() { return std::string(kPageScript) + kLiveScript; }

}  // namespace gantrain
