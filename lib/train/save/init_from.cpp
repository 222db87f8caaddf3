// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "config/value.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "train/save/checkpoint.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

std::string shape_of(const at::Tensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.sizes(), ", "));
}

// The weights to start at, under the names that a model file has for them.
struct Weights {
  fs::path path;
  TensorFile file;
  std::string recipe = "";  // that they were trained with; "": the file does not say
};

// What a file says as JSON of its recipe; "" where it is none, or says nothing.
std::string recipe_in(const std::string& json) {
  const Json about = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  const Json* at = &about;
  if (about.is_object() && about.contains("config")) at = &about["config"];
  const bool said = at->is_object() && at->contains("recipe") && (*at)["recipe"].is_string();
  return said ? printable((*at)["recipe"].get<std::string>()) : "";
}

bool has(const TensorFile& file, const std::string& prefix) {
  const auto at = file.tensors.lower_bound(prefix);
  return at != file.tensors.end() && starts_with(at->first, prefix);
}

// The networks in a state: "G_ema/NAME" is a model file's NAME, "D/NAME" its D.NAME.
Weights weights_of_state(const fs::path& path, const std::vector<Player*>& players) {
  const Archive archive = load_archive(path);
  Weights weights{path, {}, recipe_in(archive.meta)};
  for (const auto& [name, tensor] : archive.tensors) {
    const size_t slash = name.find('/');
    const std::string owner = name.substr(0, slash);
    if (slash == std::string::npos) continue;
    const bool raw = std::any_of(players.begin(), players.end(), [&](const Player* player) {
      return player->name == owner;
    });
    if (raw || owner == "G_ema")
      weights.file.tensors[(raw ? owner + "." : "") + name.substr(slash + 1)] = tensor;
  }
  return weights;
}

Weights find_weights(const fs::path& file_or_run, const std::vector<Player*>& players) {
  std::error_code error;
  if (file_or_run.extension() == ".pt" && fs::is_regular_file(file_or_run, error))
    return weights_of_state(file_or_run, players);
  const fs::path model = find_model(file_or_run);
  Weights weights{model, load_safetensors(model)};
  if (const auto about = weights.file.metadata.find("gantrain.model");
      about != weights.file.metadata.end())
    weights.recipe = recipe_in(about->second);
  if (!fs::is_directory(file_or_run, error) || has(weights.file, players.back()->name + "."))
    return weights;
  for (const NumberedFile& state : find_states(file_or_run)) {
    if (!fs::is_regular_file(state.path, error)) continue;  // opening a pipe would wait
    try {
      return weights_of_state(state.path, players);
    } catch (const UserError& e) {
      if (e.code() != Exit::kInput) throw;
      warn("{}; trying what was written before it", e.what());
    }
  }
  return weights;
}

class WeightMatcher {
 public:
  WeightMatcher(Weights weights, const Recipe& recipe)
      : model_(std::move(weights.file)), recipe_(recipe), theirs_(weights.recipe) {
    refuse_nonfinite(model_.tensors, weights.path.string());
    table_.file = weights.path;
    table_.values_that_fit = recipe.values_that_fit(model_.tensors);
  }

  // Copies the file's tensors into `network`, which is the player's or its average; the table calls
  // them `label` + NAME. Each of `prefixes` is put before the file's names, and the first with
  // which a tensor is found is used.
  void load(const torch::nn::Module& network,
            const Player& player,
            const std::string& label,
            const std::vector<std::string>& prefixes) {
    const torch::NoGradGuard no_grad;
    const TensorNames names = recipe_.names_in(model_.tensors, player);
    const auto parameters = network.named_parameters();
    for (auto& [name, tensor] : state_of(network)) {
      const auto [there, follows_size] = names(name);
      const auto* found = there.empty() ? nullptr : find(there, prefixes);
      if (follows_size) continue;
      if (found == nullptr) {
        table_.reinitialised.push_back({label + name, shape_of(tensor) + ", missing in the file"});
      } else if (found->second.sizes() != tensor.sizes()) {
        table_.reinitialised.push_back(
            {label + name,
             fmt::format("{} in the file, {} here", shape_of(found->second), shape_of(tensor))});
      } else {
        tensor.copy_(found->second);
        table_.loaded.push_back(label + name + (there == name ? "" : " from " + found->first));
        parameters_ += parameters.contains(name) ? 1 : 0;
      }
    }
  }

  bool has_network(const std::string& prefix) const { return has(model_, prefix); }
  void leave(const std::string& network) { table_.afresh.push_back(network); }

