// SPDX-License-Identifier: Apache-2.0
// Data that changes between the stop of a run and its resume.
#include <fmt/format.h>

#include <map>

#include "image/image.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/hash.h"
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

bool has_hashes(const TemporaryFolder& folder) {
  const bool list = fs::exists(folder / "run/data-manifest.jsonl");
  REQUIRE(list != fs::exists(folder / "run/data-manifest.bin"));
  return !list;
}

void append_bytes(uint64_t number, std::string& bytes) {
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(number >> (8 * i));
}

// The 16 bytes of a row of the list (lib/data/pictures/manifest.h, PictureHash).
void append_hash(const nlohmann::json& row, std::string& bytes) {
  const std::string stamp = row[4];
  const uint64_t label = static_cast<uint64_t>(row[3].get<int64_t>() + 1) & 0xffff;
  const uint64_t stamp_bits = stamp.empty() ? 0 : hash64(stamp) % 0xfffff + 1;
  const uint64_t size = hash64(std::to_string(row[1].get<int64_t>())) % 64;
  const uint64_t content = hash64(row[2].get<std::string>()) & 0xfffff;
  append_bytes(hash64(row[0].get<std::string>()), bytes);
  append_bytes(label | stamp_bits << 16 | uint64_t{1} << 36 | size << 38 | content << 44, bytes);
}

// Keeps the manifest as that of a run on more pictures than a list is made of.
void keep_hashes(const TemporaryFolder& folder) {
  const std::vector<std::string> lines =
      split(trim(read_file(folder / "run/data-manifest.jsonl")), '\n');
  const nlohmann::json header = {
      {"format", "gantrain.data-manifest.2"}, {"path", "in"}, {"pictures", lines.size() - 1}};
  std::string bytes = header.dump() + "\n";
  for (size_t i = 1; i < lines.size(); ++i) append_hash(nlohmann::json::parse(lines[i]), bytes);
  Digest digest;
  digest.update(bytes.data(), bytes.size());
  write_file(folder / "run/data-manifest.bin", bytes + digest.hex());
  fs::remove(folder / "run/data-manifest.jsonl");
}

// How many pictures the hashes of a run have marks of: their bits 36 and 37 of the second number.
int64_t marked_hashes(const TemporaryFolder& folder) {
  const std::string bytes = read_file(folder / "run/data-manifest.bin");
  int64_t marked = 0;
  for (size_t at = bytes.find('\n') + 1; at + 16 + 32 <= bytes.size(); at += 16)
    marked += (bytes[at + 12] & 0x30) != 0 ? 1 : 0;
  return marked;
}

enum class Kept { kList, kHashes };

void check_resume(const Change& change, const std::string& ranks, Kept kept = Kept::kList) {
  CAPTURE(change.name, ranks, kept == Kept::kHashes);
  const TemporaryFolder folder;
  begin(folder, ranks);
  if (kept == Kept::kHashes) keep_hashes(folder);
  change.act(folder);
  const Words again = tiny(arguments(change.data, "0.048", ranks));
  const Outcome outcome = gantrain(again, {.folder = folder.path()});
  INFO(outcome.err);
  if (change.said.empty()) {
    CHECK(outcome.code == 0);
    CHECK(has_hashes(folder) == (kept == Kept::kHashes));
    return;
  }
  CHECK(outcome.code == 2);
  CHECK(holds(outcome.err, change.said));
  CHECK(holds(outcome.err, "removed (") == (kept == Kept::kList && change.name == "removed"));
  CHECK(holds(outcome.err, "--force data"));
  CHECK(outcome.left.empty());
  Words forced = again;
  forced.insert(forced.end(), {"--force", "data"});
  const Outcome taken = gantrain(forced, {.folder = folder.path()});
  INFO(taken.err);
  CHECK(taken.code == 0);
  CHECK(holds(taken.err, change.said));
  CHECK_FALSE(has_hashes(folder));  // so few pictures are a list again
}

const std::string kSkip = "--set data.on_bad=skip";

// in/13.png is broken: the run goes on without it, twice, and says so.
void skip_a_broken_picture(const TemporaryFolder& folder) {
  for (const char* kimg : {"0.048", "0.064"}) {
    const Outcome outcome = gantrain(tiny(arguments("in", kimg, kSkip)), {.folder = folder.path()});
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    CHECK(holds(outcome.err, "1 picture of this run's data cannot be read any more: 13.png"));
  }
}

