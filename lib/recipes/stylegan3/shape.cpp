// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numbers>

#include "core/torch.h"
#include "gan/model_json.h"
#include "recipes/stylegan3/recipe.h"
#include "util/text.h"

namespace gantrain::stylegan3 {

namespace {

constexpr double kPi = std::numbers::pi;

double sinc(double x) { return x == 0 ? 1 : std::sin(kPi * x) / (kPi * x); }

// The distance of a tap from the filter's middle, in taps.
double from_middle(int64_t tap, int64_t taps) {
  return static_cast<double>(tap) - static_cast<double>(taps - 1) / 2;
}

// I_0(beta sqrt(1 - (2j / (n - 1) - 1)^2)) / I_0(beta), j = 0 to n - 1.
std::vector<double> kaiser_window(const LowPass& filter) {
  const double beta = kaiser_beta(kaiser_attenuation(filter));
  const double half = static_cast<double>(filter.taps - 1) / 2;
  std::vector<double> window;
  for (int64_t j = 0; j < filter.taps; ++j) {
    const double at = half == 0 ? 0 : from_middle(j, filter.taps) / half;
    const double inside = std::sqrt(std::max(1 - at * at, 0.0));
    window.push_back(std::cyl_bessel_i(0.0, beta * inside) / std::cyl_bessel_i(0.0, beta));
  }
  return window;
}

void scale_to_sum_1(std::vector<double>& taps) {
  double sum = 0;
  for (const double tap : taps) sum += tap;
  for (double& tap : taps) tap /= sum;
}

}  // namespace

double kaiser_attenuation(const LowPass& f) {
  return 2.285 * static_cast<double>(f.taps - 1) * kPi * f.width / (f.rate / 2) + 7.95;
}

double kaiser_beta(double attenuation) {
  const double a = attenuation;
  if (a > 50) return 0.1102 * (a - 8.7);
  return a > 21 ? 0.5842 * std::pow(a - 21, 0.4) + 0.07886 * (a - 21) : 0;
}

std::vector<double> separable_lowpass(const LowPass& filter) {
  std::vector<double> taps = kaiser_window(filter);
  for (int64_t j = 0; j < filter.taps; ++j) {
    taps[static_cast<size_t>(j)] *=
        sinc(2 * filter.cutoff / filter.rate * from_middle(j, filter.taps));
  }
  scale_to_sum_1(taps);
  return taps;
}

// J_1(2 pi f_c r) / (pi r) is the radial filter that passes frequencies up to f_c.
std::vector<double> radial_lowpass(const LowPass& filter) {
  const std::vector<double> window = kaiser_window(filter);
  std::vector<double> taps;
  for (int64_t i = 0; i < filter.taps; ++i) {
    for (int64_t j = 0; j < filter.taps; ++j) {
      const double r =
          std::hypot(from_middle(i, filter.taps), from_middle(j, filter.taps)) / filter.rate;
      const double jinc = std::cyl_bessel_j(1.0, 2 * kPi * filter.cutoff * r) / (kPi * r);
      taps.push_back(jinc * window[static_cast<size_t>(i)] * window[static_cast<size_t>(j)]);
    }
  }
  scale_to_sum_1(taps);
  return taps;
}

namespace {

double real(int64_t n) { return static_cast<double>(n); }

int64_t floor_half(int64_t n) { return n >= 0 ? n / 2 : -((1 - n) / 2); }

// first * (last / first)^e: geometric progressions of the bandlimits.
double progress(double first, double last, double e) { return first * std::pow(last / first, e); }

// Karras et al. 2021, app. C.1: the pixels that make the layer's result `out.size` wide.
std::array<int64_t, 4> padding_of(const LayerPlan& p) {
  const auto taps = [](const std::optional<LowPass>& filter) { return filter ? filter->taps : 1; };
  const int64_t wanted = (p.out.size - 1) * p.down + 1;  // before the down-sampling
  const int64_t given = (p.in.size + p.kernel - 1) * p.up;
  const int64_t all = wanted - given + taps(p.up_filter) + taps(p.down_filter) - 2;
  const int64_t before = floor_half(all + p.up);
  return {before, all - before, before, all - before};
}

LayerPlan layer_of(const SynthesisShape& s, int64_t i, const Signal& in, const Signal& out) {
  LayerPlan p;
  p.name = fmt::format("L{}_{}_{}", i, out.size, out.channels);
  p.in = in;
  p.out = out;
  p.to_rgb = i == s.num_layers;
  p.half = std::ldexp(real(out.rate), static_cast<int>(s.num_fp16_res)) > real(s.img_resolution);
  p.kernel = p.to_rgb ? 1 : s.conv_kernel;
  const int64_t rate = std::max(in.rate, out.rate) * (p.to_rgb ? 1 : s.lrelu_upsampling);
  p.up = rate / in.rate;
  p.down = rate / out.rate;
  if (!p.to_rgb && p.up > 1)
    p.up_filter = {s.filter_size * p.up, in.cutoff, 2 * in.half_width, real(rate)};
  if (!p.to_rgb && p.down > 1)
    p.down_filter = {s.filter_size * p.down, out.cutoff, 2 * out.half_width, real(rate)};
  const bool critical = i >= s.num_layers - s.num_critical;
  p.down_is_radial = p.down_filter && s.use_radial_filters && !critical;
  p.padding = padding_of(p);
  return p;
}

}  // namespace

std::vector<Signal> signals_of(const SynthesisShape& s) {
  const double resolution = real(s.img_resolution);
  const double last_cutoff = resolution / 2;
  std::vector<Signal> all;
  for (int64_t i = 0; i <= s.num_layers; ++i) {
    const double e = std::min(real(i) / real(s.num_layers - s.num_critical), 1.0);
    Signal signal;
    signal.cutoff = progress(s.first_cutoff, last_cutoff, e);
    signal.stopband = progress(s.first_stopband, last_cutoff * s.last_stopband_rel, e);
    const double rate = std::min(2 * signal.stopband, resolution);
    signal.rate = int64_t{1} << static_cast<int>(std::ceil(std::log2(rate)));
    signal.half_width = std::max(signal.stopband, real(signal.rate) / 2) - signal.cutoff;
    signal.size = i >= s.num_layers - 1 ? s.img_resolution : signal.rate + 2 * s.margin_size;
    const double maps = std::min(real(s.channel_base) / 2 / signal.cutoff, real(s.channel_max));
    signal.channels = i == s.num_layers ? s.img_channels : std::llrint(maps);
    all.push_back(signal);
  }
  return all;
}

std::vector<LayerPlan> layers_of(const SynthesisShape& shape) {
  const std::vector<Signal> signals = signals_of(shape);
  std::vector<LayerPlan> all;
  for (size_t i = 0; i < signals.size(); ++i) {
    const Signal& in = signals[i == 0 ? 0 : i - 1];
    all.push_back(layer_of(shape, static_cast<int64_t>(i), in, signals[i]));
  }
  return all;
}

namespace {

const std::string kSynthesis = "synthesis.";

MappingShape mapping_of(const GeneratorTensors& given) {
  MappingShape m = GeneratorShape().mapping;
  m.num_layers = 0;
  while (given.has(fmt::format("mapping.fc{}.weight", m.num_layers))) ++m.num_layers;
  const Tensor& first = given.get("mapping.fc0.weight", 2);
  m.w_dim = given.get(fmt::format("mapping.fc{}.weight", m.num_layers - 1), 2).size(0);
  m.z_dim = first.size(1);
  if (given.has("mapping.embed.weight")) {
    const Tensor& embed = given.get("mapping.embed.weight", 2);
    m.c_dim = embed.size(1);
    m.z_dim -= embed.size(0);
  }
  if (m.z_dim < 0) {
    refuse_file(given.source,
                "mapping.fc0.weight takes {} features, fewer than mapping.embed.weight gives",
                first.size(1));
  }
  return m;
}

// Configuration R down-samples by radial filters of two axes.
bool has_radial_filters(const TensorMap& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return item.first.ends_with(".down_filter") && item.second.dim() == 2;
  });
}

