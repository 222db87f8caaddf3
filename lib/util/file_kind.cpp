// SPDX-License-Identifier: Apache-2.0
#include "util/file_kind.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

using namespace std::string_view_literals;

// How files begin.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kKinds = {{
    {"\x89PNG"sv, "a PNG picture"},
    {"\xff\xd8\xff"sv, "a JPEG picture"},
    {"GIF8"sv, "a GIF picture"},
    {"II*\0"sv, "a TIFF picture"},
    {"MM\0*"sv, "a TIFF picture"},
    {"PK\3\4"sv, "a zip archive"},
    {"\x1f\x8b"sv, "a gzip archive"},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive"},
    {"\xfd\x37zXZ"sv, "an xz archive"},
    {"\x93NUMPY"sv, "an array of numpy (.npy)"},
    {"\x89HDF"sv, "an HDF5 file"},
    {"%PDF"sv, "a PDF document"},
    {"\x7f\x45LF"sv, "a program or library"},
    {"<!doctype html"sv, "a web page (HTML)"},
    {"<html"sv, "a web page (HTML)"},
    {"version https://git-lfs"sv,
     "a pointer of Git LFS, which stands for the file until git lfs pull"},
}};

// A text from which words are taken at the front.
struct Path {
  std::string_view rest;

  std::string take() {
    const size_t end = std::min(rest.find('/'), rest.size());
    std::string part(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return part;
  }
};

// "%20" is a blank.
std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      const size_t value = std::string_view("0123456789abcdef").find(lower(text.substr(at, 1)));
      return value == std::string_view::npos ? -1 : static_cast<int>(value);
    };
    const bool coded =
        text[i] == '%' && i + 2 < text.size() && digit(i + 1) >= 0 && digit(i + 2) >= 0;
    out += coded ? static_cast<char>(digit(i + 1) * 16 + digit(i + 2)) : text[i];
    if (coded) i += 2;
  }
  return out;
}

// What an address of the Hub means.
struct HubPlace {
  std::string type;      // "dataset", "space"; "" for a model
  std::string name;      // "ORG/NAME"
  std::string revision;  // "" for main
  std::string file;      // "" for all of it
  bool folder = false;   // `file` is a folder
};

std::string type_of_hub(Path& path) {
  for (const char* type : {"dataset", "space", "model"}) {
    const std::string word = std::string(type) + "s/";
    if (!starts_with(path.rest, word)) continue;
    path.take();
    return std::string(type) == "model" ? "" : type;
  }
  return "";
}

// The part behind https://huggingface.co/: "ORG/NAME/resolve/main/model.pkl".
HubPlace hub_page(Path path) {
  HubPlace place{.type = type_of_hub(path)};
  place.name = path.take();
  const std::string second = path.take();
  if (!second.empty()) place.name += "/" + second;
  const std::string view = path.take();
  if (view == "tree" || view == "blob" || view == "resolve" || view == "raw") {
    place.revision = path.take();
    place.file = path.rest;
    place.folder = view == "tree";
  }
  return place;
}

// The part behind hf://: "ORG/NAME@REVISION/FILE".
HubPlace hub_path(Path path) {
  HubPlace place{.type = type_of_hub(path)};
  place.name = path.take();
  place.name += "/" + path.take();
  place.file = path.rest;
  const size_t at = place.name.find('@');
  if (at != std::string::npos) {
    place.revision = place.name.substr(at + 1);
    place.name.resize(at);
  }
  return place;
}

std::string hub_command(HubPlace place) {
  while (ends_with(place.file, "/")) place.file.pop_back();
  while (ends_with(place.name, "/")) place.name.pop_back();
  const std::string folder = place.name.substr(place.name.rfind('/') + 1);
  const std::string name = percent_decoded(place.name), revision = percent_decoded(place.revision);
  const std::string file = percent_decoded(place.file);
  std::string command = "hf download " + shell_quote(name);
  if (!file.empty() && !place.folder) command += " " + shell_quote(file);
  if (!file.empty() && place.folder) command += " --include " + shell_quote(file + "/*");
  if (!place.type.empty()) command += " --repo-type " + place.type;
  if (!revision.empty() && revision != "main") command += " --revision " + shell_quote(revision);
  return command + " --local-dir " + shell_quote(percent_decoded(folder));
}

