// SPDX-License-Identifier: Apache-2.0
#include "export_card.h"

#include <algorithm>

#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

struct Paper {
  std::string name, citation;
};

Paper paper_of(const std::string& recipe) {
  static const std::map<std::string, Paper> papers = {
      {"dcgan",
       {"DCGAN",
        "A. Radford, L. Metz, S. Chintala: Unsupervised Representation Learning with Deep "
        "Convolutional Generative Adversarial Networks. ICLR 2016, arXiv:1511.06434"}},
      {"pggan",
       {"PGGAN",
        "T. Karras, T. Aila, S. Laine, J. Lehtinen: Progressive Growing of GANs for Improved "
        "Quality, Stability, and Variation. ICLR 2018, arXiv:1710.10196"}},
      {"stylegan1",
       {"StyleGAN",
        "T. Karras, S. Laine, T. Aila: A Style-Based Generator Architecture for Generative "
        "Adversarial Networks. CVPR 2019, arXiv:1812.04948"}},
      {"stylegan2",
       {"StyleGAN2",
        "T. Karras, S. Laine, M. Aittala, J. Hellsten, J. Lehtinen, T. Aila: Analyzing and "
        "Improving the Image Quality of StyleGAN. CVPR 2020, arXiv:1912.04958"}},
      {"stylegan3",
       {"StyleGAN3",
        "T. Karras, M. Aittala, S. Laine, E. Härkönen, J. Hellsten, J. Lehtinen, T. Aila: "
        "Alias-Free Generative Adversarial Networks. NeurIPS 2021, arXiv:2106.12423"}},
      {"r3gan",
       {"R3GAN",
        "N. Huang, A. Gokaslan, V. Kuleshov, J. Tompkin: The GAN is dead; long live the GAN! A "
        "Modern GAN Baseline. NeurIPS 2024, arXiv:2501.05441"}},
  };
  const auto found = papers.find(recipe);
  return found == papers.end() ? Paper{recipe, ""} : found->second;
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
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  return parse_json(read_file(file), file.string(), Exit::kInput);
}

// Whether a line of metric-*.jsonl is of this model. The best one is a copy of a snapshot.
bool is_of(const Json& row, const fs::path& model, const std::string& kimg) {
  if (row.value("snapshot", Json()) == model.filename().string()) return true;
  const auto of_model = parse_double(kimg);
  return starts_with(model.filename().string(), "model-best") && of_model &&
         row.value("kimg", Json()) == *of_model;
}

// Numbers that the run's metric-*.jsonl have of this very model. Where it was measured in several
// ways, those of the most pictures count; of the same, the last.
std::vector<std::string> metrics_of(const fs::path& model, const std::string& kimg) {
  std::vector<fs::path> files;
  const fs::path folder = model.parent_path();
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.empty() ? "." : folder)) {
    const std::string name = entry.path().filename().string();
    if (starts_with(name, "metric-") && ends_with(name, ".jsonl")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> rows;
  for (const fs::path& file : files) {
    std::map<std::string, std::pair<int64_t, double>> found;  // fakes, value
    for (const std::string& line : split(read_file(file), '\n')) {
      const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!row.is_object() || !row.contains("results") || !row["results"].is_object()) continue;
      if (!is_of(row, model, kimg)) continue;
      const Json recipe = row.value("recipe", Json::object());
      const Json fakes = recipe.is_object() ? recipe.value("fakes", Json(0)) : Json(0);
      const int64_t count = fakes.is_number_integer() ? fakes.get<int64_t>() : 0;
      for (const auto& [name, value] : row["results"].items()) {
        if (value.is_number() && (found.count(name) == 0 || count >= found[name].first))
          found[name] = {count, value.get<double>()};
      }
    }
    for (const auto& [name, of] : found) {
      const std::string pictures = of.first > 0 ? std::to_string(of.first) : "";
      rows.push_back(fmt::format("| {} | {:.4g} | {} |", name, of.second, pictures));
    }
  }
  return rows;
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

std::string metadata_of(const ExportedModel& exported, const std::string& key) {
  const auto at = exported.metadata.find(key);
  return at == exported.metadata.end() ? std::string() : at->second;
}

std::string facts_of(const ExportedModel& exported, const Json& config, const Json& run) {
  std::string text = "| | |\n|---|---|\n";
  const auto row = [&](const std::string& name, const std::string& value) {
    if (!value.empty()) text += fmt::format("| {} | {} |\n", name, value);
  };
  row("recipe", exported.recipe);
  row("pictures", size_text(config));
  const std::string kimg = metadata_of(exported, "gantrain.kimg");
  row("trained for", kimg.empty() ? "" : kimg + " thousand pictures");
  row("data", value_of(run, "data.path"));
  row("batch", value_of(run, "train.batch"));
  row("seed", value_of(run, "train.seed"));
  row("gantrain", metadata_of(exported, "gantrain.version"));
  std::vector<std::string> names;
  for (const ClassRow& one : exported.model.classes) names.push_back(one.name);
  const int64_t classes = exported.model.generator->classes();
  if (classes > 0)
    row("classes", std::to_string(classes) + (names.empty() ? "" : ": " + join(names, ", ")));
  return text;
}

}  // namespace

std::string card_of(const ExportedModel& exported, const Json& config) {
  const Paper paper = paper_of(exported.recipe);
  const Json run = config_of_run(exported.file.parent_path());
  std::string text = front_matter(exported.recipe);
  text += fmt::format("# {} of {} pixels\n\n", paper.name, size_text(config));
  text += "![Pictures of the seeds 0 to 15](grid.png)\n\n";
  text += facts_of(exported, config, run);
  const std::vector<std::string> metrics =
      metrics_of(exported.file, metadata_of(exported, "gantrain.kimg"));
  if (!metrics.empty()) {
    text +=
        "\n## Numbers\n\nMeasured in the run, for these weights:\n\n| metric | | fakes "
        "|\n|---|---|---|\n";
    text += join(metrics, "\n") + "\n";
  }
  const std::string label = exported.model.generator->classes() > 0 ? " --class 0" : "";
  text += fmt::format(
      "\n## Use\n\n"
      "```sh\n"
      "python model.py --seed 7{0} -o seed7.png    # needs torch alone\n"
      "python model.py --self-test                # compares with what gantrain drew\n"
      "gantrain generate --model model.safetensors --seeds 0-15{0} -o grid.png\n"
      "```\n\n"
      "`model.safetensors` holds the generator's averaged weights, `config.json` its sizes. "
      "Python and gantrain draw the same picture of a seed.\n",
      label);
  if (!paper.citation.empty()) text += "\n## Paper\n\n" + paper.citation + "\n";
  return text;
}

}  // namespace gantrain