// The widths that give a file's layers, when all its other sizes are those of `shape`: the lowest
// channel_base, a power of two where there is one.
struct Widths {
  int64_t channel_base = 0, channel_max = 0;
};

// A layer with c maps, fewer than the most, says c - 1/2 <= base / (2 f_c) <= c + 1/2. At the
// bounds it is rounded to an even number, so the lowest of them may be one too low.
Widths widths_of(const std::vector<int64_t>& channels, const SynthesisShape& shape) {
  const std::vector<Signal> signals = signals_of(shape);
  const int64_t most = *std::max_element(channels.begin(), channels.end());
  double low = 1, high = 1e12;
  for (size_t i = 0; i < std::min(channels.size(), signals.size() - 1); ++i) {
    const auto maps = static_cast<double>(channels[i]);
    const double scale = 2 * signals[i].cutoff;
    low = std::max(low, (maps - 0.5) * scale);
    if (channels[i] < most) high = std::min(high, (maps + 0.5) * scale);
  }
  const double power = std::exp2(std::ceil(std::log2(low)));
  const auto lowest = static_cast<int64_t>(std::ceil(low));
  SynthesisShape tried = shape;
  tried.channel_max = most;
  for (const int64_t base :
       {power <= high ? static_cast<int64_t>(power) : lowest, lowest, lowest + 1}) {
    tried.channel_base = base;
    const std::vector<Signal> made = signals_of(tried);
    const bool same =
        std::equal(channels.begin(),
                   channels.begin() + std::min(channels.size(), made.size() - 1),
                   made.begin(),
                   [](int64_t maps, const Signal& of) { return maps == of.channels; });
    if (same) return {base, most};
  }
  return {lowest, most};
}

