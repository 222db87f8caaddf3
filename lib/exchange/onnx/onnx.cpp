// SPDX-License-Identifier: Apache-2.0
// Generators as ONNX graphs, by recording what they compute.
#include "config/config.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "exchange/export.h"
#include "exchange/onnx/graph.h"
#include "page/html.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kSomePsi = 0.7;

// What a part of a generator is given: names as the graph has them.
struct Given {
  std::vector<std::pair<std::string, Tensor>> tensors;  // z, class or label, psi; or w

  Tensor at(const std::string& name) const {
    for (const auto& [own, tensor] : tensors) {
      if (own == name) return tensor;
    }
    return {};
  }
};

class Recordable {
 public:
  Recordable(const ExportedModel& exported, OnnxPart part)
      : exported_(exported), generator_(*exported.model.generator), part_(part) {
    options_.level = exported.model.level.value_or(options_.level);
    options_.alpha = exported.model.alpha.value_or(options_.alpha);
    if (generator_.num_ws() > 0) {
      SynthesisOptions mean = options_;
      mean.trunc = 0;
      average_ = generator_.map(latents_of_seeds({0}, generator_.z_dim()), labels(1), mean).clone();
    }
    if (part != OnnxPart::kMapping && generator_.has_noise()) strengths_ = noise_strengths();
  }

  bool has_noise() const { return !strengths_.empty(); }

  OnnxModel recorded(bool half) {
    const Given two = given(2), three = given(3);
    OnnxModel model{tape(two), tape(three)};
    for (size_t i = 0; i < two.tensors.size(); ++i)
      model.inputs.push_back(
          {two.tensors[i].first, two.tensors[i].second, three.tensors[i].second});
    for (const Tensor& strength : strengths_)
      model.inputs.push_back({"", strength, strength, "noise"});
    if (!strengths_.empty()) model.numbers = {"noise"};
    model.output = part_ == OnnxPart::kMapping ? "w" : "images";
    model.half = half;
    return model;
  }

 private:
  std::string label_name() const { return exported_.vectors ? "label" : "class"; }

  Tensor labels(int64_t count) const {
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < count && generator_.classes() > 0; ++i)
      rows.push_back(exported_.label(i));
    return rows.empty() ? Tensor() : torch::cat(rows);
  }

  Given given(int64_t count) const {
    std::vector<int64_t> seeds;
    for (int64_t seed = 0; seed < count; ++seed) seeds.push_back(seed);
    Given all;
    const Tensor z = latents_of_seeds(seeds, generator_.z_dim());
    if (part_ == OnnxPart::kSynthesis) {
      all.tensors = {{"w", generator_.map(z, labels(count), options_).clone()}};
      return all;
    }
    all.tensors = {{"z", z}};
    if (generator_.classes() > 0) all.tensors.emplace_back(label_name(), labels(count));
    if (generator_.num_ws() > 0) all.tensors.emplace_back("psi", torch::full({1}, kSomePsi));
    return all;
  }

  // The pictures, or what this part makes.
  Tensor computed(const Given& in, const SynthesisOptions& options) {
    if (part_ == OnnxPart::kSynthesis) return generator_.synthesize(in.at("w"), options);
    const Tensor label = in.at(label_name());
    if (generator_.num_ws() == 0) return generator_.images(in.at("z"), label, options);
    const Tensor w = generator_.map(in.at("z"), label, options);
    const Tensor truncated = average_ + (w - average_) * in.at("psi");
    return part_ == OnnxPart::kMapping ? truncated : generator_.synthesize(truncated, options);
  }

  Tape tape(const Given& in) {
    std::vector<Tensor> inputs;
    for (const auto& [name, tensor] : in.tensors) inputs.push_back(tensor);
    inputs.insert(inputs.end(), strengths_.begin(), strengths_.end());
    return record(inputs, onnx_operators(), [&] { return computed(in, options_); });
  }

  // The parameters that the noise is multiplied by: those that count with noise alone.
  std::vector<Tensor> noise_strengths() {
    const Given in = given(1);
    SynthesisOptions none = options_;
    none.noise = NoiseMode::kNone;
    const std::set<const void*> with = tape(in).read;
    const std::set<const void*> without =
        record({in.tensors[0].second}, onnx_operators(), [&] { return computed(in, none); }).read;
    std::vector<Tensor> all;
    for (const Tensor& parameter : generator_.network()->parameters()) {
      const void* memory = parameter.storage().data();
      if (with.count(memory) > 0 && without.count(memory) == 0) all.push_back(parameter);
    }
    return all;
  }

  const ExportedModel& exported_;
  Generator& generator_;
  OnnxPart part_;
  SynthesisOptions options_;
  Tensor average_;  // [1, num_ws, w_dim]
  std::vector<Tensor> strengths_;
};

}  // namespace

