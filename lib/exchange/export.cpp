// SPDX-License-Identifier: Apache-2.0
#include "exchange/export.h"

#include <algorithm>

#include "config/config.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

std::string python_program(const std::vector<std::string>& parts) {
  std::string program;
  for (const std::string& part : parts) {
    std::string_view text = python_files().at(part + ".py");
    // The line with the licence stands once, at the top.
    if (!program.empty()) text.remove_prefix(text.find('\n') + 1);
    program += (program.empty() ? "" : "\n\n") + std::string(text);
  }
  return program;
}

namespace {

Json whole_model(const ExportedModel& exported) {
  const RecipeRow& recipe = *exported.model.recipe;
  const std::string source = exported.file.string();
  if (recipe.whole_model == nullptr)
    refuse_file(source, "recipe {} cannot be exported to Python", recipe.facts.name);
  return recipe.whole_model(exported.model.said(source, "gantrain.model").value_or(Json()),
                            {exported.tensors.begin(), exported.tensors.end()},
                            source);
}

SynthesisOptions options_of(const LoadedModel& model, double trunc) {
  SynthesisOptions options;
  options.trunc = trunc;
  options.level = model.level.value_or(options.level);
  options.alpha = model.alpha.value_or(options.alpha);
  return options;
}

// About a thousand values of a picture. The step is odd, so that they lie in all columns.
constexpr int64_t kValues = 1000;

Json case_of(ExportedModel& exported, int64_t seed, double trunc) {
  Generator& generator = *exported.model.generator;
  const at::Tensor label = exported.label(seed);
  const at::Tensor z = latents_of_seeds({seed}, generator.z_dim());
  const at::Tensor picture =
      generator.images(z, label, options_of(exported.model, trunc))[0].contiguous();
  const auto* values = picture.const_data_ptr<float>();
  const int64_t stride = (picture.numel() / kValues) | 1;
  Json test = {{"seed", seed}, {"trunc", trunc}, {"shape", picture.sizes().vec()}};
  if (label.defined() && exported.vectors) {
    test["label"] = std::vector<float>(label.const_data_ptr<float>(),
                                       label.const_data_ptr<float>() + label.numel());
  } else if (label.defined()) {
    test["class"] = label.item<int64_t>();
  }
  test["sha256"] = sha256({reinterpret_cast<const char*>(values), picture.nbytes()});
  test["stride"] = stride;
  test["values"] = Json::array();
  for (int64_t i = 0; i < picture.numel(); i += stride) test["values"].push_back(values[i]);
  return test;
}

}  // namespace

at::Tensor ExportedModel::label(int64_t number) const {
  const int64_t classes = model.generator->classes();
  const std::vector<std::vector<float>>& examples = model.classes.examples;
  if (classes == 0) return {};
  if (!vectors) return torch::full({1}, number % classes, at::kLong);
  const bool fits = static_cast<int64_t>(model.classes.size()) == classes;
  if (examples.empty() || !fits) return torch::eye(classes).narrow(0, number % classes, 1).clone();
  return torch::tensor(examples[static_cast<size_t>(number) % examples.size()]).unsqueeze(0);
}

std::string about_pictures(int64_t depth) {
  return depth == 16 ? "about in [-1, 1]; 16 bits: floor(x * 32767.5 + 32768)"
                     : "about in [-1, 1]; 8 bits: floor(x * 127.5 + 128)";
}

ExportedModel load_exported(const fs::path& file, const RecipeTable& recipes, bool vectors) {
  ExportedModel exported;
  exported.file = file;
  exported.model = load_generator(exported.file, recipes);
  exported.tensors = state_of(*exported.model.generator->network());
  const Generator& generator = *exported.model.generator;
  const ClassTable& table = exported.model.classes;
  const bool fits = static_cast<int64_t>(table.size()) == generator.classes();
  if (vectors && (generator.classes() == 0 || !generator.takes_vectors())) {
    fail(Exit::kUsage,
         "--label-vectors: {} is {}; leave it out",
         file.string(),
         generator.classes() == 0 ? "unconditional" : "conditional on one class a picture");
  }
  exported.vectors = vectors || (generator.classes() > 0 && table.vectors() && fits);
  return exported;
}