// The command that downloads what the address means; "" for a text that is no address.
std::string download_command(const std::string& text) {
  const std::string small = lower(text);
  const std::string path = text.substr(0, text.find_first_of("?#"));
  for (const char* host : {"huggingface.co/", "www.huggingface.co/", "hf.co/"}) {
    for (const char* scheme : {"https://", "http://", ""}) {
      const std::string head = std::string(scheme) + host;
      if (starts_with(small, head) && path.size() > head.size())
        return hub_command(hub_page({std::string_view(path).substr(head.size())}));
    }
  }
  if (starts_with(small, "hf://")) return hub_command(hub_path({std::string_view(text).substr(5)}));
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.empty() ? "FILE" : shell_quote(percent_decoded(name));
  const std::string address = shell_quote(text);
  if (starts_with(small, "s3://")) return "aws s3 cp " + address + " " + name;
  if (starts_with(small, "gs://")) return "gcloud storage cp " + address + " " + name;
  for (const char* begin : {"http://", "https://", "ftp://"}) {
    if (starts_with(small, begin)) return "curl -fL -o " + name + " " + address;
  }
  return "";
}

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The snapshot that a repository's folder in the cache means.
fs::path snapshot_in(const fs::path& repository) {
  std::error_code error;
  const fs::path snapshots = repository / "snapshots", main = repository / "refs/main";
  if (!fs::is_directory(snapshots, error)) return repository;
  if (fs::is_regular_file(main, error)) {
    const fs::path chosen = snapshots / trim(content_of(main, 4096).value_or(""));
    if (chosen != snapshots / "" && fs::is_directory(chosen, error)) return chosen;
  }
  std::vector<std::string> all;
  for (const fs::directory_entry& one : fs::directory_iterator(snapshots, error))
    all.push_back(one.path().string());
  std::sort(all.begin(), all.end());
  if (all.size() == 1) return all.front();
  if (all.empty()) fail(Exit::kInput, "{}: an empty folder of snapshots", snapshots.string());
  fail(Exit::kUsage, "{}: several snapshots; name one: {}", repository.string(), join(all, ", "));
}

// Files of weights in a folder and, some levels deep, in its folders.
std::vector<fs::path> weights_in(const fs::path& folder) {
  constexpr int kDeepest = 4;
  std::vector<fs::path> found;
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool hidden = starts_with(name, ".");
    if (hidden || at.depth() >= kDeepest) at.disable_recursion_pending();
    const std::string ending = lower(at->path().extension().string());
    std::error_code none;
    if (!hidden && (ending == ".safetensors" || ending == ".pkl") && !at->is_directory(none))
      found.push_back(at->path());
  }
  if (error) fail(Exit::kInput, "{}: {}", folder.string(), error.message());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::string file_kind(std::string_view bytes) {
  if (starts_with(bytes, "RIFF") && bytes.substr(0, 12).ends_with("WEBP")) return "a WebP picture";
  if (bytes.substr(0, 8).ends_with("ftyp")) return "a video (MP4)";
  if (bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5)
    return "a pickle of Python";
  const std::string small = lower(bytes.substr(0, 32));
  for (const auto& [begin, kind] : kKinds) {
    if (starts_with(bytes, begin) || starts_with(small, begin)) return std::string(kind);
  }
  return "";
}

void refuse_address(const std::string& given) {
  const std::string command = download_command(given);
  if (command.empty() || is_there(given)) return;
  fail(Exit::kUsage, "{}: files are read from disks alone; download it first: {}", given, command);
}

fs::path weights_of_snapshot(const fs::path& folder) {
  const fs::path snapshot = snapshot_in(folder);
  std::vector<fs::path> found = weights_in(snapshot);
  const auto own = std::find(found.begin(), found.end(), snapshot / "model.safetensors");
  if (own != found.end()) found = {*own};
  if (found.empty())
    fail(Exit::kInput, "{}: holds no weights (.safetensors or .pkl)", snapshot.string());
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const fs::path& file : found) names.push_back(shell_quote(file.string()));
    constexpr size_t kShown = 8;
    const size_t more = names.size() - std::min(names.size(), kShown);
    names.resize(names.size() - more);
    fail(Exit::kUsage,
         "{}: several files of weights; name one: {}{}",
         snapshot.string(),
         join(names, ", "),
         more == 0 ? "" : fmt::format(" and {} more", more));
  }
  if (is_there(found.front())) return found.front();
  std::error_code error;
  fail(Exit::kInput,
       "{}: a link to {}, which is not there: the download is not complete; the same hf download "
       "goes on",
       found.front().string(),
       fs::read_symlink(found.front(), error).string());
}

}  // namespace gantrain
