// SPDX-License-Identifier: Apache-2.0
#include "data/unpack.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "data/archive_input.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {

constexpr size_t kBlock = size_t{64} << 10;
// Pictures hardly shrink, and MNIST's digits do by five. What grows by more is a bomb.
constexpr int64_t kMostGrowth = 200;
constexpr int64_t kAlwaysAllowed = int64_t{256} << 20;
constexpr double kSecondsWorthAWord = 2;

struct Temporary {
  int descriptor = -1;
  std::string folder;
};

// $TMPDIR is the user's choice; /tmp often lies in memory, /var/tmp hardly ever.
Temporary make_temporary(const std::string& name) {
  std::vector<std::string> folders = {"/var/tmp", "/tmp"};
  if (const char* chosen = std::getenv("TMPDIR"); chosen != nullptr && *chosen != '\0') {
    folders.insert(folders.begin(), chosen);
  }
  for (const std::string& folder : folders) {
    int descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (descriptor < 0) {  // not every file system has files without a name
      std::string path = folder + "/gantrain-XXXXXX";
      descriptor = ::mkostemp(path.data(), O_CLOEXEC);
      if (descriptor >= 0) ::unlink(path.c_str());
    }
    if (descriptor >= 0) return {descriptor, folder};
  }
  fail(Exit::kDisk,
       "{}: no temporary file can be made to unpack it: {}; TMPDIR names a folder for it",
       name,
       errno_text());
}

// The temporary file while it is being written.
class Output {
 public:
  Output(const FilePart& packed, const StopCheck& stop)
      : packed_(packed), stop_(stop), temporary_(make_temporary(packed.name)) {}
  ~Output() {
    if (temporary_.descriptor >= 0) ::close(temporary_.descriptor);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void write(const char* data, size_t count) {
    written_ += static_cast<int64_t>(count);
    if (written_ > kAlwaysAllowed && written_ / kMostGrowth > packed_.size) {
      fail(Exit::kInput,
           "{}: unpacks to more than {} times its size; that is no data set",
           packed_.name,
           kMostGrowth);
    }
    if (stop_ && stop_()) fail(Exit::kStopped, "stopped while {} was unpacked", packed_.name);
    while (count > 0) {
      const ssize_t done = ::write(temporary_.descriptor, data, count);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_write();
      data += done;
      count -= static_cast<size_t>(done);
    }
  }

  const std::string& folder() const { return temporary_.folder; }
  int64_t written() const { return written_; }

  FilePart take() {
    const int descriptor = std::exchange(temporary_.descriptor, -1);
    auto file = std::make_shared<const RandomAccessFile>(descriptor, packed_.name);
    return {.file = std::move(file), .offset = 0, .size = written_, .name = packed_.name};
  }

 private:
  [[noreturn]] void fail_write() const {
    fail(Exit::kDisk,
         "{}: cannot be unpacked to a temporary file in {}: {}; TMPDIR names another folder, or "
         "unpack it yourself and give the result to --data",
         packed_.name,
         temporary_.folder,
         errno_text());
  }

  const FilePart& packed_;
  const StopCheck& stop_;
  Temporary temporary_;
  int64_t written_ = 0;
};

[[noreturn]] void fail_damaged(const FilePart& part, const std::string& reason) {
  fail(Exit::kInput, "{}: cannot be unpacked: {}", part.name, reason);
}

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

// RFC 1952: members one after the other, each with a checksum, which libarchive does not compare.
void unpack_gzip(const FilePart& part, Output& out) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::bad_alloc();
  const std::unique_ptr<z_stream, EndInflate> owner(&stream);
  std::vector<char> in(kBlock);
  std::vector<char> block(kBlock);
  int64_t at = 0;
  bool inside = false;  // a member has begun and not ended
  bool full = false;    // the last block was, so that more may be waiting inside zlib
  bool any = false;     // a member has ended
  while (true) {
    if (stream.avail_in == 0 && !full) {
      stream.avail_in = static_cast<uInt>(part.read(at, in.data(), in.size()));
      stream.next_in = reinterpret_cast<Bytef*>(in.data());
      at += stream.avail_in;
      if (stream.avail_in == 0) break;
    }
    if (any && !inside && *stream.next_in != 0x1f) break;  // padding behind the last member
    inside = true;
    stream.next_out = reinterpret_cast<Bytef*>(block.data());
    stream.avail_out = static_cast<uInt>(block.size());
    const int code = inflate(&stream, Z_NO_FLUSH);
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      fail_damaged(part, stream.msg != nullptr ? stream.msg : "damaged gzip data");
    }
    out.write(block.data(), block.size() - stream.avail_out);
    full = stream.avail_out == 0 && code != Z_STREAM_END;
    if (code == Z_STREAM_END) {
      inside = false;
      any = true;
      inflateReset(&stream);
    }
  }
  if (inside) fail_damaged(part, "it ends too early, the file was probably cut off");
}

void unpack_others(const FilePart& part, Output& out) {
  const ArchiveReader owner(archive_read_new());
  archive* const reader = owner.get();
  if (reader == nullptr) throw std::bad_alloc();
  archive_read_support_filter_zstd(reader);
  archive_read_support_filter_xz(reader);
  archive_read_support_filter_bzip2(reader);
  archive_read_support_format_raw(reader);
  archive_read_support_format_empty(reader);
  ArchiveInput input{part, std::vector<char>(kBlock)};
  const auto check = [&](la_ssize_t code) {
    if (code >= ARCHIVE_OK || code == ARCHIVE_WARN) return;
    if (!input.failed.empty()) fail(Exit::kInput, "{}", input.failed);
    const char* reason = archive_error_string(reader);
    fail_damaged(part, reason != nullptr ? reason : "damaged data");
  };
  check(archive_read_open(reader, &input, nullptr, read_archive_input, nullptr));
  archive_entry* entry = nullptr;
  const int first = archive_read_next_header(reader, &entry);
  if (first == ARCHIVE_EOF) return;
  check(first);
  std::vector<char> block(kBlock);
  while (true) {
    const la_ssize_t count = archive_read_data(reader, block.data(), block.size());
    check(count);
    if (count <= 0) break;
    out.write(block.data(), static_cast<size_t>(count));
  }
}

bool is_gzip(std::string_view start) { return starts_with(start, "\x1f\x8b"); }

}  // namespace

bool is_compressed(std::string_view start) {
  return is_gzip(start) || starts_with(start, "\x28\xb5\x2f\xfd") ||
         starts_with(start, std::string_view("\xfd\x37zXZ\0", 6)) || starts_with(start, "BZh");
}

FilePart unpacked(const FilePart& part, const StopCheck& stop) {
  char start[6] = {};
  const std::string_view begins(start, part.read(0, start, sizeof(start)));
  if (!is_compressed(begins)) return part;
  const double began = monotonic_seconds();
  Output out(part, stop);
  if (is_gzip(begins)) {
    unpack_gzip(part, out);
  } else {
    unpack_others(part, out);
  }
  const double seconds = monotonic_seconds() - began;
  if (seconds > kSecondsWorthAWord) {
    info(
        "{}: unpacked {} MB to a temporary file in {} in {:.0f} s, as at every start; unpack it "
        "once yourself to save that",
        part.name,
        out.written() >> 20,
        out.folder(),
        seconds);
  }
  return out.take();
}

}  // namespace gantrain