Json config_of(const ExportedModel& exported) {
  const Generator& generator = *exported.model.generator;
  const RecipeFacts& recipe = exported.model.recipe->facts;
  Json config = {{"format", "gantrain-generator"},
                 {"gantrain", kVersion},
                 {"recipe", recipe.name},
                 {"model", whole_model(exported)}};
  config["z"] = {{"dim", generator.z_dim()},
                 {"drawn", "numpy.random.RandomState(seed).randn(dim), as float32"},
                 {"normalised", recipe.python.normalises_z ? "x / sqrt(mean(x^2) + 1e-8)" : "no"}};
  config["classes"] = {{"count", generator.classes()}, {"table", to_json(exported.model.classes)}};
  config["stage"] = nullptr;
  if (exported.model.level || exported.model.alpha) {
    const int64_t full = generator.levels().empty() ? 0 : generator.levels().back();
    config["stage"] = {{"level", exported.model.level.value_or(full)},
                       {"alpha", exported.model.alpha.value_or(1)}};
  }
  if (generator.num_ws() > 0) {
    config["truncation"] = {
        {"average", recipe.python.w_average}, {"psi", 1}, {"layers", generator.num_ws()}};
  }
  if (generator.has_noise()) config["noise_mode"] = "const";
  config["epsilon"] = {{"norms", 1e-8}, {"batch_norm", 1e-5}};
  config["depth"] = exported.model.depth;
  config["pictures"] = "[N, C, H, W], " + about_pictures(exported.model.depth);
  return config;
}

Json self_test_of(ExportedModel& exported) {
  constexpr double kPsi = 0.7;
  Json cases = Json::array();
  for (int64_t seed = 0; seed < 4; ++seed) {
    const bool pulled = seed >= 2 && exported.model.generator->num_ws() > 0;
    cases.push_back(case_of(exported, seed, pulled ? kPsi : 1));
  }
  return {{"tolerance", 1e-4}, {"drawn_by", kVersion}, {"cases", cases}};
}

