// SPDX-License-Identifier: Apache-2.0
#include "curation/packing.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "config/config.h"
#include "data/containers/source.h"
#include "data/labels/labels.h"
#include "data/load/threads.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// Whether the output is a zip archive; else it is a folder.
bool is_zip_name(const std::string& output) { return ends_with(lower(output), ".zip"); }

// "photos/" -> "photos".
std::string without_slashes(std::string output) {
  while (output.size() > 1 && output.back() == '/') output.pop_back();
  return output;
}

// Without links, with everything that is there resolved.
fs::path real(const std::string& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path), error);
  if (error) return fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

bool is_inside(const fs::path& inner, const fs::path& outer) {
  const auto [in_outer, in_inner] =
      std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return in_outer == outer.end() && in_inner != inner.end();
}

void check_name(const std::string& output) {
  for (const char* ending :
       {".tar", ".tgz", ".gz", ".zst", ".xz", ".7z", ".rar", ".lmdb", ".png"}) {
    if (ends_with(lower(output), ending))
      fail(Exit::kUsage, "-o {}: data pack writes NAME.zip or a folder", output);
  }
}

// Whether a folder is what data pack has written, or empty.
bool is_packed(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return false;
  return fs::exists(folder / "dataset.json", error) || fs::is_empty(folder, error);
}

// --force replaces only what data pack, or a tool like it, has written.
void check_replaced(const PackRequest& request) {
  const fs::path path = request.output;
  std::error_code error;
  if (!fs::exists(path, error)) return;
  const bool folder = fs::is_directory(path, error);
  if (folder && !is_zip_name(request.output) && fs::is_empty(path, error)) return;
  if (!request.force)
    fail(Exit::kUsage, "{}: exists; give another name, or --force to replace it", path.string());
  if (folder == is_zip_name(request.output)) {
    fail(Exit::kUsage,
         "{}: is a {}, and is not replaced by a {}; give another name",
         path.string(),
         folder ? "folder" : "file",
         folder ? "zip" : "folder");
  }
  if (folder && !fs::exists(path / "dataset.json", error)) {
    fail(Exit::kUsage,
         "{}: a folder without dataset.json is no packed data, and is not replaced even by --force",
         path.string());
  }
  const fs::path old = replaced_path(path);
  if (folder && fs::exists(old, error) && !is_packed(old)) {
    fail(Exit::kUsage,
         "{}: exists, and --force needs this name for a moment; rename or remove it",
         old.string());
  }
}

// What is not of an interrupted command, as the journal beside it would tell, is never removed.
void check_partial(const std::string& output) {
  const fs::path partial = partial_path(output), journal = journal_path(output);
  std::error_code error;
  if (!fs::exists(partial, error) || fs::exists(journal, error)) return;
  if (fs::is_empty(partial, error)) return;
  fail(Exit::kUsage,
       "{}: exists, and is of no interrupted data pack: {} is not beside it; rename or remove it, "
       "or give another -o",
       partial.string(),
       journal.filename().string());
}

