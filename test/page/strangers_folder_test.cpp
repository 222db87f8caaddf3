// SPDX-License-Identifier: Apache-2.0
// Run folders whose files somebody else has made to do harm.
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <cmath>

#include "page/run_page.h"
#include "support/catch.h"
#include "support/made_run.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSecret = "correct horse battery staple";
constexpr std::array<const char*, 6> kFiles = {
    "STATUS", "config.json", "env.json", "command.txt", "log.txt", "stats.jsonl"};

std::string deep(const std::string& before, const std::string& after) {
  constexpr size_t kDepth = 300'000;
  return before + std::string(kDepth, '[') + std::string(kDepth, ']') + after;
}

// The most that this process has held, in kB.
long most_memory() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

TEST_CASE("JsonOfAnyDepthEndsNoPage") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  make_run(run, {.last_rows = deep(R"({"Progress/kimg":{"mean":204},"x":)", "}\n")});
  fs::create_directories(run / "errors");
  write_file(run / "config.json", deep(R"({"values":{"a":{"value":)", "}}}"));
  write_file(run / "env.json", deep(R"({"a":)", "}"));
  write_file(run / "errors/rank0.json",
             deep(R"({"message":{"message":"x","extraInfo":{"a":)", "}}}"));
  write_file(run / "metric-fid.jsonl", deep(R"({"results":{"fid":1},"kimg":1,"recipe":)", "}\n"));
  const RunRecord record = read_run_record(run);
  CHECK(record.settings.empty());
  CHECK(record.environment.empty());
  CHECK(record.ends.empty());
  CHECK(record.stats.at("Progress/kimg").back().first == 200);
  CHECK(record.metrics.size() == 1);
  CHECK(contains(render_run_page(run), "</html>"));
}

TEST_CASE("WhatALinkLeadsToIsNotShown") {
  const TemporaryFolder folder, others;
  const fs::path run = folder / "run";
  make_run(others / "run", {.status = kSecret, .last_rows = std::string(kSecret) + "\n"});
  write_file(others / "run/log.txt", "2026-01-12 09:00:02 warning " + std::string(kSecret) + "\n");
  write_file(others / "run/command.txt", kSecret);
  write_file(others / "run/env.json", "{\"a\": \"" + std::string(kSecret) + "\"}");
  fs::create_directories(others / "run/errors");
  write_file(others / "run/errors/rank0.json",
             "{\"message\":{\"message\":\"" + std::string(kSecret) + "\",\"extraInfo\":{}}}");
  REQUIRE(contains(render_run_page(others / "run"), kSecret));
  REQUIRE(contains(render_run_page(others / "run"), "data:image"));
  fs::create_directories(run);
  for (const char* name : kFiles) fs::create_symlink(others / "run" / name, run / name);
  for (const char* name : {"samples", "errors"})
    fs::create_directory_symlink(others / "run" / name, run / name);
  CHECK_FALSE(is_run_folder(run));
  CHECK_THROWS_AS(render_comparison({run}), UserError);
  const std::string page = render_run_page(run);
  CHECK_FALSE(contains(page, kSecret));
  CHECK_FALSE(contains(page, "data:image"));
  fs::remove(run / "samples");
  fs::create_directories(run / "samples");
  fs::create_symlink(others / "run/samples/latest.png", run / "samples/latest.png");
  CHECK_FALSE(contains(render_run_page(run), "data:image"));
}

TEST_CASE("NothingIsWaitedForAndNothingEndlessIsRead") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  const long before = most_memory();
  const auto replace_all = [&](const auto& make) {
    make_run(run);
    for (const char* name : kFiles) {
      fs::remove(run / name);
      make(run / name);
    }
    fs::remove(run / "samples/latest.png");
    make(run / "samples/latest.png");
    CHECK(contains(render_run_page(run), "</html>"));
    CHECK(read_run_record(run).status.empty());
    for (const char* name : kFiles) fs::remove(run / name);
    fs::remove(run / "samples/latest.png");
  };
  replace_all([](const fs::path& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); });
  replace_all([](const fs::path& path) { fs::create_symlink("/dev/zero", path); });
  replace_all([](const fs::path& path) { fs::create_directory(path); });
  replace_all([](const fs::path& path) {
    write_file(path, "");
    fs::resize_file(path, uintmax_t{1} << 40);  // holds no block on the disk
  });
  CHECK(most_memory() - before < 400 * 1024);  // what is freed counts under a sanitizer
}

TEST_CASE("APictureThatTakesMuchMemoryIsNotShown") {
  const TemporaryFolder folder;
  const auto channels = static_cast<double>(grey_picture(1).channels);
  write_file(folder / "a.png",
             encode_png(grey_picture(static_cast<int64_t>(std::sqrt(111e6 / channels))), 1));
  CHECK_FALSE(EmbeddedPictures().url_of(folder / "a.png", {}));
}

TEST_CASE("ManyCurvesAndLongLinesAreBounded") {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  std::string rows =
      "{\"Progress/kimg\":{\"mean\":201},\"long\":\"" + std::string(2 << 20, 'x') + "\"}\n";
  for (int i = 0; i < 5000; ++i)
    rows += "{\"Progress/kimg\":{\"mean\":202},\"c" + std::to_string(i) + "\":{\"mean\":1}}\n";
  make_run(run, {.last_rows = rows});
  const auto stats = read_stats(run);
  CHECK(stats.size() == 2000);
  CHECK(stats.at("Progress/kimg").back().first == 202);
}

}  // namespace
}  // namespace gantrain
