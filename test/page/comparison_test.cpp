// SPDX-License-Identifier: Apache-2.0
#include "page/run_page.h"
#include "support/catch.h"
#include "support/made_run.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

void replace_in(const fs::path& file, const std::string& old, const std::string& now) {
  std::string text = read_file(file);
  const size_t at = text.find(old);
  REQUIRE(at != std::string::npos);
  write_file(file, text.replace(at, old.size(), now));
}

}  // namespace

TEST_CASE("RunsAreComparedByWhatDiffers") {
  const TemporaryFolder folder;
  make_run(folder / "a");
  make_run(folder / "b", {.distinctness = 0.02});
  replace_in(folder / "b" / "config.json", R"("value": 64)", R"("value": "1<2")");
  const std::string page = render_comparison({folder / "a", folder / "b"});
  CHECK(contains(page, "<h1>2 runs compared</h1>"));
  CHECK(contains(page, "<tr><td>train.batch</td><td>64</td><td>1&lt;2</td></tr>"));
  CHECK(!contains(page, "<td>train.kimg</td>"));
  CHECK(contains(page, "<td>no failure found: whether quality rises is not known"));
  CHECK(contains(page, "<td>collapsed: for 3 measurements"));
  // Both runs' curves in one chart.
  const size_t chart = page.find("<h3>G&#39;s loss</h3>");
  REQUIRE(chart != std::string::npos);
  const std::string figure = page.substr(chart, page.find("</figure>", chart) - chart);
  CHECK(contains(figure, "<title>a</title>"));
  CHECK(contains(figure, "<title>b</title>"));
  CHECK(contains(figure, "line line1"));
  CHECK(contains(page, "<img alt=\"b\" src=\"data:image/png"));
}

TEST_CASE("KeysOfAnotherRecipeAreFolded") {
  const TemporaryFolder folder;
  make_run(folder / "a");
  make_run(folder / "b");
  replace_in(folder / "b/config.json",
             R"("recipe": {"value": "dcgan", "origin": "preset dcgan-tiny"},)",
             R"("recipe": {"value": "stylegan2"}, "stylegan2.z_dim": {"value": 512},)");
  replace_in(folder / "b/config.json", R"("dcgan.loss")", R"("G.only_here")");
  const std::string page = render_comparison({folder / "a", folder / "b"});
  const size_t folded = page.find(
      "<summary>3 keys that not all of these runs have, such as those of another recipe</summary>");
  REQUIRE(folded != std::string::npos);
  CHECK(page.find("<td>recipe</td>") < folded);
  for (const char* key : {"dcgan.loss", "stylegan2.z_dim", "G.only_here"})
    CHECK(page.find(std::string("<td>") + key) > folded);
}

TEST_CASE("HowARunWasStoppedIsSaidOnce") {
  const TemporaryFolder folder;
  make_run(folder / "a", {.status = "stopped 200 kimg (STOP), resumable"});
  const std::string page = render_comparison({folder / "a", folder / "a"});
  CHECK(contains(page, "<td>no failure found: whether quality rises is not known"));
  CHECK(contains(page, ">stopped</td><td class=\"short\">200</td>"));
  CHECK(!contains(page, "(STOP)"));
}

TEST_CASE("ARunThatNobodyTrainsIsNotCalledRunning") {
  const TemporaryFolder folder;
  make_run(folder / "a", {.status = "running"});
  CHECK(contains(render_comparison({folder / "a"}), ">running</td>"));
  write_file(folder / "a/.lock", "");
  CHECK(contains(render_comparison({folder / "a"}), ">dead</td>"));
}

TEST_CASE("RunsOfOneNameAreToldApartByTheirPaths") {
  const TemporaryFolder folder;
  make_run(folder / "x/run");
  make_run(folder / "y/run");
  const std::string page = render_comparison({folder / "x/run", folder / "y/run"});
  CHECK(contains(page, "x/run</td>"));
  CHECK(contains(page, "y/run</td>"));
  CHECK(contains(page, "The configurations are the same."));
}

TEST_CASE("WhatIsNoRunCannotBeCompared") {
  const TemporaryFolder folder;
  make_run(folder / "a");
  fs::create_directories(folder / "empty");
  for (const std::string name : {"empty", "missing"}) {
    CAPTURE(name);
    try {
      render_comparison({folder / "a", folder / name});
      FAIL("compared");
    } catch (const UserError& e) {
      CHECK(e.code() == Exit::kInput);
      CHECK(contains(e.what(), name + ": "));
    }
  }
}

TEST_CASE("ARunWithoutATickIsShownBesideOthers") {
  const TemporaryFolder folder;
  make_run(folder / "a");
  make_run(folder / "young");
  fs::remove(folder / "young" / "stats.jsonl");
  const std::string html = render_comparison({folder / "young", folder / "a"});
  CHECK(contains(html, "no tick has been reported yet"));
  CHECK_THROWS_WITH(render_comparison({folder / "young", folder / "young"}),
                    Catch::Contains("young: stats.jsonl"));
}

TEST_CASE("AComparisonOfManyRunsStaysBelowFiveMegabytes") {
  const TemporaryFolder folder;
  std::vector<fs::path> runs;
  // The limit of 150 KB just lets it through as it is.
  const std::string noise = encode_png(noise_picture(520, 390, 1), 1);
  for (int i = 0; i < 16; ++i) {
    runs.push_back(folder / ("run" + std::to_string(i)));
    make_run(runs.back(), {.ticks = 1000});
    write_file(runs.back() / "samples" / "latest.png", noise);
  }
  const size_t size = render_comparison(runs).size();
  CHECK(size < 5'000'000);
  CHECK(size > 2'800'000);
}

}  // namespace gantrain
