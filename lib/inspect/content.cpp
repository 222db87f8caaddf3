// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"
#include "core/archive.h"
#include "core/tensor_files.h"
#include "core/torch.h"
#include "core/zip_archive.h"
#include "data/pictures/manifest.h"
#include "exchange/export.h"
#include "exchange/import.h"
#include "image/image.h"
#include "inspect/inspect.h"
#include "page/run_record.h"
#include "report/records.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

std::string data_command(const fs::path& path) {
  return fmt::format("{} data inspect {}", program(), shell_quote(path.string()));
}

// The last line may be half written: then the run was killed, or it is at work.
FileContent json_lines(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "JSON lines"};
  std::vector<std::string> lines = split(bytes, '\n');
  const bool cut = !lines.back().empty();
  lines.pop_back();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (parse_foreign(lines[i]).is_discarded())
      fail(Exit::kInput, "{}: line {} is no JSON, or too deep", path.string(), i + 1);
  }
  content.facts["lines"] = lines.size();
  if (cut) content.facts["end"] = "a line that is half written";
  if (!lines.empty()) content.facts["last"] = parse_foreign(lines.back());
  return content;
}

FileContent events(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "TensorBoard events"};
  const EventRecords records = count_event_records(bytes);
  if (records.count == 0)
    fail(Exit::kInput, "{}: no event file: its first record is broken", path.string());
  content.facts["records"] = records.count;
  if (records.bytes < bytes.size())
    content.facts["end"] = fmt::format("{} bytes that are cut off or broken, from byte {} on",
                                       bytes.size() - records.bytes,
                                       records.bytes);
  const fs::path folder = path.parent_path();
  content.next = "tensorboard --logdir " + (folder.empty() ? "." : shell_quote(folder.string()));
  return content;
}

FileContent picture_hashes(const fs::path& path) {
  const Manifest manifest = read_hashes(path);
  return {.kind = "hashes of a run's pictures",
          .facts = {{"path", manifest.path}, {"pictures", manifest.size()}}};
}

FileContent text(const std::string& bytes) {
  FileContent content{.kind = "text"};
  std::vector<std::string> lines = split(bytes, '\n');
  if (lines.back().empty()) lines.pop_back();
  content.facts["lines"] = lines.size();
  if (!lines.empty()) content.facts["last"] = printable(lines.back(), 200, "\t");
  return content;
}

