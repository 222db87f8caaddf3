// SPDX-License-Identifier: Apache-2.0
#include "data/containers/source.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <set>

#include "data/containers/formats.h"
#include "util/error.h"
#include "util/file_kind.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

RandomAccessFile::RandomAccessFile(const std::string& path, std::string name)
    : name_(std::move(name)), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) fail(Exit::kInput, "{}: cannot be opened: {}", name_, errno_text());
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

RandomAccessFile::RandomAccessFile(int descriptor, std::string name)
    : name_(std::move(name)), descriptor_(descriptor), has_path_(false) {
  struct stat status = {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

size_t RandomAccessFile::read(int64_t offset, char* out, size_t count) const {
  size_t done = 0;
  while (done < count) {
    const ssize_t got =
        ::pread(descriptor_, out + done, count - done, offset + static_cast<int64_t>(done));
    if (got == 0) break;
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      fail(Exit::kInput, "{}: cannot be read: {}", name_, errno_text());
    }
  }
  return done;
}

size_t FilePart::read(int64_t at, char* out, size_t count) const {
  if (at < 0 || at >= size) return 0;
  return file->read(offset + at, out, std::min(count, static_cast<size_t>(size - at)));
}

std::string FilePart::bytes(int64_t at, size_t count) const {
  const bool inside = at >= 0 && at <= size && count <= static_cast<size_t>(size - at);
  std::string result(inside ? count : 0, '\0');
  if (!inside || read(at, result.data(), count) != count) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", name);
  }
  return result;
}

FilePart whole_file(const std::string& path) {
  auto file = std::make_shared<const RandomAccessFile>(path, path);
  const int64_t size = file->size();
  return {.file = std::move(file), .offset = 0, .size = size, .name = path};
}

namespace {

constexpr size_t kWhole = size_t{4} << 20;  // contents of so many bytes are read whole
constexpr size_t kPart = size_t{64} << 10;  // of larger ones, bytes that are read at either end

FileMark mark_of_parts(int64_t bytes, std::string_view head, std::string_view tail) {
  Digest digest;
  digest.update(&bytes, sizeof(bytes));
  digest.update(head.data(), head.size());
  digest.update(tail.data(), tail.size());
  return {.bytes = bytes, .hash = "xxh3:" + digest.hex()};
}

// How many of a content's bytes are read at its beginning, and at its end.
size_t head_bytes(size_t size) { return size <= kWhole ? size : kPart; }
size_t tail_bytes(size_t size) { return size <= kWhole ? 0 : kPart; }

std::string text_of(const struct stat& status) {
  return fmt::format("{}-{}-{}.{:09}",
                     status.st_size,
                     status.st_ino,
                     status.st_ctim.tv_sec,
                     status.st_ctim.tv_nsec);
}

namespace fs = std::filesystem;

// Whether a folder is one that a run has written: its samples are no data, least of all its own.
bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "STATUS", ignored) && fs::exists(folder / "config.json", ignored);
}

// Collects files below a folder. Folders reached twice through links are entered once, in the
// order of their names, so that a loop ends and the outcome does not depend on the file system.
class FolderScan {
 public:
  explicit FolderScan(fs::path root) : root_(std::move(root)) {}

  std::vector<std::string> files() {
    enter("");
    if (!runs_.empty()) {
      info("{}: left out, the folder of a run{}",
           runs_.front(),
           runs_.size() > 1 ? fmt::format(", and {} more", runs_.size() - 1) : "");
    }
    std::ranges::sort(files_);
    return std::move(files_);
  }

 private:
  void enter(const std::string& folder) {
    std::error_code error;
    const fs::path path = root_ / folder;
    if (!folder.empty() && is_run(path)) {
      runs_.push_back(path.string());
      return;
    }
    if (!seen_.insert(fs::canonical(path, error).string()).second) return;
    std::vector<std::string> folders;
    fs::directory_iterator entry(path, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      const std::string name = entry->path().filename().string();
      if (is_hidden(name)) continue;
      const std::string relative = folder.empty() ? name : folder + "/" + name;
      std::error_code ignored;  // a dangling link is neither file nor folder
      if (entry->is_directory(ignored)) {
        folders.push_back(relative);
      } else if (entry->is_regular_file(ignored)) {
        files_.push_back(relative);
      }
    }
    if (error) fail(Exit::kInput, "{}: cannot read the folder: {}", path.string(), error.message());
    std::ranges::sort(folders);
    for (const std::string& inner : folders) enter(inner);
  }

