// SPDX-License-Identifier: Apache-2.0
#include "exchange/known_arguments.h"

#include "util/error.h"

namespace gantrain {

namespace {

bool has_no_effect(const std::string& key) {
  return key == "fused_modconv_default" || key == "fp16_channels_last";
}

}  // namespace

const Json& known_mapping() {
  static const Json known = {{"num_layers", nullptr},
                             {"embed_features", nullptr},
                             {"layer_features", nullptr},
                             {"activation", "lrelu"},
                             {"lr_multiplier", nullptr},
                             {"w_avg_beta", nullptr}};
  return known;
}

const Json& known_synthesis() {
  static const Json known = {{"channel_base", nullptr},
                             {"channel_max", nullptr},
                             {"num_fp16_res", nullptr},
                             {"conv_clamp", nullptr},
                             {"architecture", nullptr},
                             {"resample_filter", {1, 3, 3, 1}},
                             {"activation", "lrelu"},
                             {"use_noise", true},
                             {"kernel_size", 3}};
  return known;
}

const Json& known_stylegan3() {
  static const Json known = [] {
    Json keys = Json::object();
    for (const char* key : {"channel_base",
                            "channel_max",
                            "num_layers",
                            "num_critical",
                            "first_cutoff",
                            "first_stopband",
                            "last_stopband_rel",
                            "margin_size",
                            "output_scale",
                            "num_fp16_res",
                            "conv_kernel",
                            "filter_size",
                            "lrelu_upsampling",
                            "use_radial_filters",
                            "conv_clamp",
                            "magnitude_ema_beta"})
      keys[key] = nullptr;
    return keys;
  }();
  return known;
}

Json known_arguments(const Json& arguments, const Json& known, const std::string& name) {
  if (!arguments.is_object()) fail(Exit::kInput, "{} is no dict", name);
  Json kept = Json::object();
  for (const auto& [key, value] : arguments.items()) {
    if (has_no_effect(key)) continue;
    if (!known.contains(key))
      fail(Exit::kInput, "{}.{} = {}: not known here", name, key, value.dump());
    if (known[key].is_null()) {
      kept[key] = value;
    } else if (value != known[key]) {
      fail(Exit::kInput,
           "{}.{} = {}: only {} is supported",
           name,
           key,
           value.dump(),
           known[key].dump());
    }
  }
  for (const char* key : {"embed_features", "layer_features"}) {
    if (kept.contains(key) && kept[key].is_null()) kept.erase(key);
  }
  return kept;
}

}  // namespace gantrain
