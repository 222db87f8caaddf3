// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "config/resolve.h"
#include "gan/recipe_facts.h"
#include "train/options.h"
#include "train/save/run_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr const char* kKey = "data.resolution";
constexpr int64_t kLargest = 4096;  // pixels: the key's own limit

bool can_make(const RecipeFacts& recipe, const Size& size) {
  if (size.shorter() < 4 || size.longer() > kLargest) return false;
  try {
    recipe.check_resolution(size);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

// The squares that the networks can make below and above a side; 0: there is none.
struct Neighbours {
  int64_t below = 0, above = 0;

  // The one that is nearer in proportion.
  int64_t nearest(int64_t side) const {
    if (below == 0 || above == 0) return below + above;
    return side * side > below * above ? above : below;
  }
  std::string text() const {
    if (below == 0 || above == 0) return std::to_string(below + above);
    return fmt::format("{} and {}", below, above);
  }
};

Neighbours neighbours_of(const RecipeFacts& recipe, int64_t side) {
  Neighbours found;
  for (int64_t at = side - 1; at >= 4 && found.below == 0; --at)
    if (can_make(recipe, square_of(at))) found.below = at;
  for (int64_t at = side + 1; at <= kLargest && found.above == 0; ++at)
    if (can_make(recipe, square_of(at))) found.above = at;
  return found;
}

std::string pictures_text(const PictureSizes& sizes) {
  return sizes.pictures == 1 ? "the picture is" : "the pictures are";
}

// data.resolution in the config.json of a run; nothing where there is none.
std::optional<Size> size_of_run(const fs::path& run) {
  const auto saved = saved_value(run, kKey);
  return saved ? parse_size(text_of(saved->value)) : std::nullopt;
}

// Gives a run that resumes another one the size that this one had of its preset or chose itself.
// Returns false where no run is resumed.
bool keep_resolution(Config& config) {
  const auto saved = saved_value(resumed_run(config.read<RunOptions>()), kKey);
  if (!saved) return false;
  const auto& [value, origin] = *saved;
  const bool was_given = !starts_with(origin, "auto") && !starts_with(origin, "preset ");
  if (was_given && origin != "default") return true;  // it has to be given again, as it is compared
  config.set(kKey, value, origin);
  return true;
}

// The size of the networks whose weights a run begins at; nothing where the file does not say.
std::optional<Size> size_of_model(const fs::path& file_or_run) {
  std::error_code error;
  const bool run = fs::is_directory(file_or_run, error);
  if (const auto size = size_of_run(run ? file_or_run : file_or_run.parent_path())) return size;
  const auto models = run ? find_models(file_or_run) : std::vector<NumberedFile>();
  const fs::path file = models.empty() ? file_or_run : models.front().path;
  if (!fs::is_regular_file(file, error) || file.extension() != ".safetensors") return std::nullopt;
  const Json model = model_in_header(header_of_model(file));
  for (const char* key : {"img_resolution", "resolution"}) {
    if (model.is_object() && model.contains(key)) return parse_size(text_of(model[key]));
  }
  return std::nullopt;
}

// The size of a run that begins at other weights.
std::string take_size_of_model(Config& config, const std::string& file_or_run) {
  const auto size = size_of_model(file_or_run);
  const std::string preset = text_of(config.get(kKey));
  const RecipeFacts& recipe = find_recipe_facts(text_of(config.get("recipe")));
  if (!size || !can_make(recipe, *size)) return "";
  config.set(kKey, Value<Size>::to_json(*size), "auto (the size of --init-from)");
  if (to_text(*size) == preset) return "";
  return fmt::format("auto    {} {}, not the preset's {}: the size of {}",
                     kKey,
                     to_text(*size),
                     preset,
                     file_or_run);
}

class Choice {
 public:
  Choice(Config& config, const PictureSizes& sizes)
      : config_(config),
        sizes_(sizes),
        data_(config.read<DataOptions>()),
        recipe_(find_recipe_facts(text_of(config.get("recipe")))) {}

  std::string make() {
    const Size typical = sizes_.typical();
    const bool reduces = enlargement(typical, data_) <= 1;
    if (data_.size_from == SizeFrom::kSmaller && reduces) return "";
    const auto commonest = sizes_.commonest();
    if (commonest && can_make(recipe_, *commonest)) return take(*commonest, size_of_pictures());
    const Neighbours near = neighbours_of(recipe_, typical.shorter());
    const std::string why =
        commonest ? fmt::format(
                        "{} {}, which {}'s networks cannot make: the nearest squares that "
                        "they can make are {}",
                        pictures_text(sizes_),
                        sizes_text(sizes_),
                        recipe_.title,
                        near.text())
                  : "the pictures have " + sizes_text(sizes_);
    if (reduces || near.nearest(typical.shorter()) == 0)
      return fmt::format("auto    {} {}, the preset's: {}", kKey, to_text(data_.resolution), why);
    return take(square_of(near.nearest(typical.shorter())), why);
  }

 private:
  std::string size_of_pictures() const {
    if (sizes_.counts.size() == 1 && sizes_.looked_at() == sizes_.pictures)
      return "the size of the pictures";
    return fmt::format("the size of {} of {} pictures{}",
                       sizes_.counts.front().pictures,
                       sizes_.looked_at(),
                       sizes_.looked_at() < sizes_.pictures
                           ? fmt::format(" that were looked at, of {}", sizes_.pictures)
                           : "");
  }

  std::string take(const Size& size, const std::string& why) {
    const Size preset = data_.resolution;
    config_.set(kKey, Value<Size>::to_json(size), "auto (the data's pictures)");
    if (size == preset) return "";
    return fmt::format(
        "auto    {} {}, not the preset's {}: {}", kKey, to_text(size), to_text(preset), why);
  }

  Config& config_;
  const PictureSizes& sizes_;
  DataOptions data_;
  const RecipeFacts& recipe_;
};

}  // namespace

std::string choose_resolution(Config& config, const std::function<PictureSizes()>& look) {
  const auto data = config.read<DataOptions>();
  if (config.given(kKey) || keep_resolution(config)) return "";
  if (data.size_from == SizeFrom::kPreset) return "";
  const std::string model = config.read<RunOptions>().init_from;
  if (!model.empty()) return take_size_of_model(config, model);
  if (starts_with(data.path, "synth:")) return "";
  const PictureSizes sizes = look();
  return sizes.counts.empty() ? "" : Choice(config, sizes).make();
}

}  // namespace gantrain