  fs::path root_;
  std::set<std::string> seen_;
  std::vector<std::string> files_;
  std::vector<std::string> runs_;
};

class Folder final : public Source {
 public:
  explicit Folder(const std::string& path) : root_(path) { files_ = FolderScan(path).files(); }

  std::string name(size_t file) const override { return (root_ / files_[file]).string(); }
  std::optional<FilePart> part(size_t file) const override { return whole_file(name(file)); }
  std::string stamp(size_t file) const override { return stamp_of(name(file)); }

 private:
  fs::path root_;
};

constexpr const char* kWhatIsTaken =
    "--data takes pictures in a folder, zip or tar (also shards-{000..010}.tar, plain or "
    "compressed) or LMDB, CIFAR's or MNIST's files, or synth:shapes";
constexpr size_t kMostPaths = 100'000;  // that a pattern may stand for

bool is_tar_name(std::string_view path) {
  const std::string name = lower(path);
  for (const char* ending : {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"}) {
    if (ends_with(name, ending)) return true;
  }
  return false;
}

// Writes out "{000..010}" and "{a,b}", the first braces first, as shells do.
void expand_braces(const std::string& pattern, std::vector<std::string>& paths) {
  const size_t open = pattern.find('{');
  const size_t close = open == std::string::npos ? open : pattern.find('}', open);
  if (paths.size() > kMostPaths) fail(Exit::kInput, "{}: stands for too many files", pattern);
  if (close == std::string::npos) {
    paths.push_back(pattern);
    return;
  }
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  const auto with = [&](const std::string& part) {
    expand_braces(pattern.substr(0, open) + part + pattern.substr(close + 1), paths);
  };
  const size_t dots = inside.find("..");
  if (dots == std::string::npos) {
    for (const std::string& part : split(inside, ',')) with(part);
    return;
  }
  const std::string low = inside.substr(0, dots);
  const auto first = parse_int(low);
  const auto last = parse_int(inside.substr(dots + 2));
  if (!first || !last || *first < 0 || *last < *first || *last - *first > int64_t{kMostPaths}) {
    fail(Exit::kInput, "{}: {{{}}} is no range such as {{000..010}}", pattern, inside);
  }
  const size_t digits = low.front() == '0' ? low.size() : 0;
  for (int64_t i = *first; i <= *last; ++i) with(fmt::format("{:0{}}", i, digits));
}

// The files that a pattern stands for. Those that braces name must be there.
std::vector<std::string> expand(const std::string& pattern) {
  std::vector<std::string> named;
  expand_braces(pattern, named);
  std::vector<std::string> paths;
  for (const std::string& path : named) {
    glob_t found = {};
    if (::glob(path.c_str(), 0, nullptr, &found) == 0) {
      paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    } else {
      ::globfree(&found);
      fail(Exit::kInput, "{}: no such file; {}", path, kWhatIsTaken);
    }
    ::globfree(&found);
  }
  return paths;
}

// Data files among the files of a folder or archive that has no pictures; else the source itself.
std::unique_ptr<Source> with_records(std::unique_ptr<Source> source,
                                     const DataOptions& options,
                                     const StopCheck& stop) {
  for (size_t file = 0; file < source->files().size(); ++file) {
    if (source->is_picture(file)) return source;
  }
  if (auto cifar = cifar_in(*source)) return cifar;
  if (auto idx = idx_in(*source, options, stop)) return idx;
  return source;
}

std::unique_ptr<Source> open_directory(const DataOptions& options, const StopCheck& stop) {
  const fs::path data = fs::path(options.path) / "data.mdb";
  std::error_code ignored;
  if (fs::is_regular_file(data, ignored)) return open_lmdb(whole_file(data.string()), options);
  auto source = with_records(open_folder(options.path), options, stop);
  std::vector<std::string> tars;
  for (size_t file = 0; file < source->files().size(); ++file) {
    if (source->is_picture(file)) return source;
    if (is_tar_name(source->files()[file])) tars.push_back(source->name(file));
  }
  return tars.empty() ? std::move(source) : with_records(open_tars(tars, stop), options, stop);
}

std::string start_of(const FilePart& part) {
  std::array<char, 512> start = {};
  return std::string(start.data(), part.read(0, start.data(), start.size()));
}

// Opens the one file that --data names; null where it is none that is known here.
std::unique_ptr<Source> open_known(FilePart& file,
                                   const DataOptions& options,
                                   const StopCheck& stop) {
  const std::string& path = options.path;
  std::string start = start_of(file);
  if (ends_with(lower(path), ".zip") || starts_with(start, "PK")) return open_zip(path);
  if (is_npy(start)) return open_npy_set(file);
  if (is_image_name(path) || is_stack_name(path))
    fail(Exit::kInput, "{}: a single picture; --data wants the folder that holds it", path);
  if (is_compressed(start) && is_tar_name(path)) return open_tars({path}, stop);
  file = unpacked(file, stop);
  start = start_of(file);
  if (is_lmdb(start)) return open_lmdb(file, options);
  if (is_idx(start)) return open_idx_file(file, options, stop);
  if (is_tar(start) || is_tar_name(path)) return open_tars({path}, stop);
  return cifar_batch(file);  // its binary files have no signature
}

std::unique_ptr<Source> open_file(const DataOptions& options, const StopCheck& stop) {
  FilePart file = whole_file(options.path);
  if (auto source = open_known(file, options, stop))
    return with_records(std::move(source), options, stop);
  fail(Exit::kInput,
       "{}: {}; {}",
       options.path,
       file.size == 0 ? "an empty file"
                      : "neither an archive of pictures nor a data file that is known here",
       kWhatIsTaken);
}

// Several files are one data set only where they are tar archives. A name such as a.tar is enough
// here: what is broken in the archive is said when it is opened.
void check_tars(const std::string& pattern, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (is_tar_name(path)) continue;
    std::error_code ignored;
    const std::string start = fs::is_regular_file(path, ignored) ? start_of(whole_file(path)) : "";
    if (is_tar(start) || is_compressed(start)) continue;
    const std::string folder = fs::path(path).parent_path().string();
    fail(Exit::kInput,
         "{}: {} is no tar archive; a pattern stands for tar archives, or for one file or folder. "
         "For pictures name their folder: --data {}",
         pattern,
         path,
         shell_quote(folder.empty() ? "." : folder));
  }
}

}  // namespace