  InitTable finish() {
    const std::string own = text_of(recipe_.model().value("recipe", Json("")));
    const bool other = !theirs_.empty() && theirs_ != own;
    const std::string recipes =
        fmt::format("it was trained with recipe {}, and this run is of recipe {}", theirs_, own);
    if (parameters_ == 0) {
      const auto about = model_.metadata.find("gantrain.model");
      fail(Exit::kInput,
           "{}: of {}, none has the name and shape of a parameter here{}{}",
           table_.file.string(),
           counted(static_cast<int64_t>(model_.tensors.size()), "tensor"),
           other                            ? "; " + recipes
           : about == model_.metadata.end() ? ""
                                            : "; it is of " + about->second,
           table_.values_that_fit.empty()
               ? ""
               : "; they fit with --set " + join(table_.values_that_fit, " --set "));
    }
    if (other)
      warn("{}: {}: only tensors of the same names are taken over", table_.file.string(), recipes);
    for (const auto& [name, tensor] : model_.tensors) {
      if (used_.count(name) == 0) table_.skipped.push_back({name, shape_of(tensor)});
    }
    return std::move(table_);
  }

 private:
  const std::pair<const std::string, at::Tensor>* find(const std::string& name,
                                                       const std::vector<std::string>& prefixes) {
    for (const std::string& prefix : prefixes) {
      const auto at = model_.tensors.find(prefix + name);
      if (at == model_.tensors.end()) continue;
      used_.insert(at->first);
      return &*at;
    }
    return nullptr;
  }

  TensorFile model_;
  const Recipe& recipe_;
  std::string theirs_;  // the recipe that the file was trained with, or ""
  InitTable table_;
  std::set<std::string> used_;
  int64_t parameters_ = 0;
};

void log_rows(const std::string& what, const std::vector<InitTable::Row>& rows) {
  constexpr size_t kShown = 12;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::string line = fmt::format("init    {} {}: {}", what, rows[i].name, rows[i].reason);
    if (i < kShown) {
      info("{}", line);
    } else {
      log_to_file(line);
    }
  }
  if (rows.size() > kShown) info("init    {} {} more: log.txt", what, rows.size() - kShown);
}

}  // namespace

InitTable init_from(const fs::path& file_or_run, Recipe& recipe, const torch::nn::Module& ema) {
  const std::vector<Player*> players = recipe.players();
  WeightMatcher loader(find_weights(file_or_run, players), recipe);
  loader.load(ema, *players.front(), "G_ema.", {""});
  for (const Player* player : players) {
    const std::string prefix = player->name + ".";
    const bool generator = player == players.front();
    if (!generator && !loader.has_network(prefix)) {
      loader.leave(player->name);
      continue;
    }
    loader.load(
        *player->network,
        *player,
        prefix,
        generator ? std::vector<std::string>{prefix, ""} : std::vector<std::string>{prefix});
  }
  return loader.finish();
}

void check_freezing(const Freezing& freezing, const InitTable* table) {
  if (freezing.frozen == 0) return;
  const auto has_layer = [](const std::string& name, const std::string& layer) {
    return starts_with(name, "D." + layer + ".");
  };
  const auto came = [&](const std::string& layer) {
    if (table == nullptr) return false;
    const auto of_layer = [&](const std::string& name) { return has_layer(name, layer); };
    const auto row_of_layer = [&](const InitTable::Row& row) { return has_layer(row.name, layer); };
    return std::ranges::any_of(table->loaded, of_layer) &&
           std::ranges::none_of(table->reinitialised, row_of_layer);
  };
  const auto first_new = std::ranges::find_if_not(freezing.layers, came);
  const auto possible = first_new - freezing.layers.begin();
  if (freezing.frozen <= possible) return;
  const std::string why =
      table == nullptr ? "without --init-from all of D's layers are drawn at random"
      : first_new == freezing.layers.end()
          ? fmt::format("D has {} layers that can be counted", possible)
          : fmt::format("D's {} came without weights from {}", *first_new, table->file.string());
  fail(Exit::kUsage,
       "freeze_d = {}: {}; at most {} can stay as they are here{}",
       freezing.frozen,
       why,
       possible,
       table == nullptr
           ? ": --init-from RUN begins at the weights of a run, or of a model of --save-raw"
           : "");
}

void log_table(const InitTable& table) {
  info("init    {}: {} loaded, {} re-initialised, {} skipped",
       table.file.string(),
       counted(static_cast<int64_t>(table.loaded.size()), "tensor"),
       table.reinitialised.size(),
       table.skipped.size());
  for (const std::string& network : table.afresh) {
    info(
        "init    {} begins afresh: {} holds the generator's average alone; a run folder, a state "
        "or a model of --save-raw has {} as well",
        network,
        table.file.filename().string(),
        network);
  }
  log_rows("re-initialised", table.reinitialised);
  log_rows("skipped", table.skipped);
  for (const std::string& value : table.values_that_fit)
    info("init    the file's layers fit with --set {}", value);
  for (const std::string& name : table.loaded) log_to_file("init    loaded " + name);
}

}  // namespace gantrain
