// SPDX-License-Identifier: Apache-2.0
#include "tune/starting_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "train/save/run_folder.h"
#include "tune/finetune.h"
#include "util/error.h"
#include "util/file.h"
#include "util/size.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// Whether a run's value of a key belongs to its networks and how they learn, and not to where and
// for how long.
bool is_of_the_model(const std::string& key, const std::string& recipe) {
  for (const std::string& section : {recipe + ".",
                                     std::string("G."),
                                     std::string("D."),
                                     std::string("augment."),
                                     std::string("optim."),
                                     std::string("ema."),
                                     std::string("ada."),
                                     std::string("schedule.")}) {
    if (starts_with(key, section)) return true;
  }
  return key == "train.batch" || key == "data.mirror";
}

// A value as it was at the end of the model's training: that of a ramp does not begin again.
std::string text_at_end(const Json& value, double kimg) {
  const auto ramp =
      value.is_object() ? Value<Scheduled>::from_text(value.dump()) : std::optional<Scheduled>();
  if (!ramp) return text_of(value);
  return shortest(kimg > 0 ? ramp->at(std::llround(kimg * 1000)) : ramp->to);
}

// What the model's run was told, or chose: no default and no preset's value.
void take_settings(const Json& values, StartingModel& model) {
  for (const auto& [key, entry] : values.items()) {
    const bool whole = entry.is_object() && entry.contains("value") && entry.contains("origin");
    if (!whole || !is_of_the_model(key, model.recipe)) continue;
    const std::string origin = text_of(entry["origin"]);
    if (origin == "default" || starts_with(origin, "preset ")) continue;
    // The stages' batches and rates follow the ranks, and train.batch the first stage.
    const bool of_stages = starts_with(key, "schedule.") && starts_with(origin, "auto");
    if (of_stages || starts_with(origin, "auto (schedule")) continue;
    model.sets.push_back(key + "=" + text_at_end(entry["value"], model.kimg));
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
  return contains(keys, key) ? key : "";
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
  if (!contains(keys, model.recipe + ".d_channel_base")) return;
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
  if (contains(known, model.recipe + ".automatic"))
    model.sets.push_back(model.recipe + ".automatic=on");
  take_members(about, "", known, model);
  const bool rotates = integer_in(about, {"conv_kernel"}) == 1;
  if (rotates && contains(known, model.recipe + ".config")) take_rotating(model);
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
  if (lower(file.extension().string()) == ".pt") {
    fail(Exit::kInput,
         "{}: a state, whose networks its run folder tells of: give that",
         file.string());
  }
  StartingModel model{.path = file_or_run};
  const Json header = header_of_model(file);
  if (!header.is_object()) {
    fail(Exit::kInput,
         "{}: {} bytes that are no safetensors file; was it copied to its end?",
         file.string(),
         fs::file_size(file, error));
  }
  for (const auto& [name, tensor] : header.items())
    model.has_discriminator = model.has_discriminator || starts_with(name, "D.");
  if (header.contains("__metadata__")) {
    const Json& metadata = header["__metadata__"];
    const auto said = [&](const char* key) {
      return metadata.is_object() && metadata.contains(key) ? text_of(metadata[key]) : "";
    };
    model.kimg = parse_double(said("gantrain.kimg")).value_or(0);
    model.depth = parse_int(said("gantrain.depth")).value_or(8);
    model.level = parse_int(said("gantrain.level")).value_or(0);
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

namespace {

constexpr const char* kFreezeD = "Mo et al. 2020, arXiv:2002.10964";
constexpr const char* kAda = "Karras et al. 2020, arXiv:2006.06676";
constexpr const char* kAdvice = "StyleGAN3's advice on configurations";
constexpr const char* kAverages = "Karras et al. 2024, arXiv:2312.02696";
constexpr const char* kOwn = "gantrain's own rule";

constexpr int64_t kMeasurements = 25;  // of a run: each may be the best
// Of a run's length, the longest half-life of the average: one of 5 kimg would after 20 kimg still
// hold 6 % of the model that was begun at. Ours.
constexpr double kLongestAverage = 0.1;
// A model of less kimg may draw pictures that are not distinct yet, as metrics.collapse_after has
// it.
constexpr double kDistinct = 20;
// Layers of a discriminator that was trained for less kimg are not worth keeping. Ours: with models
// of 60 and 200 kimg at 32 pixels, frozen layers made pictures worse or no better
// (docs/measurements.md).
constexpr double kWorthKeeping = 1'000;
// Pictures that are each shown less often are not mirrored. Ours: with 200 to 250 pictures that
// were shown 80 to 100 times, mirrored ones made the result no better (docs/measurements.md).
constexpr double kOftenShown = 500;

// So many states that the best one is among them when a fall is seen.
int64_t states_kept(double every) {
  const auto needed = static_cast<int64_t>(std::ceil(kCourseLimits.kimg / every)) + 1;
  return std::clamp(needed, kCourseLimits.times_without_best, kMeasurements);
}

// Kimg between measurements, states and snapshots, which must be those of the same moments: what
// the user has said of one of them, or a share of the length.
double cadence_of(const Config& config, double length) {
  for (const char* key : {"metrics.every", "save.every"}) {
    if (!config.has(key) || !config.given(key)) continue;
    const Json given = config.get(key);
    const double kimg = given.is_number() ? given.get<double>() : 0;
    if (kimg > 0 && kimg < length) return kimg;
  }
  return std::max(length / kMeasurements, 0.001);
}

// "5", or "" where the run's own half-life of the average is no longer than its length asks for.
std::string shorter_half_life(const Config& config, double length) {
  if (!config.has("ema.half_life")) return "";
  const Json own = config.get("ema.half_life");
  const double longest = kLongestAverage * length;
  const Json& end = own.is_object() && own.contains("to") ? own["to"] : own;
  return end.is_number() && end.get<double>() > longest ? shortest(longest) : "";
}

// DiffAugment, as Projected GAN has it, ADA's transforms with a strength that does not follow D, as
// R3GAN has them, or none, as the user may have said.
bool has_other_augmentation(const Config& config) {
  const auto is = [&](const char* key, const char* value) {
    return config.has(key) && text_of(config.get(key)) == value;
  };
  return is("ada.mode", "fixed") || (config.has("augment.mode") && !is("augment.mode", "ada"));
}

}  // namespace

// Where the columns come from:
//   kimg     NVIDIA's MetFaces, 1336 pictures from a model of faces, had 5000 at most (Karras et
//            al. 2021, app. G); fewer pictures overfit sooner (Karras et al. 2020, fig. 1). The
//            numbers below and above are ours; the end is found by the metric.
//   frozen   D's first layers stay as they are: Mo et al. 2020. StyleGAN3's advice calls 10 and 13
//            layers good values, which are half of D's resolutions at 256 and at 1024 pixels. With
//            many pictures D may learn all of it anew.
//   mirror   Karras et al. 2020 double small sets by mirroring. It is left out where each picture
//            is shown so seldom that it gained nothing (kOftenShown).
const std::vector<FinetuneRule>& finetune_rules() {
  static const std::vector<FinetuneRule> table = {
      {200, 500, 0.5, true},
      {1'000, 1'500, 0.5, true},
      {2'000, 5'000, 0.5, true},
      {10'000, 5'000, 0.25, true},
      {std::numeric_limits<int64_t>::max(), 10'000, 0, false},
  };
  return table;
}

const FinetuneRule& rule_for(int64_t pictures) {
  const auto& table = finetune_rules();
  return *std::ranges::find_if(
      table, [&](const FinetuneRule& rule) { return pictures <= rule.most_pictures; });
}

// Of a discriminator of residual blocks: four layers in the first, with the one that reads the
// picture, three in each other (Karras et al. 2020a, fig. 7); the one at 4x4 pixels always learns.
int64_t layers_in(double share, int64_t nominal_resolution) {
  const auto resolutions =
      static_cast<int64_t>(std::llround(std::log2(static_cast<double>(nominal_resolution)))) - 2;
  const auto frozen = static_cast<int64_t>(share * static_cast<double>(resolutions));
  return frozen > 0 ? 3 * frozen + 1 : 0;
}

std::vector<FinetuneChoice> finetune_choices(const Config& config,
                                             const StartingModel& model,
                                             int64_t pictures,
                                             const std::string& metric) {
  const FinetuneRule& rule = rule_for(pictures);
  const std::string recipe = text_of(config.get("recipe"));
  const std::string for_so_many = "for " + counted(pictures, "picture");
  std::vector<FinetuneChoice> choices;
  const auto choose =
      [&](const std::string& key, const std::string& value, const std::string& why) {
        if (config.has(key)) choices.push_back({key + "=" + value, why});
      };
  double kimg = rule.kimg;
  std::string why =
      fmt::format("{}, at most; it ends when nothing improves ({})", for_so_many, kAdvice);
  if (model.kimg > 0 && model.kimg < kimg) {
    kimg = model.kimg;
    why = fmt::format("as long as the model itself was trained, at most ({})", kOwn);
  }
  choose("train.kimg", shortest(kimg), why);
  const auto size = find_doubled_size(model.resolution);
  const int64_t frozen = size ? layers_in(rule.frozen, size->nominal()) : 0;
  if (!model.has_discriminator) {
    choose(recipe + ".freeze_d", "0", "the file has no discriminator, which is drawn anew");
  } else if (model.kimg > 0 && model.kimg < kWorthKeeping) {
    choose(recipe + ".freeze_d",
           "0",
           fmt::format("a model of less than {} kimg: D's first layers are not good enough to stay "
                       "as they are ({})",
                       shortest(kWorthKeeping),
                       kOwn));
  } else {
    choose(recipe + ".freeze_d",
           std::to_string(frozen),
           fmt::format("{}: {:.0f} % of D's resolutions stay as they are ({}; {})",
                       for_so_many,
                       100 * rule.frozen,
                       kFreezeD,
                       kAdvice));
  }
  if (model.adaptive && !has_other_augmentation(config)) {
    choose("ada.mode", "ada", fmt::format("what D sees is augmented as it overfits ({})", kAda));
    choose("ada.p", "0", fmt::format("it begins at none ({}, its code)", kAda));
    choose(
        "ada.kimg", "100", fmt::format("five times as fast as from nothing ({}, its code)", kAda));
  }
  const int64_t level = model.level > 0 ? model.level : model.resolution.width;
  choose("schedule.start", std::to_string(level), "the model has grown so far");
  choose("ema.rampup", "0", fmt::format("the average begins at the model's ({})", kAdvice));
  // A length that was given decides how often it is measured.
  const bool given = config.given("train.kimg");
  const double length = given ? config.get("train.kimg").get<double>() : kimg;
  const double shown = 1e3 * length / static_cast<double>(pictures);
  const bool mirrored = rule.mirror && shown >= kOftenShown;
  if (contains(model.sets, "data.mirror=false")) {
    choose("data.mirror", "off", "as the model's own run was told");
  } else {
    choose("data.mirror",
           mirrored ? "on" : "off",
           fmt::format("{}, each shown {:.0f} times{} ({})",
                       for_so_many,
                       shown,
                       mirrored ? "; off where left and right differ" : "",
                       mirrored ? kAda : kOwn));
  }
  const std::string half_life = shorter_half_life(config, length);
  if (!half_life.empty()) {
    choose("ema.half_life", half_life, fmt::format("a tenth of the length, at most ({})", kOwn));
  }
  const double every = cadence_of(config, length);
  const auto times = static_cast<int64_t>(std::llround(length / every));
  choose("metrics.every",
         shortest(every),
         fmt::format("{} ({})", counted(times, "measurement"), kOwn));
  choose("metrics.at_start", "on", "the model that it begins at competes, too");
  choose("save.every", shortest(every), "a state to go back to for each measurement");
  choose("ema.posthoc",
         "on",
         fmt::format("averages of other lengths compete at the end ({})", kAverages));
  choose("ema.snapshot_every", shortest(every), "a snapshot of averages for each measurement");
  choose("ema.snapshot_type", "bf16", "half the disk");
  choose("save.keep_last",
         std::to_string(states_kept(every)),
         "the best one is among them when it falls");
  choose("save.keep_best", metric, "the best model by it is kept");
  choose("metrics.stop_on", "collapse", "pictures that have collapsed lead back to the best state");
  if (model.kimg == 0 || model.kimg >= kDistinct)
    choose("metrics.collapse_after", "0", "a trained model's pictures are distinct from the start");
  return choices;
}

}  // namespace gantrain