FileMark mark_of(std::string_view content) {
  const std::string_view tail = content.substr(content.size() - tail_bytes(content.size()));
  return mark_of_parts(
      static_cast<int64_t>(content.size()), content.substr(0, head_bytes(content.size())), tail);
}

FileMark mark_of(const FilePart& part) {
  const auto size = static_cast<size_t>(part.size);
  const std::string head = part.bytes(0, head_bytes(size));
  const size_t rest = tail_bytes(size);
  const std::string tail = part.bytes(static_cast<int64_t>(size - rest), rest);
  return mark_of_parts(part.size, head, tail);
}

FileMark mark_of_checksum(int64_t bytes, uint32_t checksum) {
  return {.bytes = bytes, .hash = fmt::format("crc32:{:08x}", checksum)};
}

std::string stamp_of(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 ? text_of(status) : "";
}

std::string RandomAccessFile::stamp() const {
  struct stat status = {};
  return has_path_ && ::fstat(descriptor_, &status) == 0 ? text_of(status) : "";
}

FileMark Source::mark(size_t file) const {
  if (const auto unchanged = part(file)) return mark_of(*unchanged);
  std::string content;
  read(file, content);
  return mark_of(content);
}

std::string Source::stamp(size_t file) const {
  const auto unchanged = part(file);
  return unchanged ? unchanged->file->stamp() : "";
}

std::optional<size_t> Source::find(std::string_view path) const {
  const auto found = std::lower_bound(files().begin(), files().end(), path);
  if (found == files().end() || *found != path) return std::nullopt;
  return static_cast<size_t>(found - files().begin());
}

bool Source::is_picture(size_t file) const {
  return is_image_name(files()[file]) || (stacks_ && is_stack_name(files()[file]));
}

