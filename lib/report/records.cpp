// SPDX-License-Identifier: Apache-2.0
#include "report/records.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/system.h"

namespace gantrain {

namespace {

using Json = nlohmann::ordered_json;

// Finite numbers as they are, others as null: JSON knows no NaN.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json whole(double count) { return Json(static_cast<int64_t>(std::llround(count))); }

}  // namespace

double Moments::std() const {
  if (num == 0) return std::numeric_limits<double>::quiet_NaN();
  const double average = mean();
  return std::sqrt(std::max(0.0, sum_of_squares / num - average * average));
}

void Stats::add(const std::string& name, double value) { add(name, 1, value, value * value); }

void Stats::add(const std::string& name, double num, double sum, double sum_of_squares) {
  Moments& moments = values_[name];
  if (!std::isfinite(sum) || !std::isfinite(sum_of_squares)) {
    moments.bad += num;
    return;
  }
  moments.num += num;
  moments.sum += sum;
  moments.sum_of_squares += sum_of_squares;
}

std::vector<std::string> Stats::names() const {
  std::vector<std::string> names;
  for (const auto& [name, moments] : values_) names.push_back(name);
  return names;
}

std::vector<double> Stats::pack(const std::vector<std::string>& names) const {
  std::vector<double> packed;
  for (const std::string& name : names) {
    const auto found = values_.find(name);
    const Moments m = found == values_.end() ? Moments{} : found->second;
    packed.insert(packed.end(), {m.num, m.sum, m.sum_of_squares, m.bad});
  }
  return packed;
}

void Stats::unpack(const std::vector<std::string>& names, const std::vector<double>& packed) {
  if (packed.size() != 4 * names.size()) throw std::logic_error("Stats::unpack: wrong size");
  for (size_t i = 0; i < names.size(); ++i) {
    const double* m = &packed[4 * i];
    values_[names[i]] = {.num = m[0], .sum = m[1], .sum_of_squares = m[2], .bad = m[3]};
  }
}

std::optional<double> Stats::mean(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end() || found->second.num == 0) return std::nullopt;
  return found->second.mean();
}

std::string Stats::to_json_line(double timestamp) const {
  Json line = Json::object();
  for (const auto& [name, moments] : values_) {
    if (moments.num == 0 && moments.bad == 0) continue;
    Json entry = Json::object();
    entry["num"] = whole(moments.num);
    entry["mean"] = finite_or_null(moments.mean());
    entry["std"] = finite_or_null(moments.std());
    if (moments.bad > 0) entry["bad"] = whole(moments.bad);
    line[name] = std::move(entry);
  }
  line["timestamp"] = timestamp;
  // Names are ours, but a name with broken UTF-8 must not end a run.
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_stats(const std::filesystem::path& folder, const Stats& stats) {
  append_line(folder / "stats.jsonl", stats.to_json_line(unix_seconds()));
}

namespace {

// Field numbers of tensorflow/core/util/event.proto and framework/summary.proto, tensor.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum ValueField { kTag = 1, kSimpleValue = 2, kImage = 4, kTensor = 8, kMetadata = 9 };

void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

// Fields in protobuf's wire format: key = number << 3 | kind.
void put_integer(std::string& out, int field, int64_t value) {
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, static_cast<uint64_t>(value));
}

template <class Number>
void put_fixed(std::string& out, int field, Number value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | (sizeof(Number) == 8 ? 1 : 5));
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));  // little-endian
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_now() {
  std::string out;
  put_fixed(out, kWallTime, unix_seconds());
  return out;
}

// TFRecord's "masked" CRC, so that a CRC over stored CRCs stays a good one.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

void put_masked_crc(std::string& out, std::string_view bytes) {
  const uint32_t crc = masked_crc(bytes);
  out.append(reinterpret_cast<const char*>(&crc), sizeof(crc));
}