// in/13.png is the picture again that the run knows, which goes on; what is gone is a change.
void check_mended_and_removed(const TemporaryFolder& folder) {
  const Outcome mended = gantrain(tiny(arguments("in", "0.08", kSkip)), {.folder = folder.path()});
  INFO(mended.err);
  CHECK(mended.code == 0);
  fs::remove(folder / "in/12.png");
  CHECK(gantrain(tiny(arguments("in", "0.096", kSkip)), {.folder = folder.path()}).code == 2);
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

// The names of pictures that were removed are not in hashes.
std::vector<Change> changes_of_hashes() {
  std::vector<Change> all = all_changes();
  for (Change& change : all) {
    if (change.name == "removed") change.said = "1 picture removed";
  }
  return all;
}

TEST_CASE("HashesOfPicturesTellOfChangesAsAListDoes") {
  for (const Change& change : changes_of_hashes()) check_resume(change, "", Kept::kHashes);
}

TEST_CASE("TwoRanksRefuseDataThatIsKeptAsHashes") {
  for (const Change& change : changes_of_hashes()) {
    if (change.name == "same size" || change.name == "touched")
      check_resume(change, "--nproc 2", Kept::kHashes);
  }
}

TEST_CASE("ABrokenPictureAmongHashesNeedsNoForceWhereItIsLeftOut") {
  const TemporaryFolder folder;
  begin(folder, "");
  keep_hashes(folder);
  const std::string whole = read_file(folder / "in/13.png");
  write_file(folder / "in/13.png", whole.substr(0, 30));
  skip_a_broken_picture(folder);
  CHECK(has_hashes(folder));
  write_file(folder / "in/13.png", whole);
  check_mended_and_removed(folder);
}

// As with a list that is broken: the run goes on, and says what it does not know.
TEST_CASE("BrokenHashesAreNamedAndKeepNoRunFromGoingOn") {
  const TemporaryFolder folder;
  begin(folder, "");
  keep_hashes(folder);
  const fs::path file = folder / "run/data-manifest.bin";
  const Outcome sound = gantrain({"inspect", "run/data-manifest.bin"}, {.folder = folder.path()});
  INFO(sound.err);
  CHECK(sound.code == 0);
  CHECK(holds(sound.out, "12"));
  write_file(file, read_file(file).substr(0, 200));
  const Outcome broken = gantrain({"inspect", "run/data-manifest.bin"}, {.folder = folder.path()});
  CHECK(broken.code == 3);
  CHECK(holds(broken.err, "data-manifest.bin: broken"));
  const Outcome outcome = gantrain(tiny(arguments("in", "0.048", "")), {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.err, "data-manifest.bin: broken"));
  CHECK(holds(outcome.err, "whether the data has changed is not known"));
  CHECK_FALSE(has_hashes(folder));
}

// Rank 0 of each generation takes them from the folder.
TEST_CASE("ElasticRanksKeepHashes") {
  const TemporaryFolder folder;
  begin(folder, "");
  keep_hashes(folder);
  const std::string elastic = "--nproc 3 --set launch.rank_plan=0:1,4:3,6:2";
  const Outcome outcome =
      gantrain(tiny(arguments("in", "0.128", elastic)), {.folder = folder.path()});
  INFO(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(holds(outcome.err, "ranks   1 -> 3"));
  CHECK(has_hashes(folder));
  CHECK(marked_hashes(folder) == 12);
  write_picture(folder / "in/13.png", 40);
  const Outcome again = gantrain(tiny(arguments("in", "0.144", "")), {.folder = folder.path()});
  CHECK(again.code == 2);
  CHECK(holds(again.err, "1 picture altered (13.png)"));
}

// A picture that breaks between two sessions is no other data where such pictures are left out.
TEST_CASE("ABrokenPictureThatIsLeftOutNeedsNoForce") {
  const TemporaryFolder folder;
  begin(folder, "");
  const std::string whole = read_file(folder / "in/13.png");
  const auto time = fs::last_write_time(folder / "in/13.png");
  write_file(folder / "in/13.png", whole.substr(0, 30));
  CHECK(gantrain(tiny(arguments("in", "0.048", "")), {.folder = folder.path()}).code == 3);
  skip_a_broken_picture(folder);
  CHECK(holds(read_file(folder / "run/data-manifest.jsonl"), "13.png"));
  write_file(folder / "in/13.png", whole);
  fs::last_write_time(folder / "in/13.png", time);
  check_mended_and_removed(folder);
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