// Throws UserError(kUsage) where the output of `data pack` must not be written: it exists (unless
// request.force), is the source or lies in its folder, its name asks for another kind of archive,
// or a name that the work needs beside it is taken by something else; UserError(kDisk) where the
// folder that it shall lie in is missing or cannot be written.
void check_pack_target(const PackRequest& request) {
  check_name(request.output);
  const fs::path source = real(request.path), target = real(request.output);
  if (source == target)
    fail(Exit::kUsage, "-o {}: is the data itself; give another name", request.output);
  if (is_inside(source, target) || (is_inside(target, source) && !is_zip_name(request.output))) {
    fail(
        Exit::kUsage,
        "-o {}: {} and {} lie in one another: pictures would be packed twice; give a folder beside "
        "the data",
        request.output,
        request.path,
        request.output);
  }
  check_replaced(request);
  check_partial(request.output);
  const fs::path folder = target.parent_path();
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail(Exit::kDisk, "{}: no such folder; make it first", folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(Exit::kDisk, "{}: cannot be written: {}", folder.string(), errno_text());
}

// Gives a folder its name back that a killed command had just moved aside to replace it.
void put_back_replaced(const std::string& output) {
  const fs::path path = output, old = replaced_path(path);
  std::error_code error;
  const bool was_killed = !fs::exists(path, error) && fs::exists(journal_path(path), error) &&
                          fs::is_directory(partial_path(path), error);
  if (is_zip_name(output) || !was_killed || !is_packed(old)) return;
  fs::rename(old, path, error);
  if (error) return;
  warn("{}: was being replaced when an earlier command ended; it has its name back", output);
}

constexpr int64_t kPiece = 32;  // files that a thread looks at for a digest at a time

std::string entry_name(int64_t number, bool stacks) {
  const std::string digits = fmt::format("{:08}", number);
  return fmt::format("{}/img{}.{}", digits.substr(0, 5), digits, stacks ? "npy" : "png");
}

DataOptions data_options(const PackRequest& request) {
  DataOptions options;
  options.path = request.path;
  options.labels = request.labels;
  options.unlabelled = request.unlabelled;
  options.resolution = request.resolution;
  options.fit = request.fit;
  options.filter = request.filter;
  options.channels = request.channels;
  options.depth = request.depth;
  options.join = request.join;
  return options;
}

// A picture ready to be written, or why there is none.
struct MadePicture {
  std::string png;
  uint32_t checksum = 0;  // of the PNG
  std::string bad = "";
};

class Packing {
 public:
  Packing(const PackRequest& request, const WorkCallbacks& callbacks)
      : request_(request),
        callbacks_(callbacks),
        options_(data_options(request)),
        source_(open_source(options_, callbacks.stop)),
        found_(find_pictures(*source_, options_)),
        count_(std::min(static_cast<int64_t>(found_.files.size()),
                        request.max_images.value_or(INT64_MAX))) {}

  PackResult run() {
    result_.classes = found_.labels.classes;
    result_.numbers = found_.labels.vectors.length();
    const std::optional<std::string> digest = digest_of_source();
    if (!digest || !decide_channels()) return stopped();
    const fs::path output = request_.output;
    store_ = is_zip_name(request_.output) ? make_zip_store(output) : make_folder_store(output);
    PackJournal journal(journal_path(output), job(*digest));
    journal_ = &journal;
    if (!go_on()) return stopped();
    check_room();
    if (!make_all()) {
      journal.flush();
      return stopped();
    }
    if (result_.pictures == 0) fail_all_bad();
    const std::string json = dataset_json();
    store_->add({.name = "dataset.json", .checksum = checksum_of(json)}, json);
    write_bad_list();
    store_->finish();
    journal.remove();
    return result_;
  }

 private:
  PackResult stopped() {
    result_.stopped = true;
    return result_;
  }

  WorkSize work(int64_t count) const { return {.count = count, .threads = usable_cores()}; }
  size_t file_of(int64_t picture) const { return found_.files[static_cast<size_t>(picture)]; }
  // Its class, or where labels are vectors its number in the source.
  int64_t label_of(int64_t picture) const {
    return found_.labels.vectors.length() > 0 ? picture : found_.labels.number_of(picture);
  }

  // The identity of the pictures, from stamps where there are any: these cost no reading.
  std::optional<std::string> digest_of_source() {
    Digest digest;
    const auto look = [&](int64_t piece) {
      std::string text;
      for (int64_t i = piece * kPiece; i < std::min(count_, (piece + 1) * kPiece); ++i) {
        const size_t file = file_of(i);
        std::string content = source_->stamp(file);
        if (content.empty()) content = source_->mark(file).hash;
        text += fmt::format(
            "{}\n{}\n{}\n", source_->files()[file], content, found_.labels.number_of(i));
      }
      return text;
    };
    const auto take = [&](int64_t, std::string&& text) { digest.update(text.data(), text.size()); };
    const bool whole = work_in_order<std::string>(
        work((count_ + kPiece - 1) / kPiece), look, take, callbacks_.stop);
    return whole ? std::optional(digest.hex()) : std::nullopt;
  }

  // Looks at headers until one picture is not grey, and until one has 16 bits where that is asked
  // for. The first stack decides for all. Returns false where a stop was asked for.
  bool decide_channels() {
    std::atomic<bool> color = options_.channels.has_value(), wide = false;
    find_stack();
    const auto look = [&](int64_t i, size_t) {
      if ((color || result_.channels > 0) && (wide || options_.depth != Depth::kAuto)) return;
      try {
        const ImageInfo info = source_->look(file_of(i), /*headers_only=*/true);
        if (info.channels >= 3) color = true;
        if (info.depth == 16) wide = true;
      } catch (const UserError&) {
        // It is reported where it is to be packed.
      }
    };
    if (!work_in_order(
            work(count_), look, [](int64_t, size_t) {}, callbacks_.stop))
      return false;
    if (result_.channels == 0) result_.channels = options_.channels.value_or(color ? 3 : 1);
    result_.depth =
        options_.depth == Depth::k16 || (options_.depth == Depth::kAuto && wide) ? 16 : 8;
    return true;
  }

  // Whether .npy holds the pictures: other channels than grey's, RGB's and alpha's.
  bool stacks() const { return stacks_ || result_.channels > kMostColors; }

  void find_stack() {
    for (int64_t i = 0; i < count_; ++i) {
      try {
        const ImageInfo info = source_->look(file_of(i), /*headers_only=*/true);
        if (info.stack) result_.channels = options_.channels.value_or(info.channels);
        stacks_ = info.stack;
        return;
      } catch (const UserError& error) {
        if (error.code() != Exit::kInput) throw;
      }
    }
  }

  Json job(const std::string& digest) const {
    return {{"gantrain", kVersion},
            {"pictures", count_},
            {"digest", digest},
            {"size", to_text(options_.resolution)},
            {"fit", Value<Fit>::to_json(options_.fit)},
            {"filter", Value<Filter>::to_json(options_.filter)},
            {"channels", result_.channels},
            {"depth", result_.depth},
            {"join", Value<Join>::to_json(options_.join)},
            {"level", request_.level}};
  }

  // What is packed stays for a command with --on-bad skip, whose job is the same. A picture that is
  // mended or removed makes another one.
  [[noreturn]] static void fail_bad(const std::string& reason, bool keeps) {
    fail(Exit::kInput,
         "{}; {}",
         reason,
         keeps ? "what is packed stays: the same command with --on-bad skip leaves such pictures "
                 "out and goes on; when this one is mended or removed, packing begins anew"
               : "mend or remove it, or leave such pictures out: --on-bad skip");
  }

  // Takes over what an earlier command has left. Returns false where a stop was asked for.
  bool go_on() {
    if (journal_->was_of_another_job())
      warn("{}: was begun with other data or options; beginning anew",
           partial_path(request_.output).string());
    std::vector<ZipEntry> entries;
    for (const PackedPicture& picture : journal_->pictures()) {
      if (!picture.bad.empty() && request_.on_bad == OnBad::kFail) fail_bad(picture.bad, true);
      if (!picture.bad.empty()) continue;
      entries.push_back({.name = entry_name(static_cast<int64_t>(entries.size()), stacks()),
                         .size = picture.bytes,
                         .checksum = picture.checksum});
    }
    const std::optional<size_t> whole = store_->go_on(std::move(entries), callbacks_.stop);
    if (!whole) return false;
    size_t kept = 0;
    for (size_t good = 0; kept < journal_->pictures().size(); ++kept) {
      if (journal_->pictures()[kept].bad.empty() && good++ == *whole) break;
    }
    journal_->keep_first(kept);
    for (const PackedPicture& picture : journal_->pictures()) count(picture);
    result_.resumed = static_cast<int64_t>(kept);
    if (kept > 0) info("resume  {} of {} pictures were packed before", kept, count_);
    return true;
  }

  void count(const PackedPicture& picture) {
    if (!picture.bad.empty()) {
      result_.bad.push_back(picture.bad);
      return;
    }
    result_.pictures += 1;
    result_.bytes += picture.bytes;
    if (picture.label >= 0) labels_.push_back(picture.label);
  }

  // PNGs that are not compressed have a known size.
  void check_room() const {
    if (request_.level > 0) return;
    constexpr int64_t kBytesAround = 400;  // of a PNG's and a zip's headers
    const Size size = options_.resolution;
    const int64_t each =
        size.height * (size.width * result_.channels * (result_.depth / 8) + 1) + kBytesAround;
    const int64_t needed = (count_ - result_.resumed) * each;
    fs::path folder = fs::absolute(request_.output).parent_path();
    const int64_t room = free_bytes(folder);
    if (room >= 0 && room < needed) {
      fail(Exit::kDisk, "{}: at most {}", request_.output, lack_text(needed, room));
    }
  }

  MadePicture make(int64_t picture) const {
    thread_local LoadBuffers buffers;
    const size_t file = file_of(picture);
    const Image* image = nullptr;
    try {
      image = &load_prepared(*source_, file, {result_.channels, result_.depth}, options_, buffers);
    } catch (const UserError& error) {
      if (error.code() != Exit::kInput) throw;
      return {.png = "", .checksum = 0, .bad = error.what()};
    }
    std::string png =
        stacks() ? encode_npy(*image) : encode_png(*image, static_cast<int>(request_.level));
    const uint32_t checksum = checksum_of(png);
    return {.png = std::move(png), .checksum = checksum};
  }

  void take(int64_t picture, const MadePicture& made) {
    if (!made.bad.empty() && request_.on_bad == OnBad::kFail) {
      const bool keeps = result_.pictures > 0;
      keeps ? journal_->flush() : discard();
      fail_bad(made.bad, keeps);  // not noted: the next command looks at it again
    }
    PackedPicture packed{.label = label_of(picture), .bad = made.bad};
    if (made.bad.empty()) {
      store_->add({.name = entry_name(result_.pictures, stacks()), .checksum = made.checksum},
                  made.png);
      packed.bytes = static_cast<int64_t>(made.png.size());
      packed.checksum = made.checksum;
    }
    count(packed);
    journal_->add(std::move(packed));
    callbacks_.progress(picture + 1, count_);
  }

  void discard() {
    store_->discard();
    journal_->remove();
  }

  // Returns false where a stop was asked for.
  bool make_all() {
    const int64_t first = result_.resumed;
    return work_in_order<MadePicture>(
        work(count_ - first),
        [&](int64_t piece) { return make(first + piece); },
        [&](int64_t piece, MadePicture&& made) {
          // Moved here, so that the PNG is freed now and not when its slot is used again.
          const MadePicture taken = std::move(made);
          take(first + piece, taken);
        },
        callbacks_.stop);
  }

  [[noreturn]] void fail_all_bad() {
    discard();
    fail(Exit::kInput,
         "{}: {}, and none can be read; the first: {}",
         request_.path,
         counted(count_, "picture"),
         result_.bad.front());
  }

  // Written by hand, because "labels" comes first and each picture has a line of its own length.
  std::string dataset_json() const {
    if (found_.labels.none()) return R"({"labels": null})";
    const LabelVectors& vectors = found_.labels.vectors;
    const bool of_vectors = vectors.length() > 0;
    const bool lists = of_vectors || last_is_empty();
    std::string text = R"({"labels": [)";
    for (size_t i = 0; i < labels_.size(); ++i) {
      text += fmt::format("{}[\"{}\", {}]",
                          i > 0 ? ", " : "",
                          entry_name(static_cast<int64_t>(i), stacks()),
                          of_vectors ? vector_text(labels_[i])
                          : lists    ? class_text(labels_[i])
                                     : std::to_string(labels_[i]));
    }
    text += "]";
    const std::vector<std::string>& names = of_vectors ? vectors.names : found_.labels.names;
    if (!names.empty()) {
      const Json json = names;
      text += fmt::format(", \"{}\": {}", lists ? "attributes" : "classes", json_line(json));
    }
    return text + "}";
  }

  // Whether the data has a last class without a picture, which numbers of classes would not tell.
  bool last_is_empty() const {
    const std::vector<int64_t>& of = found_.labels.of;
    return !of.empty() && *std::ranges::max_element(of) + 1 < found_.labels.classes;
  }

  // A list with a single 1: "[0,1,0]".
  std::string class_text(int64_t label) const {
    std::vector<int> list(static_cast<size_t>(found_.labels.classes));
    list[static_cast<size_t>(label)] = 1;
    return fmt::format("[{}]", fmt::join(list, ","));
  }

  // What the data gives of a vector: "[1, null, 0.25]", or null.
  std::string vector_text(int64_t picture) const {
    const LabelVectors& vectors = found_.labels.vectors;
    std::vector<std::string> numbers;
    bool some = false;
    for (int64_t k = 0; k < vectors.length(); ++k) {
      const bool given = vectors.is_given(picture, k);
      numbers.push_back(given ? fmt::format("{}", vectors.of(picture)[k]) : "null");
      some |= given;
    }
    return some ? fmt::format("[{}]", join(numbers, ", ")) : "null";
  }

  void write_bad_list() const {
    const fs::path path = bad_list_of(request_);
    std::error_code ignored;
    if (result_.bad.empty()) {
      fs::remove(path, ignored);  // of an earlier command
      return;
    }
    std::string text;
    for (const std::string& reason : result_.bad) text += reason + "\n";
    write_file(path, text);
  }

  const PackRequest& request_;
  const WorkCallbacks& callbacks_;
  DataOptions options_;
  std::unique_ptr<Source> source_;
  FoundPictures found_;
  int64_t count_;  // pictures to pack
  bool stacks_ = false;
  std::unique_ptr<PictureStore> store_;
  PackJournal* journal_ = nullptr;
  std::vector<int64_t> labels_;  // of the pictures in the output
  PackResult result_;
};

}  // namespace

PackResult pack_pictures(const PackRequest& request, const WorkCallbacks& callbacks) {
  PackRequest plain = request;
  plain.output = without_slashes(plain.output);
  put_back_replaced(plain.output);
  check_pack_target(plain);
  return Packing(plain, callbacks).run();
}

std::string bad_list_of(const PackRequest& request) {
  return without_slashes(request.output) + ".bad.txt";
}

}  // namespace gantrain
