// SPDX-License-Identifier: Apache-2.0
#include "tune/starting_model.h"

#include <algorithm>
#include <map>
#include <optional>

#include "config/config.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/size.h"
#include "util/text.h"

namespace gantrain {

namespace {

bool has(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

// Whether a run's value of a key belongs to its networks and how they learn, and not to where and
// for how long.
bool is_of_the_model(const std::string& key, const std::string& recipe) {
  for (const std::string& section : {recipe + ".",
                                     std::string("G."),
                                     std::string("D."),
                                     std::string("augment."),
                                     std::string("optim."),
                                     std::string("ema."),
                                     std::string("ada.")}) {
    if (starts_with(key, section)) return true;
  }
  return key == "train.batch";
}

// What the model's run was told, or chose: no default and no preset's value.
void take_settings(const Json& values, StartingModel& model) {
  for (const auto& [key, entry] : values.items()) {
    const bool whole = entry.is_object() && entry.contains("value") && entry.contains("origin");
    if (!whole || !is_of_the_model(key, model.recipe)) continue;
    const std::string origin = text_of(entry["origin"]);
    if (origin == "default" || starts_with(origin, "preset ")) continue;
    model.sets.push_back(key + "=" + text_of(entry["value"]));
  }
}

bool read_run(const fs::path& run, StartingModel& model) {
  const SavedConfig saved = read_saved_config(run.empty() ? "." : run, Unreadable::kIgnored);
  model.recipe = saved.text("recipe");
  model.preset = saved.text("preset");
  const auto size = parse_size(saved.text("data.resolution"));
  if (model.recipe.empty() || !size) return false;
  model.resolution = *size;
  take_settings(saved.values, model);
  return true;
}

// The names of the official constructors that are keys under another name.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"mapping_kwargs.num_layers", "map_depth"},
    {"synthesis_kwargs.architecture", "g_architecture"},
    {"margin_size", "margin"},
    {"NoiseDimension", "z_dim"},
    {"ConditionEmbeddingDimension", "embedding"},
    {"ExpansionFactor", "expansion"},
    {"WidthPerStage", "width"},
    {"CardinalityPerStage", "cardinality"},
    {"BlocksPerStage", "blocks"}};

// The key of a member of "gantrain.model", `path` with its groups; "" where there is none.
std::string key_of_member(const std::string& path,
                          const std::string& recipe,
                          const std::vector<std::string>& keys) {
  std::string name = path.substr(path.rfind('.') + 1);
  for (const auto& [there, here] : kOtherNames) {
    if (path == there) name = here;
  }
  const std::string key = recipe + "." + name;
  return has(keys, key) ? key : "";
}

// A member's value as a key takes it; numbers of each stage are those of the resolutions from 4 on.
std::string text_of_member(const Json& value) {
  const bool by_stage =
      value.is_array() && !value.empty() &&
      std::ranges::all_of(value, [](const Json& one) { return one.is_number_integer(); });
  return by_stage ? by_resolution(value.get<std::vector<int64_t>>()) : text_of(value);
}

void take_members(const Json& object,
                  const std::string& group,
                  const std::vector<std::string>& keys,
                  StartingModel& model) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) {
      take_members(value, group + name + ".", keys, model);
    } else if (const std::string key = key_of_member(group + name, model.recipe, keys);
               !key.empty() && !value.is_null()) {
      model.sets.push_back(key + "=" + text_of_member(value));
    }
  }
}

int64_t integer_in(const Json& model, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (model.contains(name) && model[name].is_number_integer()) return model[name].get<int64_t>();
  }
  return 0;
}

// The whole number that a key of the model's recipe got, where it is among the values.
std::optional<int64_t> integer_of(const StartingModel& model, const std::string& name) {
  const std::string beginning = model.recipe + "." + name + "=";
  for (const std::string& pair : model.sets) {
    if (starts_with(pair, beginning)) return parse_int(pair.substr(beginning.size()));
  }
  return std::nullopt;
}

// With layers that rotate, G has twice the feature maps that the keys say, which are those of D;
// the file says G's own.
void take_rotating(StartingModel& model) {
  model.sets.push_back(model.recipe + ".config=r");
  for (const char* name : {"channel_base", "channel_max"}) {
    const auto of_g = integer_of(model, name);
    if (!of_g) continue;
    const std::string pair = fmt::format("{}.{}=", model.recipe, name);
    std::ranges::replace(
        model.sets, pair + std::to_string(*of_g), pair + std::to_string((*of_g + 1) / 2));
  }
}