constexpr size_t kBuffered = 64 * 1024;  // bytes

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder) {
  const std::string stem = fmt::format("events.out.tfevents.{:010}.{}.{}",
                                       static_cast<int64_t>(unix_seconds()),
                                       host_name(),
                                       getpid());
  // A second writer in the same second gets a name of its own.
  for (int copy = 0; descriptor_ < 0; ++copy) {
    path_ = folder / (copy == 0 ? stem : fmt::format("{}.{}", stem, copy));
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) {
      fail(Exit::kDisk, "{}: cannot be made: {}", path_.string(), errno_text());
    }
  }
  std::string first = event_now();
  put_bytes(first, kFileVersion, "brain.Event:2");
  record(first);
  flush();
}

EventWriter::~EventWriter() {
  [[maybe_unused]] const ssize_t done = ::write(descriptor_, pending_.data(), pending_.size());
  ::close(descriptor_);
}

void EventWriter::record(const std::string& event) {
  const uint64_t length = event.size();
  const std::string_view header(reinterpret_cast<const char*>(&length), sizeof(length));
  pending_ += header;
  put_masked_crc(pending_, header);
  pending_ += event;
  put_masked_crc(pending_, event);
  if (pending_.size() >= kBuffered) flush();
}

void EventWriter::summary(int64_t step, const std::string& value) {
  std::string summary;
  put_bytes(summary, 1, value);  // Summary.value
  std::string event = event_now();
  put_integer(event, kStep, step);
  put_bytes(event, kSummary, summary);
  record(event);
}

void EventWriter::resume_at(int64_t step) {
  std::string session;
  put_integer(session, 1, 1);  // SessionLog.status = START
  std::string event = event_now();
  put_integer(event, kStep, step);
  put_bytes(event, kSessionLog, session);
  record(event);
}

void EventWriter::scalar(std::string_view tag, int64_t step, double value) {
  std::string out;
  put_bytes(out, kTag, tag);
  put_fixed(out, kSimpleValue, static_cast<float>(value));
  summary(step, out);
}

void EventWriter::image_png(std::string_view tag,
                            int64_t step,
                            std::string_view png,
                            const PictureSize& size) {
  std::string image;  // Summary.Image
  put_integer(image, 1, size.height);
  put_integer(image, 2, size.width);
  put_integer(image, 3, size.channels);  // colorspace: 1 grey, 2 with alpha, 3 RGB, 4 RGBA
  put_bytes(image, 4, png);
  std::string out;
  put_bytes(out, kTag, tag);
  put_bytes(out, kImage, image);
  summary(step, out);
}

void EventWriter::text(std::string_view tag, int64_t step, std::string_view markdown) {
  std::string plugin;  // SummaryMetadata.PluginData
  put_bytes(plugin, 1, "text");
  std::string metadata;
  put_bytes(metadata, 1, plugin);
  std::string tensor;
  put_integer(tensor, 1, 7);       // dtype = DT_STRING
  put_bytes(tensor, 2, "");        // shape: a scalar
  put_bytes(tensor, 8, markdown);  // string_val
  std::string out;
  put_bytes(out, kTag, tag);
  put_bytes(out, kMetadata, metadata);
  put_bytes(out, kTensor, tensor);
  summary(step, out);
}

void EventWriter::flush() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t now = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) {
      const std::string reason = errno_text();
      pending_.erase(0, done);
      fail(Exit::kDisk, "{}: cannot write: {}", path_.string(), reason);
    }
    done += static_cast<size_t>(now);
  }
  pending_.clear();
}

EventRecords count_event_records(std::string_view file) {
  constexpr size_t kLength = 8, kCrc = 4;  // bytes: length, its CRC, the event, the event's CRC
  const auto is_right = [](std::string_view bytes, std::string_view stored) {
    std::string crc;
    put_masked_crc(crc, bytes);
    return crc == stored;
  };
  EventRecords records;
  for (;;) {
    std::string_view rest = file.substr(records.bytes);
    if (rest.size() < kLength + 2 * kCrc) return records;
    uint64_t length = 0;
    std::memcpy(&length, rest.data(), kLength);
    if (!is_right(rest.substr(0, kLength), rest.substr(kLength, kCrc))) return records;
    if (length > rest.size() - kLength - 2 * kCrc) return records;
    rest.remove_prefix(kLength + kCrc);
    if (!is_right(rest.substr(0, length), rest.substr(length, kCrc))) return records;
    ++records.count;
    records.bytes += kLength + length + 2 * kCrc;
  }
}

}  // namespace gantrain