namespace {

// Text from outside in a cell of a Markdown table: no markup, no HTML, no link that a site would
// make of an address.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : printable(text, std::string::npos)) {
    const bool links = (c == '/' && ends_with(out, ":")) || (c == '.' && ends_with(out, "www"));
    if (links || c == '&' || c == '<' || c == '>') {
      out += fmt::format("&#{};", static_cast<int>(c));
    } else {
      if (std::string_view("\\`*_[]|~$").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

// A value of the run's config.json, or "" where there is none.
std::string value_of(const Json& run, const std::string& key) {
  if (!run.is_object() || !run.contains("values") || !run["values"].is_object()) return "";
  const Json& values = run["values"];
  if (!values.contains(key) || !values[key].is_object() || !values[key].contains("value"))
    return "";
  return text_of(values[key]["value"]);
}

Json config_of_run(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const auto text = content_of(file, kMostOfJson);
  return text ? parse_json(*text, file.string(), Exit::kInput) : Json();
}

// Whether a line of metric-*.jsonl is of this model. The best one is a copy of a snapshot.
bool is_of(const Json& row, const fs::path& model, const std::string& kimg) {
  if (row.value("snapshot", Json()) == model.filename().string()) return true;
  const auto of_model = parse_double(kimg);
  return starts_with(model.filename().string(), "model-best") && of_model &&
         row.value("kimg", Json()) == *of_model;
}

// A number that was measured of a model.
struct Measured {
  std::string name;
  double value = 0;
  int64_t fakes = 0;  // pictures that it was measured with; 0: not known
};

// Numbers that the run's metric-*.jsonl have of this very model. Where it was measured in several
// ways, those of the most pictures count; of the same, the last.
std::vector<Measured> metrics_of(const fs::path& model, const std::string& kimg) {
  const fs::path folder = model.parent_path();
  std::vector<Measured> all;
  for (const std::vector<Json>& file : metric_rows(folder.empty() ? "." : folder)) {
    std::map<std::string, Measured> found;
    for (const Json& row : file) {
      if (!is_of(row, model, kimg)) continue;
      const Json recipe = row.value("recipe", Json::object());
      const Json fakes = recipe.is_object() ? recipe.value("fakes", Json(0)) : Json(0);
      const int64_t count = fakes.is_number_integer() ? fakes.get<int64_t>() : 0;
      for (const auto& [name, value] : row["results"].items()) {
        if (value.is_number() && (found.count(name) == 0 || count >= found[name].fakes))
          found[name] = {name, value.get<double>(), count};
      }
    }
    for (const auto& [name, one] : found) all.push_back(one);
  }
  return all;
}

// The table of the card.
std::string numbers_text(const std::vector<Measured>& metrics) {
  if (metrics.empty()) return "";
  std::string text =
      "\n## Numbers\n\nMeasured in the run, for these weights:\n\n| metric | | fakes "
      "|\n|---|---|---|\n";
  for (const Measured& one : metrics) {
    const std::string pictures = one.fakes > 0 ? std::to_string(one.fakes) : "";
    text += fmt::format("| {} | {:.4g} | {} |\n", cell(one.name), one.value, pictures);
  }
  return text;
}

// The pixels of its pictures: "256x128", "64x64".
std::string size_text(const Json& config) {
  const Json& model = config["model"];
  const Json size = config["stage"].is_object()        ? config["stage"]["level"]
                    : model.contains("img_resolution") ? model["img_resolution"]
                                                       : model["resolution"];
  const std::string text = text_of(size);
  return text.find('x') == std::string::npos ? text + "x" + text : text;
}

std::string front_matter(const std::string& recipe) {
  return fmt::format(
      "---\n"
      "license: # fill in, for example cc-by-4.0; that of the training data counts, too\n"
      "library_name: pytorch\n"
      "pipeline_tag: unconditional-image-generation\n"
      "tags: [gan, {}, gantrain]\n"
      "---\n\n",
      recipe);
}

// Text from outside as YAML, in double quotes, of which JSON's are a part.
std::string yaml_text(const std::string& text) {
  std::string shown = printable(text, std::string::npos);
  for (const std::string_view none : {"\ufffe", "\uffff", "\ufeff"}) {
    for (size_t at = shown.find(none); at != std::string::npos; at = shown.find(none))
      shown.erase(at, none.size());
  }
  return Json(shown).dump();
}

// YAML 1.1 takes 1e-07 for a text, and 1.0e-07 for a number.
std::string yaml_number(double value) {
  std::string text = Json(value).dump();
  const size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos)
    text.insert(exponent, ".0");
  return text;
}

// The numbers as the Hub reads them: model-index.
std::string model_index(const std::vector<Measured>& metrics,
                        const std::string& title,
                        const std::string& data) {
  if (metrics.empty()) return "";
  std::string names, rows;
  for (const Measured& one : metrics) {
    names += fmt::format("- {}\n", yaml_text(one.name));
    const std::string more = one.fakes > 0 ? fmt::format(" of {} pictures", one.fakes) : "";
    rows += fmt::format("    - type: {}\n      value: {}\n      name: {}\n",
                        yaml_text(one.name),
                        yaml_number(one.value),
                        yaml_text(one.name + more));
  }
  const std::string set = yaml_text(data.empty() ? "unknown" : data);
  return fmt::format(
      "metrics:\n{0}"
      "model-index:\n"
      "- name: {1}\n"
      "  results:\n"
      "  - task:\n"
      "      type: unconditional-image-generation\n"
      "    dataset:\n"
      "      type: {2}\n"
      "      name: {2}\n"
      "    metrics:\n{3}",
      names,
      yaml_text(title),
      set,
      rows);
}

// A licence that is empty would not be taken, so that the line is a comment until it is filled in.
std::string hub_matter(const std::string& recipe, const std::string& index) {
  return fmt::format(
      "---\n"
      "# license: cc-by-4.0 # fill in, and take the first # away; that of the training data "
      "counts, too\n"
      "library_name: gantrain\n"
      "pipeline_tag: unconditional-image-generation\n"
      "tags:\n- gan\n- {}\n- gantrain\n- pytorch\n- image-generation\n"
      "{}"
      "---\n\n",
      recipe,
      index);
}

// The name of the data; its folders may name people and machines.
std::string data_name(const Json& run) {
  const fs::path data = value_of(run, "data.path");
  return (data.has_filename() ? data : data.parent_path()).filename().string();
}

std::string metadata_of(const ExportedModel& exported, const std::string& key) {
  const auto at = exported.model.metadata.find(key);
  return at == exported.model.metadata.end() ? std::string() : at->second;
}

std::string facts_of(const ExportedModel& exported, const Json& config, const Json& run) {
  std::string text = "| | |\n|---|---|\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += fmt::format("| {} | {} |\n", name, cell(value));
  };
  row("recipe", exported.model.recipe->facts.name);
  row("pictures", size_text(config));
  const std::string kimg = metadata_of(exported, "gantrain.kimg");
  row("trained for", kimg.empty() ? "" : kimg + " thousand pictures");
  row("data", data_name(run));
  row("batch", value_of(run, "train.batch"));
  row("seed", value_of(run, "train.seed"));
  row("gantrain", metadata_of(exported, "gantrain.version"));
  const ClassTable& table = exported.model.classes;
  std::vector<std::string> names;
  for (size_t k = 0; k < table.size(); ++k) {
    names.push_back(table[k].name);
    if (k >= table.ranges.size()) continue;
    const NumberRange& range = table.ranges[k];
    names.back() +=
        range.yes_or_no ? " 0 or 1" : fmt::format(" {:.4g} to {:.4g}", range.least, range.most);
  }
  const int64_t classes = exported.model.generator->classes();
  if (classes > 0)
    row(exported.vectors ? "numbers of a label" : "classes",
        std::to_string(classes) + (names.empty() ? "" : ": " + join(names, ", ")));
  return text;
}

// What the card's commands say to draw with a conditional model. A name from outside must be a
// plain one to stand there.
std::string label_flag(const ExportedModel& exported) {
  if (exported.model.generator->classes() == 0) return "";
  if (!exported.vectors) return " --class 0";
  const std::string& name = exported.model.classes.front().name;
  const bool plain = !name.empty() && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
  });
  const NumberRange& range = exported.model.classes.ranges.front();
  return fmt::format(" --label {}={:.4g}", plain ? name : "0", range.yes_or_no ? 1.0 : range.mean);
}

}  // namespace