bool is_utf8(const std::string& bytes) {
  try {
    return !Json(bytes).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

// The texts of a run, of an exported model and of scripts, by their names.
bool is_own_text(const std::string& name) {
  if (name == "STATUS" || name == "command.txt") return true;
  if (starts_with(name, "log") && ends_with(name, ".txt")) return true;
  for (const char* suffix : {".html", ".md", ".py", ".sh"})
    if (ends_with(name, suffix)) return true;
  return false;
}

// What tells of a run: JSON lines (stats.jsonl), event files of TensorBoard, text (STATUS, log.txt,
// report.html). `bytes` is the file's content.
FileContent read_record(const fs::path& path, const std::string& bytes) {
  const std::string name = path.filename().string();
  if (starts_with(name, "events.out.tfevents.")) return events(path, bytes);
  if (ends_with(name, ".jsonl")) return json_lines(path, bytes);
  if (is_own_text(name) && !bytes.empty() && is_utf8(bytes)) return text(bytes);
  const std::string kind = file_kind(bytes);
  fail(Exit::kInput,
       "{}: {}; a model (.safetensors), a state (.pt), a network pickle, an array (.npy, .npz), a "
       "picture, an animation, a configuration (.json), another file of a run or a run folder is "
       "needed",
       path.string(),
       bytes.empty()  ? "an empty file"
       : kind.empty() ? "no file that gantrain writes"
                      : kind);
}

// "G.main.0.weight" of a model file is "G/main.0.weight" of a state.
std::string shared_name(const std::string& name) {
  if (starts_with(name, "G.") || starts_with(name, "D."))
    return name.substr(0, 1) + "/" + name.substr(2);
  return "G_ema/" + name;
}

// {"a": {"b": 1}} becomes {"a.b": 1}.
void flatten(const Json& from, const std::string& prefix, Json& to) {
  for (const auto& [key, value] : from.items()) {
    if (value.is_object())
      flatten(value, prefix + key + ".", to);
    else
      to[prefix + key] = value;
  }
}

void take_model_json(const Json& model, FileContent& content) {
  if (!model.is_object()) return;
  if (model.contains("recipe")) content.facts["recipe"] = model["recipe"];
  flatten(model, "", content.config);
}

// Names of classes, or of the numbers of labels that are vectors.
void take_classes(const Json& table, FileContent& content) {
  const bool vectors = table.is_object() && table.contains("attributes");
  content.facts[vectors ? "label_numbers" : "classes"] =
      vectors ? table["attributes"].size() : table.size();
}

void take_metadata(const fs::path& path,
                   const std::map<std::string, std::string>& metadata,
                   FileContent& content) {
  const std::string prefix = "gantrain.";
  for (const auto& [key, text] : metadata) {
    const std::string source = path.string() + " (" + key + ")";
    if (key == prefix + "model") {
      take_model_json(parse_json(text, source, Exit::kInput), content);
    } else if (key == prefix + "classes") {
      take_classes(parse_json(text, source, Exit::kInput), content);
    } else if (starts_with(key, prefix)) {
      content.facts[key.substr(prefix.size())] = text;
    }
  }
}

// A file without gantrain.model is recognised by its tensors.
void recognise(const std::map<std::string, at::Tensor>& tensors,
               const RecipeTable& recipes,
               FileContent& content) {
  if (content.facts.contains("recipe")) return;
  for (const RecipeRow& row : recipes) {
    if (row.recognises(tensors)) content.facts["recipe"] = row.facts.name;
  }
}

// Adds the tensors and the facts of a model file to the content.
void read_model_file(const fs::path& path, const RecipeTable& recipes, FileContent& content) {
  const TensorFile loaded = load_safetensors(path);
  take_metadata(path, loaded.metadata, content);
  recognise(loaded.tensors, recipes, content);
  for (const auto& [name, tensor] : loaded.tensors) content.tensors[shared_name(name)] = tensor;
}

Json names_of(const std::vector<NumberedFile>& files) {
  Json names = Json::array();
  for (const NumberedFile& file : files) names.push_back(file.path.filename().string());
  return names;
}

// The results of the last line of each metric-*.jsonl, with its kimg.
Json last_metrics(const fs::path& folder) {
  Json all = Json::object();
  for (const std::vector<Json>& file : metric_rows(folder)) {
    for (const Json& row : file) {
      for (const auto& [name, value] : row["results"].items())
        all[name] = {{"value", value}, {"kimg", row.value("kimg", Json())}};
    }
  }
  return all;
}

uintmax_t size_on_disk(const fs::path& folder) {
  uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    const uintmax_t size = at->file_size(error);  // a run at work may have removed the file
    if (!error) bytes += size;
    error.clear();
  }
  return bytes;
}

// Whether a folder is a run's.
bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "config.json", error) &&
         (fs::is_regular_file(folder / "STATUS", error) ||
          fs::is_regular_file(folder / "stats.jsonl", error));
}

FileContent state(const fs::path& path) {
  FileContent content{.kind = "state"};
  Archive archive = load_archive(path);
  const Json meta = parse_json(archive.meta, path.string() + " (meta)", Exit::kInput);
  if (!meta.is_object()) fail(Exit::kInput, "{}: meta: not a JSON object", path.string());
  for (const auto& [key, value] : meta.items()) {
    if (key == "config" && value.is_object()) {
      content.config = value;
      if (value.contains("recipe")) content.facts["recipe"] = value["recipe"];
      if (value.contains("preset")) content.facts["preset"] = value["preset"];
    } else if (key == "classes") {
      take_classes(value, content);
    } else {
      content.facts[key] = value;
    }
  }
  content.tensors = std::move(archive.tensors);
  return content;
}

