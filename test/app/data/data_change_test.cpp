// SPDX-License-Identifier: Apache-2.0
// Data that changes between the stop of a run and its resume.
#include <fmt/format.h>

#include <map>

#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

Image picture(int i) {
  Image image = test_picture(16, 16, 3);
  for (uint8_t& pixel : image.pixels) pixel = static_cast<uint8_t>(pixel / 2 + 4 * i);
  return image;
}

void write_picture(const fs::path& path, int i) {
  fs::create_directories(path.parent_path());
  write_file(path, encode_png(picture(i), 0));
}

// Twelve pictures, all of the same number of bytes, with labels that a file gives.
void write_labels(const TemporaryFolder& folder, int changed) {
  std::string text = "file,label\n";
  for (int i = 0; i < 12; ++i)
    text += fmt::format("{}.png,{}\n", 10 + i, (i + (i == changed ? 1 : 0)) % 2);
  write_file(folder / "in/labels.csv", text);
}

void write_data(const TemporaryFolder& folder) {
  for (int i = 0; i < 12; ++i) write_picture(folder / fmt::format("in/{}.png", 10 + i), i);
  write_labels(folder, -1);
}

struct Change {
  std::string name;
  std::function<void(const TemporaryFolder&)> act;
  std::string said;  // what the refusal says; "": it is no change
  std::string data = "in";
};

std::vector<Change> all_changes() {
  return {
      {"removed", [](const auto& f) { fs::remove(f / "in/12.png"); }, "1 picture removed (12.png)"},
      {"added",
       [](const auto& f) {
         write_picture(f / "in/09.png", 30);
         append_line(f / "in/labels.csv", "09.png,1");
       },
       "1 picture added (09.png)"},
      {"replaced",
       [](const auto& f) { write_file(f / "in/13.png", encode_png(picture(40))); },
       "1 picture altered (13.png)"},
      {"same size",
       [](const auto& f) { write_picture(f / "in/13.png", 40); },
       "1 picture altered (13.png)"},
      {"relabelled",
       [](const auto& f) { write_labels(f, 3); },
       "1 picture with another label (13.png)"},
      {"touched",
       [](const auto& f) {
         fs::last_write_time(f / "in/14.png", fs::file_time_type::clock::now());
       },
       ""},
      {"moved", [](const auto& f) { fs::rename(f / "in", f / "there"); }, "", "there"},
  };
}

std::string arguments(const std::string& data, const std::string& kimg, const std::string& more) {
  return "--run-dir run --resolution 16 --set train.tick=0.1 --kimg " + kimg + " --data " + data +
         " " + more;
}

// The content of the pictures is read while the run trains.
bool is_marked(const TemporaryFolder& folder) {
  std::error_code error;
  const fs::path path = folder / "run/data-manifest.jsonl";
  return fs::exists(path, error) && holds(read_file(path), "\"digest\":\"");
}

// Copies all files with their times, by which a run sees that nothing was written to them.
void copy_with_times(const fs::path& from, const fs::path& to) {
  fs::copy(from, to, fs::copy_options::recursive);
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(from))
    fs::last_write_time(to / fs::relative(entry.path(), from), entry.last_write_time());
}