std::vector<std::vector<Json>> metric_rows(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (starts_with(name, "metric-") && ends_with(name, ".jsonl")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::vector<Json>> all;
  for (const fs::path& file : files) {
    std::vector<Json>& rows = all.emplace_back();
    each_line(file, kMostOfJson, [&rows](const std::string& line) {
      Json row = parse_foreign(line);
      if (row.is_object() && row.contains("results") && row["results"].is_object())
        rows.push_back(std::move(row));
    });
  }
  return all;
}

std::string card_of(const ExportedModel& exported, const Json& config, bool hub) {
  const RecipeFacts& recipe = exported.model.recipe->facts;
  const Json run = config_of_run(exported.file.parent_path());
  const std::string title = fmt::format("{} of {} pixels", recipe.title, size_text(config));
  const std::vector<Measured> metrics =
      metrics_of(exported.file, metadata_of(exported, "gantrain.kimg"));
  std::string text = hub ? hub_matter(recipe.name, model_index(metrics, title, data_name(run)))
                         : front_matter(recipe.name);
  text += fmt::format("# {}\n\n", title);
  text += "![Pictures of the seeds 0 to 15](grid.png)\n\n";
  text += facts_of(exported, config, run);
  text += numbers_text(metrics);
  text += fmt::format(
      "\n## Use\n\n"
      "```sh\n"
      "python model.py --seed 7{0} -o seed7.png    # needs torch alone\n"
      "python model.py --self-test                # compares with what gantrain drew\n"
      "gantrain generate --model model.safetensors --seeds 0-15{0} -o grid.png\n"
      "```\n\n"
      "`model.safetensors` holds the generator's averaged weights, `config.json` its sizes. "
      "Python and gantrain draw the same picture of a seed.\n",
      label_flag(exported));
  if (!recipe.citation.empty()) text += "\n## Paper\n\n" + recipe.citation + "\n";
  return text;
}

}  // namespace gantrain
