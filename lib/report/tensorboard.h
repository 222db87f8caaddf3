// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace gantrain {

// Size of an encoded picture, as TensorBoard wants it beside the bytes.
struct PictureSize {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
};

// One TensorBoard event file, FOLDER/events.out.tfevents.<time>.<host>.<pid>, made at once. Events
// are kept in memory until flush() (or 64 KB); a record is written whole. Not for use by several
// threads. Throws UserError(kDisk) naming the file.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& folder);
  ~EventWriter();  // flushes; what cannot be written then is lost
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Tells readers to forget what earlier files of the folder hold at this step and later: a resumed
  // run calls it first.
  void resume_at(int64_t step);

  void scalar(std::string_view tag, int64_t step, double value);
  void image_png(std::string_view tag, int64_t step, std::string_view png, const PictureSize& size);
  void text(std::string_view tag, int64_t step, std::string_view markdown);
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void record(const std::string& event);
  void summary(int64_t step, const std::string& value);

  std::filesystem::path path_;
  std::string pending_;
  int descriptor_ = -1;
};

}  // namespace gantrain