// Chooses the widths and, because tensors do not show it, how many layers sample critically, so
// that the layers have the file's names; the reference's number is tried first.
void choose_layers(SynthesisShape& s,
                   const std::vector<int64_t>& channels,
                   const std::vector<std::string>& names) {
  std::vector<int64_t> numbers = {std::min(s.num_critical, s.num_layers - 1)};
  for (int64_t n = 1; n < s.num_layers; ++n) {
    if (n != numbers.front()) numbers.push_back(n);
  }
  std::optional<SynthesisShape> first;
  for (const int64_t number : numbers) {
    s.num_critical = number;
    const Widths widths = widths_of(channels, s);
    s.channel_base = widths.channel_base;
    s.channel_max = widths.channel_max;
    if (layer_names(s) == names) return;
    if (!first) first = s;
  }
  s = *first;
}

SynthesisShape synthesis_of(const GeneratorTensors& given) {
  const std::vector<std::string> layers = layer_names(given.tensors);
  SynthesisShape s;
  s.num_layers = static_cast<int64_t>(layers.size()) - 1;
  s.num_critical = std::min(s.num_critical, s.num_layers - 1);
  if (s.num_layers < 2) {
    refuse_file(given.source,
                "{} layers synthesis.L...; a StyleGAN3 generator has 3 or more",
                layers.size());
  }
  const auto weight = [&](size_t i) -> const Tensor& {
    return given.get(kSynthesis + layers[i] + ".weight", 4);
  };
  std::vector<int64_t> channels;
  for (size_t i = 0; i + 1 < layers.size(); ++i) channels.push_back(weight(i).size(0));
  s.conv_kernel = weight(0).size(2);
  s.img_channels = weight(layers.size() - 1).size(0);
  s.img_resolution = parse_int(split(layers.back(), '_').at(1)).value_or(0);
  s.use_radial_filters = s.conv_kernel == 1 || has_radial_filters(given.tensors);
  if (s.img_resolution < 4 || !std::has_single_bit(static_cast<uint64_t>(s.img_resolution))) {
    refuse_file(given.source,
                "layer {}: pictures of {} pixels; a power of two is needed",
                layers.back(),
                s.img_resolution);
  }
  const int64_t first = parse_int(split(layers.front(), '_').at(1)).value_or(0);
  s.margin_size = std::max<int64_t>((first - signals_of(s).front().rate) / 2, 0);
  choose_layers(s, channels, layers);
  return s;
}

// What the file's layers, as many as those of `shape`, would need.
std::string needs_of(const SynthesisShape& shape, const std::vector<std::string>& there) {
  const std::vector<std::string> here = layer_names(shape);
  if (sizes_of(there) != sizes_of(here))
    return "its sizes are those of another img_resolution, num_critical, margin_size or first or "
           "last cutoff and stopband";
  std::vector<int64_t> channels;
  for (const std::string& name : there)
    channels.push_back(parse_int(split(name, '_').back()).value_or(0));
  const int64_t last = channels.back();
  channels.pop_back();
  if (std::equal(here.begin(), here.end() - 1, there.begin()))
    return fmt::format("its pictures have img_channels = {}", last);
  const Widths widths = widths_of(channels, shape);
  return fmt::format("its widths are those of channel_base = {}, channel_max = {}",
                     widths.channel_base,
                     widths.channel_max);
}

