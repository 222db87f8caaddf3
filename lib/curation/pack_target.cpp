// SPDX-License-Identifier: Apache-2.0
#include "curation/pack_target.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "curation/picture_store.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

bool is_zip_name(const std::string& output) { return ends_with(lower(output), ".zip"); }

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

}  // namespace gantrain