// A text in a .npz; nothing where that array is none.
std::optional<std::string> text_in_npz(const fs::path& path, const std::string& name) {
  try {
    return load_npz_text(path, name);
  } catch (const UserError& e) {
    if (e.code() != Exit::kInput) throw;
    return std::nullopt;
  }
}

// numpy's .npz: a zip of nothing but arrays. What has latents can be drawn.
FileContent arrays(const fs::path& path, const std::vector<std::string>& names) {
  FileContent content{.kind = "arrays (.npz)"};
  content.facts["arrays"] = names;
  for (const std::string& name : names) {
    try {
      content.tensors[name] = load_npz(path, name);
    } catch (const UserError& e) {
      if (e.code() != Exit::kInput) throw;
      const std::optional<std::string> text = text_in_npz(path, name);
      if (text) content.facts[name] = *text;
      if (!text) content.facts["not shown"].push_back(e.what());
    }
  }
  if (content.tensors.count("directions") != 0) {
    content.facts["used by"] = fmt::format(
        "{} generate --model MODEL --seeds 0-3 --directions {} --direction 0:3 -o edited.png",
        program(),
        shell_quote(path.string()));
  }
  for (const std::string name : {"w", "z"}) {
    if (content.tensors.count(name) == 0 || content.facts.contains("drawn by")) continue;
    // No command to run next: which model the latents belong to is not in the file.
    content.facts["drawn by"] = fmt::format("{} generate --model MODEL --{} {} -o grid.png",
                                            program(),
                                            name,
                                            shell_quote(path.string()));
  }
  return content;
}

FileContent zip(const fs::path& path) {
  std::vector<std::string> names;
  bool state_inside = false;
  int64_t entries = 0, pictures = 0;
  {
    const OpenedZip opened = open_zip_archive(path.string());
    if (!opened.archive)
      fail(Exit::kInput, "{}: a broken zip archive: {}", path.string(), opened.reason);
    entries = zip_get_num_entries(opened.archive.get(), 0);
    for (int64_t i = 0; i < entries; ++i) {
      const char* name = zip_get_name(opened.archive.get(), static_cast<zip_uint64_t>(i), 0);
      if (name != nullptr && ends_with(name, "data.pkl")) state_inside = true;
      if (name != nullptr && is_image_name(lower(name))) ++pictures;
      if (name != nullptr && ends_with(name, ".npy"))
        names.emplace_back(name, std::string_view(name).size() - 4);
    }
  }
  if (state_inside) return state(path);
  if (!names.empty() && static_cast<int64_t>(names.size()) == entries) return arrays(path, names);
  FileContent content{.kind = "zip archive"};
  content.facts["entries"] = entries;
  content.facts["pictures"] = pictures;
  if (pictures > 0) content.next = data_command(path);
  return content;
}

FileContent array(const fs::path& path) {
  FileContent content{.kind = "array"};
  content.tensors[path.stem().string()] = load_npy(path, std::nullopt);
  return content;
}

// A number of so many bytes, the lowest first; 0 where the file ends before.
int64_t number_at(std::string_view bytes, size_t at, size_t count) {
  int64_t number = 0;
  for (size_t i = 0; i < count && at + count <= bytes.size(); ++i)
    number |= static_cast<int64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  return number;
}

bool is_animated_webp(std::string_view bytes) {
  constexpr size_t kFlags = 20;  // of the chunk VP8X, which is the first (RFC 9649)
  constexpr int64_t kAnimated = 2;
  return starts_with(bytes, "RIFF") && bytes.substr(0, 16).ends_with("WEBPVP8X") &&
         (number_at(bytes, kFlags, 1) & kAnimated) != 0;
}

