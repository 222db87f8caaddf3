// SPDX-License-Identifier: Apache-2.0
#include "curation/pack_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr const char* kFormat = "gantrain.pack.1";
constexpr double kFlushSeconds = 1;

std::string line_of(const PackedPicture& p) {
  const Json line = {p.label, p.bytes, p.checksum, p.bad};
  // Names of files need not be UTF-8.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<PackedPicture> read_line(const std::string& line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const bool sound = json.is_array() && json.size() == 4 && json[0].is_number_integer() &&
                     json[1].is_number_unsigned() && json[2].is_number_unsigned() &&
                     json[3].is_string();
  if (!sound) return std::nullopt;
  return PackedPicture{.label = json[0], .bytes = json[1], .checksum = json[2], .bad = json[3]};
}

}  // namespace

PackJournal::PackJournal(std::filesystem::path path, const Json& job)
    : path_(std::move(path)), job_({{"format", kFormat}, {"job", job}}) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(Exit::kDisk, "{}: cannot be made: {}", path_.string(), errno_text());
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(descriptor_);
    fail(Exit::kUsage, "{}: another gantrain data pack is at work there", path_.string());
  }
  const std::string content = read_file(path_);
  // The last part has no newline: empty, or a line that was being written when the process died.
  std::vector<std::string> lines = split(content, '\n');
  lines.pop_back();
  const bool same =
      !lines.empty() && Json::parse(lines[0], nullptr, /*allow_exceptions=*/false) == job_;
  was_of_another_job_ = !content.empty() && !same;
  if (!same) {
    const std::string header = job_.dump() + "\n";
    cut(0);
    append(header);
    ends_ = {header.size()};
    return;
  }
  ends_ = {lines[0].size() + 1};
  for (size_t i = 1; i < lines.size(); ++i) {
    auto picture = read_line(lines[i]);
    if (!picture) break;
    pictures_.push_back(std::move(*picture));
    ends_.push_back(ends_.back() + lines[i].size() + 1);
  }
  cut(ends_.back());
}

PackJournal::~PackJournal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PackJournal::keep_first(size_t kept) {
  if (kept >= pictures_.size()) return;
  flush();
  pictures_.resize(kept);
  ends_.resize(kept + 1);
  cut(ends_.back());
}

void PackJournal::add(PackedPicture picture) {
  const std::string line = line_of(picture);
  unwritten_ += line;
  ends_.push_back(ends_.back() + line.size());
  pictures_.push_back(std::move(picture));
  if (monotonic_seconds() - written_at_ >= kFlushSeconds) flush();
}

void PackJournal::flush() {
  append(std::exchange(unwritten_, ""));
  written_at_ = monotonic_seconds();
}

void PackJournal::remove() { ::unlink(path_.c_str()); }

// Keeps the first bytes of the file and goes on behind them.
void PackJournal::cut(size_t bytes) {
  const auto size = static_cast<off_t>(bytes);
  if (::ftruncate(descriptor_, size) != 0 || ::lseek(descriptor_, size, SEEK_SET) != size)
    fail(Exit::kDisk, "{}: cannot be written: {}", path_.string(), errno_text());
}

void PackJournal::append(const std::string& text) {
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t done = ::write(descriptor_, text.data() + at, text.size() - at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(Exit::kDisk, "{}: cannot be written: {}", path_.string(), errno_text());
    at += static_cast<size_t>(done);
  }
}

}  // namespace gantrain
