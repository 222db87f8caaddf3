// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "image/image.h"
#include "image/resize.h"
#include "report/curves.h"
#include "report/run_log.h"
#include "report/svg.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostPixels = 1600;  // side of an embedded picture

constexpr const char* kStyle = R"(
:root { --ink: #1b1f24; --soft: #5b6570; --paper: #ffffff; --rule: #e3e7ec;
        --c0: #2563c9; --c1: #c2570c; --c2: #17803d; --c3: #8a3fb0; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa5b1; --paper: #14171b; --rule: #2c333b;
          --c0: #6ea8ff; --c1: #f0955a; --c2: #5fc987; --c3: #c792ea; } }
* { box-sizing: border-box; }
body { margin: 2rem auto; max-width: 76rem; padding: 0 1.25rem; color: var(--ink);
       background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .8rem; }
h3 { font-size: 1rem; margin: 0 0 .3rem; }
p, figcaption { color: var(--soft); margin: .3rem 0; }
.cells { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(26rem, 100%), 1fr));
         gap: 1.8rem; align-items: start; }
figure { margin: 0; min-width: 0; }
img { width: 100%; image-rendering: pixelated; border: 1px solid var(--rule); }
svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.grid { stroke: var(--rule); fill: none; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.line0 { stroke: var(--c0); } .line1 { stroke: var(--c1); }
.line2 { stroke: var(--c2); } .line3 { stroke: var(--c3); }
.key { display: inline-block; width: .9rem; height: 3px; margin-right: .4rem;
       vertical-align: middle; }
.key0 { background: var(--c0); } .key1 { background: var(--c1); }
.key2 { background: var(--c2); } .key3 { background: var(--c3); }
b { color: var(--ink); font-weight: 600; }
pre { overflow: auto; max-height: 30rem; padding: .8rem; border: 1px solid var(--rule);
      font-size: 12.5px; }
)";

// A file's content, or nothing: a report is made of what is there.
std::optional<std::string> content_of(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    }
    for (size_t j = 0; j < 4; ++j) {
      out += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

// A picture file as PNG no larger than the page needs it; nothing if it is missing or broken.
std::optional<std::string> picture_of(const fs::path& path) {
  const auto bytes = content_of(path);
  if (!bytes) return std::nullopt;
  try {
    const Image image = decode_image(*bytes, path.string());
    const int64_t side = std::max(image.width, image.height);
    if (side <= kMostPixels) return bytes;
    const auto shrunk = [&](int64_t pixels) {
      return std::max<int64_t>(1, pixels * kMostPixels / side);
    };
    return encode_png(resize(image, {shrunk(image.width), shrunk(image.height)}, Filter::kBox));
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string pictures(const fs::path& run_folder) {
  constexpr const char* kPictures[][2] = {
      {"latest", "The same latents as at the start, now, by the averaged generator."},
      {"fakes_init", "Before training."},
      {"reals", "Real pictures, as the discriminator sees them."},
  };
  std::string out;
  for (const auto& [name, caption] : kPictures) {
    const auto png = picture_of(run_folder / "samples" / (std::string(name) + ".png"));
    if (!png) continue;
    out += fmt::format(
        "<figure><img alt=\"{0}\" src=\"data:image/png;base64,{1}\">"
        "<figcaption><b>{0}</b> {2}</figcaption></figure>\n",
        name,
        base64(*png),
        caption);
  }
  return out.empty() ? "" : "<h2>Pictures</h2>\n<div class=\"cells\">\n" + out + "</div>\n";
}

std::string last_value(const Curve& curve) {
  return curve.empty() ? "" : fmt::format("{:.4g}", curve.back().second);
}

std::string chart_figure(const Chart& chart) {
  std::vector<Line> lines;
  std::string legend;
  for (size_t i = 0; i < chart.curves.size(); ++i) {
    const ExplainedCurve& curve = chart.curves[i];
    lines.push_back({curve.name, curve.curve});
    legend += fmt::format("<p><span class=\"key key{}\"></span><b>{}</b> {} Last: {}.</p>\n",
                          i,
                          escape_html(curve.name),
                          escape_html(curve.meaning),
                          last_value(curve.curve));
  }
  return fmt::format("<figure>\n<h3>{}</h3>\n{}\n{}</figure>\n",
                     escape_html(chart.title),
                     line_chart(lines),
                     legend);
}

std::string section(const std::string& title, const std::vector<Chart>& charts) {
  if (charts.empty()) return "";
  std::string out = fmt::format("<h2>{}</h2>\n<div class=\"cells\">\n", escape_html(title));
  for (const Chart& chart : charts) out += chart_figure(chart);
  return out + "</div>\n";
}

// "dcgan-tiny · 200 of 1000 kimg" and the like: what a glance should tell.
std::string summary(const fs::path& run_folder, const std::map<std::string, Curve>& stats) {
  std::vector<std::string> parts;
  if (const auto status = content_of(run_folder / "STATUS")) parts.push_back(trim(*status));
  const auto kimg = stats.find("Progress/kimg");
  if (kimg != stats.end() && !kimg->second.empty()) {
    parts.push_back(number(kimg->second.back().second) + " kimg");
  }
  parts.push_back("written " + timestamp());
  return escape_html(join(parts, " \u00b7 "));
}

std::string settings(const fs::path& run_folder) {
  std::string out;
  if (const auto command = content_of(run_folder / "command.txt")) {
    out += "<pre>" + escape_html(trim(*command)) + "</pre>\n";
  }
  if (const auto config = content_of(run_folder / "config.json")) {
    out += "<details><summary>config.json</summary><pre>" + escape_html(*config) +
           "</pre></details>\n";
  }
  return out.empty() ? "" : "<h2>Settings</h2>\n" + out;
}

}  // namespace

std::string render_report(const fs::path& run_folder) {
  const std::map<std::string, Curve> stats = read_stats(run_folder);
  std::error_code ignored;
  const fs::path whole = fs::canonical(run_folder, ignored);
  const std::string name = escape_html((whole.empty() ? run_folder : whole).filename().string());
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>{2}</p>\n",
      name,
      kStyle,
      summary(run_folder, stats));
  page += pictures(run_folder);
  page += section("Quality", charts_of(read_metrics(run_folder)));
  page += section("Training", charts_of(stats));
  page += "<p>Horizontal axis: kimg, thousands of real pictures shown to the discriminator.</p>\n";
  page += settings(run_folder);
  return page + "</body>\n</html>\n";
}

void write_report(const fs::path& run_folder) {
  write_file(run_folder / "report.html", render_report(run_folder));
}

}  // namespace gantrain