// As `interpolate` and `project --clip` write it.
FileContent animation(std::string_view bytes) {
  FileContent content{.kind = "animation (WebP)"};
  int64_t frames = 0, milliseconds = 0;
  size_t at = 12;
  while (at + 8 <= bytes.size()) {
    if (bytes.substr(at, 4) == "ANMF") {
      frames += 1;
      milliseconds += number_at(bytes, at + 8 + 12, 3);
    }
    const auto size = static_cast<size_t>(number_at(bytes, at + 4, 4));
    at += 8 + size + size % 2;
  }
  content.facts["size"] =
      fmt::format("{}x{}", number_at(bytes, 24, 3) + 1, number_at(bytes, 27, 3) + 1);
  content.facts["frames"] = frames;
  content.facts["seconds"] = static_cast<double>(milliseconds) / 1e3;
  if (at > bytes.size()) content.facts["end"] = "cut off";
  return content;
}

// One or more pictures of whole numbers, as data sets and generate have them.
FileContent pictures(const fs::path& path, const std::string& bytes) {
  const NpyForm form = npy_form(bytes, path.string());
  return {.kind = form.shape.size() == 4 ? "pictures" : "picture",
          .facts = {{"shape", form.shape}, {"depth", 8 * form.value_bytes}}};
}

// Whether a .npy holds whole numbers, by its header.
bool holds_whole_numbers(const std::string& npy) {
  const std::string header = npy.substr(0, 64);
  return header.find("'|u1'") != std::string::npos || header.find("u2'") != std::string::npos;
}

FileContent picture(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "picture"};
  const Image image = decode_image(bytes, path.string());  // all of it: the end may be missing
  content.facts["size"] = fmt::format("{}x{}", image.width, image.height);
  content.facts["channels"] = image.channels;
  if (image_info(bytes, path.string()).depth == 16) content.facts["depth"] = 16;
  return content;
}

FileContent pickle(const fs::path& path, const std::string& bytes, const RecipeTable& recipes) {
  FileContent content{.kind = "network pickle"};
  const ModelContent model = read_official_pickle(bytes, path.string(), recipes);
  take_model_json(model.model, content);
  for (const auto& [name, tensor] : model.tensors) content.tensors[shared_name(name)] = tensor;
  content.next =
      fmt::format("{} import {} -o model.safetensors", program(), shell_quote(path.string()));
  return content;
}

bool is_configuration(const Json& json) {
  for (const char* key : {"recipe", "preset", "base", "about", "values"})
    if (json.contains(key)) return true;
  return false;
}

// errors/rank<k>.json, in the shape of torchelastic's.
FileContent failure(const Json& message) {
  FileContent content{.kind = "failure of a rank"};
  content.facts["message"] = message.value("message", Json());
  for (const auto& [key, value] : message["extraInfo"].items())
    if (key != "py_callstack" || value != content.facts["message"]) content.facts[key] = value;
  return content;
}

FileContent json_file(const fs::path& path, const std::string& text) {
  const Json json = parse_json(text, path.string(), Exit::kInput);
  if (!json.is_object()) fail(Exit::kInput, "{}: not a JSON object", path.string());
  const Json message = json.value("message", Json());
  if (message.is_object() && message.value("extraInfo", Json()).is_object())
    return failure(message);
  if (!is_configuration(json)) {
    FileContent content{.kind = "JSON"};
    for (const auto& [key, value] : json.items()) {
      const bool long_list = value.is_array() && value.size() > 16;
      content.facts[key] = long_list ? Json(fmt::format("{} entries", value.size())) : value;
    }
    return content;
  }
  FileContent content{.kind = "configuration"};
  if (!json.contains("values") || !json["values"].is_object()) {
    flatten(json, "", content.config);
    for (const char* key : {"recipe", "preset", "base", "about"})
      if (json.contains(key)) content.facts[key] = json[key];
    return content;
  }
  for (const auto& [key, entry] : json["values"].items())
    content.config[key] = entry.is_object() && entry.contains("value") ? entry["value"] : entry;
  for (const char* key : {"recipe", "preset"})
    if (content.config.contains(key)) content.facts[key] = content.config[key];
  return content;
}