std::string onnx_of(const ExportedModel& exported, OnnxPart part, bool half) {
  const torch::NoGradGuard no_grad;
  try {
    return onnx_file(Recordable(exported, part).recorded(half));
  } catch (const c10::Error& error) {
    refuse_file(exported.file.string(),
                "recipe {} cannot be written in ONNX: {}",
                exported.model.recipe->facts.name,
                error.what_without_backtrace());
  }
}

Json onnx_description(ExportedModel& exported, bool half) {
  const Generator& generator = *exported.model.generator;
  Json inputs = {
      {"z",
       {{"type", "float32"},
        {"shape", {"batch", generator.z_dim()}},
        {"of_seed", "numpy.random.RandomState(seed).randn(1, z_dim).astype('float32')"}}}};
  if (exported.vectors) {
    inputs["label"] = {{"type", "float32"},
                       {"shape", {"batch", generator.classes()}},
                       {"table", to_json(exported.model.classes)}};
  } else if (generator.classes() > 0) {
    inputs["class"] = {{"type", "int64"},
                       {"shape", {"batch"}},
                       {"classes", generator.classes()},
                       {"table", to_json(exported.model.classes)}};
  }
  if (generator.num_ws() > 0) {
    inputs["psi"] = {{"type", "float32"},
                     {"shape", {1}},
                     {"about", "truncation: 1 none, 0.7 usual, 0 the mean picture"}};
  }
  if (Recordable(exported, OnnxPart::kWhole).has_noise()) {
    inputs["noise"] = {{"type", "float32"},
                       {"shape", {1}},
                       {"about", "1: the stored noise, as gantrain's const; 0: none"}};
  }
  return {{"format", "gantrain-onnx"},
          {"gantrain", kVersion},
          {"recipe", exported.model.recipe->facts.name},
          {"opset", kOnnxOpset},
          {"precision", half ? "float16" : "float32"},
          {"inputs", inputs},
          {"output",
           {{"name", "images"},
            {"type", "float32"},
            {"about", "[batch, C, H, W], " + about_pictures(exported.model.depth)}}},
          {"self_test", self_test_of(exported)}};
}