void Source::decode(size_t file, const NeededSize& needed, std::string& bytes, Image& image) const {
  read(file, bytes);
  decode_image(bytes, name(file), needed, image);
}

namespace {

// Most headers lie in the first bytes of a file, which are read alone, or with the last ones;
// nothing where they do not.
std::optional<ImageInfo> info_at_start(const std::optional<FilePart>& part) {
  constexpr size_t kStart = size_t{64} << 10;
  if (!part || part->size <= int64_t{kStart}) return std::nullopt;
  check_file_bytes(part->name, static_cast<uint64_t>(part->size));
  try {
    const auto last = [&] { return part->bytes(part->size - int64_t{kStart}, kStart); };
    return image_info(part->bytes(0, kStart), last, part->name);
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

ImageInfo Source::look(size_t file, bool headers_only) const {
  if (headers_only) {
    if (const auto info = info_at_start(part(file))) return *info;
  }
  std::string bytes;
  read(file, bytes);
  if (!headers_only) verify_image(bytes, name(file));
  return image_info(bytes, name(file));
}

void Source::read(size_t file, std::string& bytes) const { read_part(part(file).value(), bytes); }

void check_file_bytes(const std::string& name, uint64_t bytes) {
  if (bytes <= uint64_t{kMaxFileBytes}) return;
  fail(Exit::kInput,
       "{}: {} MB are too many for a picture (at most {})",
       name,
       bytes >> 20,
       kMaxFileBytes >> 20);
}

void read_part(const FilePart& part, std::string& bytes) {
  check_file_bytes(part.name, static_cast<uint64_t>(part.size));
  bytes.resize(static_cast<size_t>(part.size));
  if (part.read(0, bytes.data(), bytes.size()) != bytes.size()) {
    fail(Exit::kInput, "{}: ends too early, the file was probably cut off", part.name);
  }
}

std::unique_ptr<Source> open_folder(const std::string& path) {
  return std::make_unique<Folder>(path);
}

bool is_hidden(std::string_view path) {
  for (const std::string& part : split(path, '/')) {
    if (starts_with(part, ".") || part == "__MACOSX") return true;
  }
  return false;
}

namespace {

// Pictures that were not taken for such where they lie among others: labels, masks, embeddings.
void take_stacks_alone(Source& source) {
  for (size_t file = 0; file < source.files().size(); ++file) {
    if (source.is_picture(file)) return;
  }
  source.take_stacks();
}

std::unique_ptr<Source> open_plain(const DataOptions& options, const StopCheck& stop) {
  const std::string& path = options.path;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return open_directory(options, stop);
  if (fs::is_regular_file(status)) return open_file(options, stop);
  if (!fs::exists(status) && path.find_first_of("{*?[") != std::string::npos) {
    const std::vector<std::string> paths = expand(path);
    if (paths.size() == 1) {
      DataOptions one = options;
      one.path = paths.front();
      return open_plain(one, stop);
    }
    check_tars(path, paths);
    return with_records(open_tars(paths, stop), options, stop);
  }
  refuse_address(path);
  if (!fs::exists(status)) {
    const bool denied = error == std::errc::permission_denied;
    fail(Exit::kInput,
         "{}: {}; {}",
         path,
         denied ? "no permission to look there" : "no such file or folder",
         kWhatIsTaken);
  }
  fail(Exit::kInput, "{}: neither a file nor a folder; {}", path, kWhatIsTaken);
}

}  // namespace

std::unique_ptr<Source> open_source(const DataOptions& options, const StopCheck& stop) {
  std::unique_ptr<Source> source = open_plain(options, stop);
  take_stacks_alone(*source);
  return joined(std::move(source), options.join);
}

std::optional<Size> common_size(const Source& source) {
  std::optional<Size> size;
  for (size_t file = 0; file < source.files().size(); ++file) {
    if (!source.is_picture(file)) continue;
    const ImageInfo info = source.look(file, /*headers_only=*/true);
    const Size own = {.width = info.width, .height = info.height};
    if (!size) size = own;
    if (own == *size) continue;
    fail(Exit::kInput,
         "{}: {}x{} pixels, others have {}x{}; --resolution brings all of them to one size",
         source.name(file),
         own.width,
         own.height,
         size->width,
         size->height);
  }
  return size;
}

}  // namespace gantrain
