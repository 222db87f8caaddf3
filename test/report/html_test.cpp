// SPDX-License-Identifier: Apache-2.0
#include "report/html.h"

#include <catch2/catch.hpp>
#include <string>

#include "image/image.h"
#include "report/curves.h"
#include "temporary_folder.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Image grey(int64_t side) {
  return {.width = side,
          .height = side,
          .channels = 1,
          .pixels = std::vector<uint8_t>(static_cast<size_t>(side * side), 77)};
}

void write_run(const fs::path& folder) {
  fs::create_directories(folder / "samples");
  for (const char* name : {"latest", "reals"})
    write_file(folder / "samples" / (std::string(name) + ".png"), encode_png(grey(8)));
  write_file(folder / "samples" / "fakes_init.png", "broken");
  write_file(folder / "STATUS", "done\n");
  write_file(folder / "config.json", R"({"data": "<script>alert(1)</script>"})");
  std::string stats;
  for (int i = 0; i < 20; ++i) {
    stats += R"({"Progress/kimg":{"mean":)" + std::to_string(i) +
             R"(},"Loss/G/loss":{"mean":1.5},"Loss/D/loss":{"mean":0.5},"Loss/new_one":{"mean":)" +
             std::to_string(i * i) + "}}\n";
  }
  write_file(folder / "stats.jsonl", stats + "{half a li");
  write_file(folder / "metric-swd.jsonl", R"({"results":{"swd":50},"kimg":0})");
}

TEST_CASE("ReportShowsPicturesCurvesAndSettings") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "00007-dcgan-b64";
  write_run(run);
  write_report(run);
  const std::string page = read_file(run / "report.html");
  CHECK(contains(page, "<h1>00007-dcgan-b64</h1>"));
  CHECK(contains(page, "done \u00b7 19 kimg"));
  CHECK(contains(page, "alt=\"latest\" src=\"data:image/png;base64,iVBORw0KGgo"));
  CHECK(contains(page, "alt=\"reals\""));
  CHECK(!contains(page, "alt=\"fakes_init\""));  // broken: left out
  CHECK(contains(page, "<h3>Losses</h3>"));
  CHECK(contains(page, "Mean of Loss/new_one over each tick."));
  CHECK(contains(page, "<h3>Sliced Wasserstein distance (times 1000)</h3>"));
  CHECK(contains(page, "&lt;script&gt;"));
}

TEST_CASE("ReportAsksForNothingFromOutside") {
  const TemporaryFolder folder;
  write_run(folder.path());
  const std::string page = render_report(folder.path());
  CHECK(!contains(page, "http"));
  CHECK(!contains(page, "<script"));
  CHECK(!contains(page, "<link"));
}

TEST_CASE("ReportOfAnEmptyFolderIsAPage") {
  const TemporaryFolder folder;
  const std::string page = render_report(folder.path());
  CHECK(contains(page, "<!DOCTYPE html>"));
  CHECK(contains(page, "</html>"));
  CHECK(!contains(page, "<h2>"));
}

TEST_CASE("LargePicturesAreShrunkForTheReport") {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "samples");
  Image large = {
      .width = 4000, .height = 1000, .channels = 3, .pixels = std::vector<uint8_t>(12000000)};
  uint32_t noise = 1;
  for (uint8_t& value : large.pixels)
    value = static_cast<uint8_t>((noise = noise * 1664525u + 1013904223u) >> 24);
  write_file(folder.path() / "samples" / "latest.png", encode_png(large));
  CHECK(render_report(folder.path()).size() < 4000000);
}

TEST_CASE("CurvesOfOneScaleShareAChartAndEachHasAMeaning") {
  const Curve curve = {{0, 1}, {1, 2}};
  const std::vector<Chart> charts = charts_of({{"Loss/D/loss", curve},
                                               {"Loss/G/loss", curve},
                                               {"Loss/other", curve},
                                               {"Progress/kimg", curve}});
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].curves.size() == 2);
  CHECK(charts[0].curves[0].name == "Loss/G/loss");
  CHECK(charts[1].title == "Loss/other");
  for (const Chart& chart : charts) {
    for (const ExplainedCurve& one : chart.curves) CHECK(one.meaning.back() == '.');
  }
}

}  // namespace
}  // namespace gantrain