namespace {

// In a script of a page nothing may look like its end.
std::string in_script(const Json& json) {
  std::string text;
  for (const char c : json_line(json)) {
    if (c == '<')
      text += "\\u003c";
    else
      text += c;
  }
  return text;
}

// The numbers of a label that the page asks for: what --label calls each, from where to where it
// goes, and the one that the first picture has. A name that the flag could not be given, or that
// stands there twice, is its place instead.
Json numbers_of(const ExportedModel& exported) {
  Json numbers = Json::array();
  if (!exported.vectors) return numbers;
  const ClassTable& table = exported.model.classes;
  const Tensor first = exported.label(0);
  for (int64_t k = 0; k < first.size(1); ++k) {
    const auto at = static_cast<size_t>(k);
    const std::string name = at < table.size() ? table[at].name : std::to_string(k);
    const NumberRange range = at < table.ranges.size() ? table.ranges[at] : NumberRange{.most = 1};
    const bool sayable = !name.empty() && trim(name) == name &&
                         name.find(',') == std::string::npos &&
                         std::ranges::count(table, name, &ClassRow::name) == 1;
    numbers.push_back({{"name", name},
                       {"said", sayable ? name : std::to_string(k)},
                       {"least", range.least},
                       {"most", range.most},
                       {"yes_or_no", range.yes_or_no},
                       {"value", first[0][k].item<float>()}});
  }
  return numbers;
}

// What a strength of 1 adds to w, [w_dim], and the layers whose w it moves.
Json sliders_of(const ExportedModel& exported, const std::optional<Directions>& directions) {
  constexpr int64_t kMost = 10;
  Json sliders = Json::array();
  if (!directions) return sliders;
  const Generator& generator = *exported.model.generator;
  const int64_t length = directions->vectors.size(1);
  if (generator.num_ws() == 0 || length != generator.w_dim()) {
    refuse_file(exported.file.string(),
                "the directions have {} numbers each, the model's w has {}",
                length,
                generator.num_ws() == 0 ? 0 : generator.w_dim());
  }
  std::vector<int64_t> layers = directions->layers;
  for (int64_t layer = 0; directions->layers.empty() && layer < generator.num_ws(); ++layer)
    layers.push_back(layer);
  std::erase_if(layers, [&](int64_t layer) { return layer < 0 || layer >= generator.num_ws(); });
  for (int64_t k = 0; k < std::min(kMost, directions->vectors.size(0)); ++k) {
    const Tensor moved = (directions->vectors[k] * directions->lengths[k]).to(at::kDouble);
    const double* first = moved.const_data_ptr<double>();
    sliders.push_back({{"layers", layers}, {"step", std::vector<double>(first, first + length)}});
  }
  return sliders;
}

std::string graph_script(const char* id, const std::string& bytes) {
  return fmt::format(
      "<script id=\"{}\" type=\"application/octet-stream\">{}</script>\n", id, base64(bytes));
}

// What the page's policy lets it load: the folder at an address, or, of a path, files beside it.
std::string allowed_by(const std::string& runtime) {
  return runtime.find("://") == std::string::npos ? "'self' file:" : runtime;
}

}  // namespace

std::string web_page(const ExportedModel& exported,
                     bool half,
                     const std::string& runtime,
                     const std::optional<Directions>& directions) {
  const Generator& generator = *exported.model.generator;
  const bool styled = generator.num_ws() > 0;
  const OnnxPart drawn = styled ? OnnxPart::kSynthesis : OnnxPart::kWhole;
  std::vector<std::string> names;
  for (const ClassRow& row : exported.model.classes) names.push_back(row.name);
  const Json about = {{"recipe", exported.model.recipe->facts.name},
                      {"gantrain", kVersion},
                      {"z_dim", generator.z_dim()},
                      {"classes", generator.classes()},
                      {"names", names},
                      {"numbers", numbers_of(exported)},
                      {"num_ws", generator.num_ws()},
                      {"w_dim", generator.w_dim()},
                      {"noise", Recordable(exported, drawn).has_noise()},
                      {"graphs", styled ? Json{"mapping", "synthesis"} : Json{"whole"}},
                      {"directions", sliders_of(exported, directions)},
                      {"runtime", runtime}};
  std::string graphs;
  if (styled) graphs = graph_script("mapping", onnx_of(exported, OnnxPart::kMapping, false));
  graphs += graph_script(styled ? "synthesis" : "whole", onnx_of(exported, drawn, half));
  const std::map<std::string, std::string> values = {
      {"@TITLE@", escape_html(exported.model.recipe->facts.title + " in your browser")},
      {"@STYLE@", std::string(page_files().at("style.css"))},
      {"@ALLOWED@", escape_html(allowed_by(runtime))},
      {"@RUNTIME@", escape_html(runtime)},
      {"@SCRIPT@", escape_html(runtime + "ort.wasm.min.js")},
      {"@ABOUT@", in_script(about)},
      {"@GRAPHS@", graphs}};
  // One pass: what is put in is not looked at again.
  const std::string_view form = web_files().at("web.html");
  std::string page;
  for (size_t at = 0; at < form.size();) {
    const size_t begin = form.find('@', at);
    page += form.substr(at, begin - at);
    if (begin == std::string_view::npos) break;
    const size_t end = form.find('@', begin + 1);
    page += values.at(std::string(form.substr(begin, end - begin + 1)));
    at = end + 1;
  }
  return page;
}

}  // namespace gantrain
