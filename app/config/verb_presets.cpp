// SPDX-License-Identifier: Apache-2.0
#include "config/config.h"
#include "config/resolve.h"
#include "main/verbs.h"
#include "util/error.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

Config resolved(const std::string& preset) {
  ConfigSources request;
  request.preset = preset;
  return resolve(request, {});
}

void list(bool json) {
  Json rows = Json::array();
  for (const std::string& name : preset_names()) {
    if (json) {
      rows.push_back(
          {{"name", name}, {"recipe", preset_recipe(name)}, {"about", preset_about(name)}});
    } else {
      fmt::print("{:<22} {}\n", name, preset_about(name));
    }
  }
  if (json) fmt::print("{}\n", rows.dump());
}

void show(const std::string& name, bool json) {
  const Config config = resolved(name);
  if (json) {
    fmt::print("{}\n", config.to_json().dump());
    return;
  }
  fmt::print("{}\n", preset_files().at(name + ".json"));
  // Comments, so that all that is printed is a valid file for --config.
  fmt::print("// resolved:\n");
  for (const Key& key : config.schema()) {
    if (config.origin(key.path) == "default") continue;
    print_text("//   {:<28} {:<14} {}\n",
               key.path,
               text_of(config.get(key.path)),
               config.origin(key.path));
  }
}

void diff(const std::string& a, const std::string& b, bool json) {
  Json rows = Json::array();
  for (const auto& [key, before, after] : differences(resolved(a), resolved(b))) {
    if (json) {
      rows.push_back({{"key", key}, {"before", before}, {"after", after}});
    } else {
      print_text("{}: {} -> {}\n", key, before, after);
    }
  }
  if (json) fmt::print("{}\n", rows.dump());
}

struct PresetsRequest {
  std::vector<std::string> words;
  bool json = false;
};

template <class Field>
void fields(PresetsRequest& o, Field&& field) {
  field("words", o.words, said("action"), "list | show NAME | diff A B");
  field("json", o.json, "one JSON line");
}

int run_presets(PresetsRequest& request, Options&) {
  std::vector<std::string>& words = request.words;
  if (words.empty()) words = {"list"};
  if (words[0] == "list" && words.size() == 1) {
    list(request.json);
  } else if (words[0] == "show" && words.size() == 2) {
    show(words[1], request.json);
  } else if (words[0] == "diff" && words.size() == 3) {
    diff(words[1], words[2], request.json);
  } else {
    fail(Exit::kUsage,
         "presets: {0} presets list, {0} presets show NAME or {0} presets diff A B",
         program());
  }
  return 0;
}

}  // namespace

Verb presets_verb() {
  return verb_of(
      "presets",
      "list, show and compare the named starting points",
      "The named starting points: list them, show NAME with all that it sets, or diff A B, what "
      "differs between two.",
      run_presets);
}

}  // namespace gantrain