// The layers that a shape makes must be those of the file; where they are not, says which key of
// the configuration the file would need. `maker` is what the shape comes from.
void check_layers(const GeneratorShape& shape,
                  const TensorMap& tensors,
                  const std::string& source,
                  const char* maker) {
  const std::vector<std::string> there = layer_names(tensors), here = layer_names(shape.synthesis);
  if (there == here) return;
  if (there.size() != here.size()) {
    refuse_file(source,
                "{}: num_layers = {}, but the file has the {} layers of num_layers = {}",
                maker,
                shape.synthesis.num_layers,
                there.size(),
                there.size() - 1);
  }
  const auto [mine, other] = std::mismatch(here.begin(), here.end(), there.begin());
  refuse_file(source,
              "{} makes layer {}, but the file has {}; {}",
              maker,
              *mine,
              *other,
              needs_of(shape.synthesis, there));
}

// {"a": {"b": 1}} as {"b": 1}: the official code has its synthesis_kwargs outside of a group.
Json without_group(Json model, const char* group) {
  if (!model.is_object() || !model.contains(group) || !model[group].is_object()) return model;
  const Json inner = model[group];
  for (const auto& [key, value] : inner.items()) {
    if (!model.contains(key)) model[key] = value;
  }
  return model;
}

}  // namespace

Json to_json(const GeneratorShape& shape) { return model_json("stylegan3", shape); }

GeneratorShape shape_of_model(const Json& grouped, const std::string& source) {
  const Json model = without_group(grouped, "synthesis_kwargs");
  GeneratorShape shape;
  read_model(model, source, shape);
  SynthesisShape& s = shape.synthesis;
  if (model.is_object() && model.contains("conv_clamp") && model["conv_clamp"].is_null())
    s.conv_clamp.reset();
  if (s.num_layers <= s.num_critical) {
    refuse_file(source,
                "gantrain.model: num_layers = {}: more than num_critical = {} are needed",
                s.num_layers,
                s.num_critical);
  }
  for (const Signal& signal : signals_of(s)) {
    if (signal.channels < 1) {
      refuse_file(source,
                  "gantrain.model: channel_base = {}: too few for a cutoff of {}",
                  s.channel_base,
                  signal.cutoff);
    }
  }
  if (shape.mapping.z_dim + shape.mapping.c_dim == 0)
    refuse_file(source, "gantrain.model: z_dim = 0: at least 1 where c_dim is 0");
  return shape;
}

GeneratorShape shape_of_tensors(const TensorMap& tensors, const std::string& source) {
  const GeneratorTensors given{tensors, source, "a StyleGAN3 generator"};
  GeneratorShape shape{mapping_of(given), synthesis_of(given)};
  check_layers(shape, tensors, source, "a network of these sizes");
  return shape;
}

GeneratorShape generator_shape(const Json& model,
                               const TensorMap& tensors,
                               const std::string& source) {
  const bool said = model.is_object() && model.contains("img_resolution");
  if (!said) return shape_of_tensors(tensors, source);
  const GeneratorShape shape = shape_of_model(model, source);
  check_layers(shape, tensors, source, "gantrain.model");
  return shape;
}

std::vector<std::string> layer_names(const SynthesisShape& shape) {
  std::vector<std::string> names;
  for (const LayerPlan& plan : layers_of(shape)) names.push_back(plan.name);
  return names;
}

std::vector<std::string> sizes_of(const std::vector<std::string>& layers) {
  std::vector<std::string> sizes;
  for (const std::string& name : layers) sizes.push_back(name.substr(0, name.rfind('_')));
  return sizes;
}

LayerTensor layer_tensor(const std::string& name) {
  if (!name.starts_with(kSynthesis + "L")) return {-1, name};
  const size_t begin = kSynthesis.size(), dot = name.find('.', begin);
  if (dot == std::string::npos) return {-1, name};
  const std::vector<std::string> parts = split(name.substr(begin + 1, dot - begin - 1), '_');
  const auto number = parse_int(parts.front());
  if (parts.size() != 3 || !number || *number < 0) return {-1, name};
  return {*number, name.substr(dot + 1)};
}

std::vector<std::string> layer_names(const TensorMap& tensors) {
  std::map<int64_t, std::string> found;
  for (const auto& item : tensors) {
    const LayerTensor layer = layer_tensor(item.first);
    if (layer.layer >= 0)
      found[layer.layer] = item.first.substr(
          kSynthesis.size(), item.first.find('.', kSynthesis.size()) - kSynthesis.size());
  }
  std::vector<std::string> names;
  for (const auto& [number, name] : found) {
    if (number == static_cast<int64_t>(names.size())) names.push_back(name);
  }
  return names;
}

}  // namespace gantrain::stylegan3
