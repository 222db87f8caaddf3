// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace gantrain {

// The size of an encoded picture, which TensorBoard stores beside the bytes.
struct PictureSize {
  int64_t width = 0;
  int64_t height = 0;
  int64_t channels = 0;
};

// Writes one TensorBoard event file, FOLDER/events.out.tfevents.<time>.<host>.<pid>, which it makes
// at once. Events are kept in memory until flush(), or until there are 64 KB; a record is always
// written whole. One thread at a time may use it. Throws UserError(kDisk) that names the file.
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& folder);
  ~EventWriter();  // flushes; events that cannot be written are lost
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // Tells readers to forget events of earlier files in the folder at this step and later. A resumed
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

// The records that an event file begins with.
struct EventRecords {
  int64_t count = 0;
  size_t bytes = 0;  // of these records; what follows is cut off or broken
};

// Counts the records whose two checksums are right, up to the first that is not whole.
EventRecords count_event_records(std::string_view file);

}  // namespace gantrain