// The data, and a run of so many ranks that was trained on it; made once.
void begin(const TemporaryFolder& folder, const std::string& ranks) {
  static std::map<std::string, TemporaryFolder> all;
  const TemporaryFolder& made = all[ranks];
  if (fs::is_empty(made.path())) {
    write_data(made);
    const Outcome outcome =
        gantrain(tiny(arguments("in", "0.032", ranks)), {.folder = made.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    REQUIRE(is_marked(made));
  }
  copy_with_times(made.path(), folder.path());
}

void check_resume(const Change& change, const std::string& ranks) {
  CAPTURE(change.name, ranks);
  const TemporaryFolder folder;
  begin(folder, ranks);
  change.act(folder);
  const Words again = tiny(arguments(change.data, "0.048", ranks));
  const Outcome outcome = gantrain(again, {.folder = folder.path()});
  INFO(outcome.err);
  if (change.said.empty()) {
    CHECK(outcome.code == 0);
    return;
  }
  CHECK(outcome.code == 2);
  CHECK(holds(outcome.err, change.said));
  CHECK(holds(outcome.err, "--force data"));
  CHECK(outcome.left.empty());
  Words forced = again;
  forced.insert(forced.end(), {"--force", "data"});
  const Outcome taken = gantrain(forced, {.folder = folder.path()});
  INFO(taken.err);
  CHECK(taken.code == 0);
  CHECK(holds(taken.err, change.said));
}

TEST_CASE("ChangedDataIsRefusedOnResumeAndTakenByForce") {
  for (const Change& change : all_changes()) check_resume(change, "");
}

TEST_CASE("TwoRanksRefuseChangedData") {
  for (const Change& change : all_changes()) {
    if (change.name == "removed" || change.name == "relabelled" || change.name == "touched")
      check_resume(change, "--nproc 2");
  }
}

// A picture that breaks between two sessions is no other data where such pictures are left out.
TEST_CASE("ABrokenPictureThatIsLeftOutNeedsNoForce") {
  const TemporaryFolder folder;
  begin(folder, "");
  const std::string whole = read_file(folder / "in/13.png");
  const auto time = fs::last_write_time(folder / "in/13.png");
  write_file(folder / "in/13.png", whole.substr(0, 30));
  const std::string skip = "--set data.on_bad=skip";
  CHECK(gantrain(tiny(arguments("in", "0.048", "")), {.folder = folder.path()}).code == 3);
  for (const char* kimg : {"0.048", "0.064"}) {
    const Outcome outcome = gantrain(tiny(arguments("in", kimg, skip)), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(holds(outcome.err, "1 picture of this run's data cannot be read any more: 13.png"));
  }
  CHECK(holds(read_file(folder / "run/data-manifest.jsonl"), "13.png"));
  write_file(folder / "in/13.png", whole);  // mended, it is the picture that the run knows
  fs::last_write_time(folder / "in/13.png", time);
  const Outcome mended = gantrain(tiny(arguments("in", "0.08", skip)), {.folder = folder.path()});
  INFO(mended.err);
  CHECK(mended.code == 0);
  fs::remove(folder / "in/12.png");  // what is gone is a change
  CHECK(gantrain(tiny(arguments("in", "0.096", skip)), {.folder = folder.path()}).code == 2);
}

// After --force the new data is the run's.
TEST_CASE("ForcedDataIsTheRunsFromThenOn") {
  const TemporaryFolder folder;
  begin(folder, "");
  write_picture(folder / "in/99.png", 50);
  append_line(folder / "in/labels.csv", "99.png,1");
  const Outcome forced =
      gantrain(tiny(arguments("in", "0.048", "--force data")), {.folder = folder.path()});
  INFO(forced.err);
  REQUIRE(forced.code == 0);
  CHECK(gantrain(tiny(arguments("in", "0.064", "")), {.folder = folder.path()}).code == 0);
  fs::remove(folder / "in/99.png");
  const Outcome back = gantrain(tiny(arguments("in", "0.08", "")), {.folder = folder.path()});
  CHECK(back.code == 2);
  CHECK(holds(back.err, "1 picture removed (99.png)"));
}

TEST_CASE("OtherDataAltogetherIsRefused") {
  const TemporaryFolder folder;
  begin(folder, "");
  const Outcome outcome =
      gantrain(tiny(arguments("synth:shapes", "0.048", "")), {.folder = folder.path()});
  CHECK(outcome.code == 2);
  CHECK(holds(outcome.err, "in (12 pictures) -> synth:shapes (computed pictures)"));
}

}  // namespace
}  // namespace gantrain