// The feature maps of the file's D by resolution, of the blocks that StyleGAN's have.
std::map<int64_t, int64_t> widths_of_d(const Json& header) {
  std::map<int64_t, int64_t> widths;
  for (const auto& [name, tensor] : header.items()) {
    if (!starts_with(name, "D.b") || !tensor.is_object() || !tensor.contains("shape")) continue;
    const std::vector<std::string> parts = split(name.substr(3), '.');
    const auto resolution = parse_int(parts.front());
    const bool is_first =
        parts.size() == 3 && parts[2] == "weight" && (parts[1] == "conv0" || parts[1] == "conv");
    const Json& shape = tensor["shape"];
    if (!resolution || !is_first || !shape.is_array() || shape.size() != 4) continue;
    if (shape[0].is_number_integer()) widths[*resolution] = shape[0].get<int64_t>();
  }
  return widths;
}

// Recipes whose D may have other feature maps than G: its own, where they are not those that the
// keys of both make.
void take_widths_of_d(const Json& header,
                      const std::vector<std::string>& keys,
                      StartingModel& model) {
  if (!has(keys, model.recipe + ".d_channel_base")) return;
  const std::map<int64_t, int64_t> widths = widths_of_d(header);
  const auto base = integer_of(model, "channel_base"), most = integer_of(model, "channel_max");
  if (widths.empty() || !base || !most) return;
  const auto are_of = [&](int64_t base_of_d, int64_t most_of_d) {
    return std::ranges::all_of(widths, [&](const auto& width) {
      return std::min(base_of_d / width.first, most_of_d) == width.second;
    });
  };
  const int64_t own_most = widths.begin()->second;
  const int64_t own_base = widths.rbegin()->first * widths.rbegin()->second;
  if (are_of(*base, *most) || !are_of(own_base, own_most)) return;
  model.sets.push_back(fmt::format("{}.d_channel_base={}", model.recipe, own_base));
  model.sets.push_back(fmt::format("{}.d_channel_max={}", model.recipe, own_most));
}

// What the file itself says, where no run lies around it.
void read_header(const fs::path& file,
                 const Json& header,
                 KeysOfRecipe keys,
                 StartingModel& model) {
  const Json about = model_in_header(header);
  if (!about.is_object() || !about.contains("recipe")) {
    fail(Exit::kInput,
         "{}: does not say what model it holds (gantrain.model); give a run folder, a model file "
         "that gantrain wrote, or an official pickle",
         file.string());
  }
  model.recipe = text_of(about["recipe"]);
  for (const char* name : {"img_resolution", "resolution"}) {
    if (about.contains(name)) model.resolution = parse_size(text_of(about[name])).value_or(Size{});
  }
  const std::vector<std::string> known = keys(model.recipe);
  // Official networks of that family choose batch and rates by their size.
  if (has(known, model.recipe + ".automatic")) model.sets.push_back(model.recipe + ".automatic=on");
  take_members(about, "", known, model);
  const bool rotates = integer_in(about, {"conv_kernel"}) == 1;
  if (rotates && has(known, model.recipe + ".config")) take_rotating(model);
  take_widths_of_d(header, known, model);
}

}  // namespace

bool is_pickle(const fs::path& file) {
  const std::string extension = lower(file.extension().string());
  return extension == ".pkl" || extension == ".pickle";
}

StartingModel read_starting_model(const fs::path& file_or_run, KeysOfRecipe keys) {
  std::error_code error;
  const bool is_run = fs::is_directory(file_or_run, error);
  const fs::path file = find_model(file_or_run);  // says what is wrong where there is none
  StartingModel model{.path = file_or_run};
  const Json header = header_of_model(file);
  if (header.is_object()) {
    for (const auto& [name, tensor] : header.items())
      model.has_discriminator = model.has_discriminator || starts_with(name, "D.");
  }
  if (header.is_object() && header.contains("__metadata__")) {
    const Json& metadata = header["__metadata__"];
    const auto said = [&](const char* key) {
      return metadata.is_object() && metadata.contains(key) ? text_of(metadata[key]) : "";
    };
    model.kimg = parse_double(said("gantrain.kimg")).value_or(0);
    model.depth = parse_int(said("gantrain.depth")).value_or(8);
  }
  // A run's states have all networks.
  if (is_run && !find_states(file_or_run).empty()) model.has_discriminator = true;
  if (const Json about = model_in_header(header); about.is_object()) {
    model.classes = integer_in(about, {"c_dim", "label_size"});
    model.channels = integer_in(about, {"img_channels", "num_channels"});
  }
  if (!read_run(is_run ? file_or_run : file.parent_path(), model))
    read_header(file, header, keys, model);
  if (model.resolution.width == 0)
    fail(Exit::kInput, "{}: does not say the size of its pictures", file.string());
  return model;
}

}  // namespace gantrain
