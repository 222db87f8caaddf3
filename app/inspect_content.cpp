// SPDX-License-Identifier: Apache-2.0
#include "inspect_content.h"

#include "config/config.h"
#include "core/archive.h"
#include "core/npy.h"
#include "core/npz.h"
#include "core/safetensors.h"
#include "core/zip_archive.h"
#include "exchange/official_pickle.h"
#include "image/image.h"
#include "recipes.h"
#include "train/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

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

void take_metadata(const fs::path& path,
                   const std::map<std::string, std::string>& metadata,
                   FileContent& content) {
  const std::string prefix = "gantrain.";
  for (const auto& [key, text] : metadata) {
    const std::string source = path.string() + " (" + key + ")";
    if (key == prefix + "model") {
      take_model_json(parse_json(text, source, Exit::kInput), content);
    } else if (key == prefix + "classes") {
      const Json classes = parse_json(text, source, Exit::kInput);
      content.facts["classes"] = classes.size();
    } else if (starts_with(key, prefix)) {
      content.facts[key.substr(prefix.size())] = text;
    }
  }
}

// A file without gantrain.model is recognised by its tensors.
void recognise(const std::map<std::string, at::Tensor>& tensors, FileContent& content) {
  if (content.facts.contains("recipe")) return;
  for (const RecipeRow& row : recipe_rows()) {
    if (row.recognises(tensors)) content.facts["recipe"] = row.facts.name;
  }
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
      content.facts["classes"] = value.size();
    } else {
      content.facts[key] = value;
    }
  }
  content.tensors = std::move(archive.tensors);
  return content;
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
      content.facts["not shown"].push_back(e.what());
    }
  }
  for (const std::string name : {"w", "z"}) {
    if (content.tensors.count(name) == 0 || !content.next.empty()) continue;
    content.next = fmt::format(
        "gantrain generate --model MODEL --{} {} -o grid.png", name, shell_quote(path.string()));
  }
  return content;
}

FileContent zip(const fs::path& path) {
  std::vector<std::string> names;
  bool state_inside = false;
  int64_t entries = 0;
  {
    const OpenedZip opened = open_zip_archive(path.string());
    if (!opened.archive)
      fail(Exit::kInput, "{}: a broken zip archive: {}", path.string(), opened.reason);
    entries = zip_get_num_entries(opened.archive.get(), 0);
    for (int64_t i = 0; i < entries; ++i) {
      const char* name = zip_get_name(opened.archive.get(), static_cast<zip_uint64_t>(i), 0);
      if (name != nullptr && ends_with(name, "data.pkl")) state_inside = true;
      if (name != nullptr && ends_with(name, ".npy"))
        names.emplace_back(name, std::string_view(name).size() - 4);
    }
  }
  if (state_inside) return state(path);
  if (!names.empty() && static_cast<int64_t>(names.size()) == entries) return arrays(path, names);
  FileContent content{.kind = "zip archive"};
  content.facts["entries"] = entries;
  content.next = "gantrain data inspect " + shell_quote(path.string());
  return content;
}

FileContent array(const fs::path& path) {
  FileContent content{.kind = "array"};
  content.tensors[path.stem().string()] = load_npy(path, std::nullopt);
  return content;
}

FileContent picture(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "picture"};
  const Image image = decode_image(bytes, path.string());  // all of it: the end may be missing
  content.facts["size"] = fmt::format("{}x{}", image.width, image.height);
  content.facts["channels"] = image.channels;
  return content;
}

FileContent pickle(const fs::path& path, const std::string& bytes) {
  FileContent content{.kind = "network pickle"};
  const ModelContent model = read_official_pickle(bytes, path.string());
  take_model_json(model.model, content);
  for (const auto& [name, tensor] : model.tensors) content.tensors[shared_name(name)] = tensor;
  content.next = "gantrain import " + shell_quote(path.string()) + " -o model.safetensors";
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

FileContent folder(const fs::path& path) {
  if (is_run(path)) return read_run(path);
  FileContent content{.kind = "folder"};
  int64_t runs = 0, entries = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    ++entries;
    if (entry.is_directory(error) && is_run(entry.path())) ++runs;
  }
  content.facts["entries"] = entries;
  if (runs > 0) {
    content.facts["runs"] = runs;
    content.next = "gantrain serve " + shell_quote(path.string());
  } else if (entries > 0) {
    content.next = "gantrain data inspect " + shell_quote(path.string());
  }
  return content;
}

bool begins(const std::string& bytes, std::string_view signature) {
  return starts_with(bytes, signature);
}

FileContent file(const fs::path& path) {
  const std::string name = lower(path.filename().string());
  if (ends_with(name, ".safetensors")) {
    FileContent content{.kind = "model"};
    read_model_file(path, content);
    return content;
  }
  const std::string bytes = read_file(path);
  if (begins(bytes, "PK\3\4")) return zip(path);
  if (begins(bytes, "\x93NUMPY")) return array(path);
  if (begins(bytes, "\x89PNG") || begins(bytes, "\xff\xd8\xff") || begins(bytes, "RIFF") ||
      is_image_name(name))
    return picture(path, bytes);
  if (begins(bytes, "\x80") || ends_with(name, ".pkl")) return pickle(path, bytes);
  if (ends_with(name, ".json")) return json_file(path, bytes);
  if (ends_with(name, ".pt")) return state(path);
  if (bytes.size() > 8 && bytes.compare(4, 4, "ftyp") == 0) return {.kind = "video"};
  return read_record(path, bytes);
}

}  // namespace

void read_model_file(const fs::path& path, FileContent& content) {
  const TensorFile loaded = load_safetensors(path);
  take_metadata(path, loaded.metadata, content);
  recognise(loaded.tensors, content);
  for (const auto& [name, tensor] : loaded.tensors) content.tensors[shared_name(name)] = tensor;
}

FileContent read_content(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return folder(path);
  if (!fs::is_regular_file(path, error))
    fail(Exit::kInput, "{}: no such file or folder", path.string());
  FileContent content = file(path);
  content.facts["bytes"] = fs::file_size(path);
  return content;
}

}  // namespace gantrain
