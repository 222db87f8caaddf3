// SPDX-License-Identifier: Apache-2.0
#include "page/picture_section.h"

#include <fmt/format.h>

#include "page/class_rows.h"
#include "page/html.h"
#include "util/text.h"

namespace gantrain {

namespace {

// What the frames of a time-lapse may take together is 1.9 MB before base64.
constexpr size_t kMostFrames = 24;
constexpr PictureLimits kFrame = {.side = 512, .bytes = 79'000};
constexpr PictureLimits kStill = {.side = 1600, .bytes = 450'000};

// The names of a grid's rows as a column of the rows' heights, "" without classes.
std::string rows_html(const RunRecord& run) {
  const auto rows = parse_int(setting(run, "samples.rows"));
  const auto columns = parse_int(setting(run, "samples.columns"));
  if (!rows || !columns) return "";
  std::string html;
  for (const std::string& name : row_names({*rows, *columns}, run.classes))
    html += "<span>" + escape_html(name) + "</span>";
  return html.empty() ? "" : "<div class=\"rows\">" + html + "</div>";
}

std::string still(const RunRecord& run,
                  EmbeddedPictures& store,
                  const std::string& name,
                  const std::string& caption) {
  return grid_figure(
      run, name, caption, store.url_of(run.folder / "samples" / (name + ".png"), kStill));
}

std::string time_lapse(const RunRecord& run, EmbeddedPictures& store) {
  const std::vector<SampleFile> files = sample_files(run.folder);
  std::string frames;
  size_t shown = 0;
  for (const SampleFile& file : evenly_chosen(files, kMostFrames)) {
    const auto url = store.url_of(file.path, kFrame);
    if (!url) continue;
    // Without the script the first one is seen.
    frames += fmt::format("<img{} alt=\"{} kimg\" src=\"{}\">\n",
                          shown == 0 ? "" : " hidden",
                          number(file.kimg),
                          *url);
    ++shown;
  }
  if (shown < 2) return "";
  const size_t left_out = files.size() - shown;
  return fmt::format(
      "<figure class=\"lapse\"><div class=\"grid-box\">{}<div class=\"frames\">\n{}</div></div>\n"
      "<input type=\"range\" aria-label=\"kimg\" min=\"0\" max=\"{}\" value=\"{}\" hidden>\n"
      "<figcaption><b class=\"place\"></b> Time-lapse: the same latents all through training, {} "
      "grids{}.</figcaption></figure>\n",
      rows_html(run),
      frames,
      shown - 1,
      shown - 1,
      shown,
      left_out == 0 ? ""
                    : fmt::format("; {} more are in the folder samples, left out here", left_out));
}

}  // namespace

std::string grid_figure(const RunRecord& run,
                        const std::string& name,
                        const std::string& caption_html,
                        const std::optional<std::string>& url) {
  if (!url) return "";
  return fmt::format(
      "<figure><div class=\"grid-box\">{}<div class=\"frames\"><img alt=\"{}\" src=\"{}\"></div>"
      "</div><figcaption><b>{}</b> {}</figcaption></figure>\n",
      rows_html(run),
      escape_html(name),
      *url,
      escape_html(name),
      caption_html);
}

std::string picture_section(const RunRecord& run, EmbeddedPictures& store) {
  std::string html = still(run, store, "reals", "Real pictures, as the discriminator sees them.");
  html += still(
      run, store, "latest", "The same latents as at the start, now, by the averaged generator.");
  html += time_lapse(run, store);
  if (html.empty()) return "";
  return html_section("Pictures", "<div class=\"cells\">\n" + html + "</div>\n");
}

}  // namespace gantrain