FileContent read_run(const fs::path& folder, const RecipeTable& recipes) {
  const fs::path config = folder / "config.json";
  FileContent content = json_file(config, read_regular_file(config, kMostOfJson));
  content.kind = "run";
  content.facts["bytes"] = size_on_disk(folder);
  const bool at_work = may_be_at_work(folder);
  const std::string status = trim(read_status(folder));
  content.facts["status"] =
      status == "running" && !at_work ? "running, says STATUS; nobody is at work" : status;
  const std::vector<NumberedFile> models = find_models(folder);
  content.facts["models"] = names_of(models);
  content.facts["states"] = names_of(find_states(folder));
  content.facts["metrics"] = last_metrics(folder);
  if (!models.empty()) {
    FileContent newest;
    read_model_file(models.front().path, recipes, newest);
    content.facts["newest"] = models.front().path.filename().string();
    content.facts["newest_facts"] = newest.facts;
    content.tensors = std::move(newest.tensors);
  }
  return content;
}

FileContent folder(const fs::path& path, const RecipeTable& recipes) {
  if (is_run(path)) return read_run(path, recipes);
  FileContent content{.kind = "folder"};
  int64_t runs = 0, entries = 0;
  std::error_code error;
  if (const fs::path model = path / "model.safetensors"; fs::is_regular_file(model, error)) {
    content.kind = "model";  // that was exported, in its folder
    read_model_file(model, recipes, content);
    return content;
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    ++entries;
    if (entry.is_directory(error) && is_run(entry.path())) ++runs;
  }
  content.facts["entries"] = entries;
  if (runs > 0) {
    content.facts["runs"] = runs;
    content.next = fmt::format("{} serve {}", program(), shell_quote(path.string()));
  } else if (entries > 0) {
    content.next = data_command(path);
  }
  return content;
}

FileContent file(const fs::path& path, const RecipeTable& recipes) {
  const std::string name = lower(path.filename().string());
  if (ends_with(name, ".safetensors")) {
    FileContent content{.kind = "model"};
    read_model_file(path, recipes, content);
    return content;
  }
  if (name == kHashesFile) return picture_hashes(path);
  const std::string bytes = read_file(path);
  if (starts_with(bytes, "PK\3\4")) return zip(path);
  if (starts_with(bytes, "\x93NUMPY"))
    return holds_whole_numbers(bytes) ? pictures(path, bytes) : array(path);
  if (is_animated_webp(bytes)) return animation(bytes);
  if (starts_with(bytes, "\x89PNG") || starts_with(bytes, "\xff\xd8\xff") ||
      starts_with(bytes, "RIFF") || is_image_name(name) || ends_with(name, ".tif") ||
      ends_with(name, ".tiff"))
    return picture(path, bytes);
  if (starts_with(bytes, "\x80") || ends_with(name, ".pkl")) return pickle(path, bytes, recipes);
  if (ends_with(name, ".json")) return json_file(path, bytes);
  if (ends_with(name, ".pt")) return state(path);
  if (bytes.size() > 8 && bytes.compare(4, 4, "ftyp") == 0) return {.kind = "video (MP4)"};
  return read_record(path, bytes);
}

}  // namespace

FileContent read_content(const fs::path& path, const RecipeTable& recipes) {
  std::error_code error;
  if (fs::is_directory(path, error)) return folder(path, recipes);
  refuse_address(path.string());
  if (!fs::exists(path, error)) fail(Exit::kInput, "{}: no such file or folder", path.string());
  if (!fs::is_regular_file(path, error))
    fail(Exit::kInput, "{}: a pipe or a device, neither a file nor a folder", path.string());
  FileContent content = file(path, recipes);
  content.facts["bytes"] = fs::file_size(path);
  return content;
}

}  // namespace gantrain
