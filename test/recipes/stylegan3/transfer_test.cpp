// SPDX-License-Identifier: Apache-2.0
// What --init-from needs to know between StyleGAN3's networks of different sizes.
#include <algorithm>

#include "recipes/stylegan3/networks_of_fixtures.h"
#include "recipes/stylegan3/recipe.h"

namespace gantrain::stylegan3 {
namespace {

using Values = std::vector<std::string>;

Options options() {
  Options o;
  o.z_dim = o.w_dim = 8;
  o.channel_base = 256;
  o.channel_max = 16;
  o.num_layers = 6;
  return o;
}

GeneratorShape shape_of(const Options& o, int64_t pixels = 32) {
  const int64_t factor = o.config == Equivariance::kR ? 2 : 1;
  GeneratorShape shape;
  shape.mapping.z_dim = o.z_dim;
  shape.mapping.w_dim = o.w_dim;
  shape.mapping.num_layers = o.map_depth;
  SynthesisShape& s = shape.synthesis;
  s.img_resolution = pixels;
  s.channel_base = o.channel_base * factor;
  s.channel_max = o.channel_max * factor;
  s.num_layers = o.num_layers;
  s.num_critical = o.num_critical;
  s.conv_kernel = factor == 2 ? 1 : 3;
  s.use_radial_filters = factor == 2;
  return shape;
}

StyleDiscriminatorShape discriminator_of(const Options& o, int64_t pixels) {
  StyleDiscriminatorShape shape;
  shape.blocks.img_resolution = square_of(pixels);
  shape.blocks.channel_base = o.d_channel_base.value_or(o.channel_base);
  shape.blocks.channel_max = o.d_channel_max.value_or(o.channel_max);
  return shape;
}

// A model file with both networks.
Tensors file_of(const Options& o, int64_t pixels = 32) {
  Tensors all;
  for (const auto& [name, tensor] : state_of(Generator(shape_of(o, pixels)))) all[name] = tensor;
  for (const auto& [name, tensor] : state_of(StyleDiscriminator(discriminator_of(o, pixels))))
    all["D." + name] = tensor;
  return all;
}

// With the values that are advised, nothing is left to advise.
TEST_CASE("TheValuesThatFitDoFit") {
  Options other = options();
  other.z_dim = 12;
  other.w_dim = 16;
  other.map_depth = 3;
  other.num_layers = 5;
  other.num_critical = 1;
  other.channel_base = 340;
  other.channel_max = 11;
  other.d_channel_max = 7;
  for (const int64_t pixels : {16, 32, 64}) {
    CAPTURE(pixels);
    const Tensors file = file_of(other, pixels);
    CHECK(values_that_fit(file, other, shape_of(other)).empty());
    Options now = options();
    const Values values = values_that_fit(file, now, shape_of(now));
    for (const std::string& value : values) {
      const auto number = parse_int(split(value, '=').at(1)).value();
      const std::string key = split(value, '=').at(0);
      const std::map<std::string, int64_t*> numbers = {
          {"stylegan3.z_dim", &now.z_dim},
          {"stylegan3.w_dim", &now.w_dim},
          {"stylegan3.map_depth", &now.map_depth},
          {"stylegan3.num_layers", &now.num_layers},
          {"stylegan3.num_critical", &now.num_critical},
          {"stylegan3.channel_base", &now.channel_base},
          {"stylegan3.channel_max", &now.channel_max}};
      if (key == "stylegan3.d_channel_base") {
        now.d_channel_base = number;
      } else if (key == "stylegan3.d_channel_max") {
        now.d_channel_max = number;
      } else {
        *numbers.at(key) = number;
      }
    }
    CHECK(values_that_fit(file, now, shape_of(now)).empty());
    const Tensors fitting = file_of(now, pixels);
    for (const auto& [name, tensor] : file) {
      CAPTURE(name);
      REQUIRE(fitting.count(name) == 1);
      CHECK(fitting.at(name).sizes() == tensor.sizes());
    }
  }
}

TEST_CASE("LabelsAndChannelsAreAdvisedToo") {
  const Options o = options();
  GeneratorShape mine = shape_of(o);
  mine.synthesis.img_channels = 1;
  mine.mapping.c_dim = 3;
  CHECK(values_that_fit(file_of(o), o, mine) == Values{"data.channels=3", "data.cond=off"});
  Options rotates = o;
  rotates.config = Equivariance::kR;
  CHECK(values_that_fit(file_of(rotates), o, shape_of(o)) == Values{"stylegan3.config=r"});
  CHECK(values_that_fit({}, o, mine).empty());
}

TEST_CASE("LayersAreFoundByTheirNumberAndFiltersStay") {
  const Options o = options();
  const Tensors file = file_of(o, 16);
  const auto names = names_in(file, shape_of(o).synthesis);
  const std::vector<std::string> there = layer_names(file);
  for (const LayerPlan& plan : layers_of(shape_of(o).synthesis)) {
    const auto layer = layer_tensor("synthesis." + plan.name + ".weight").layer;
    const NameInFile weight = names("synthesis." + plan.name + ".weight");
    CHECK(weight.name == "synthesis." + there.at(static_cast<size_t>(layer)) + ".weight");
    CHECK_FALSE(weight.follows_size);
    CHECK(names("synthesis." + plan.name + ".up_filter").follows_size);
  }
  CHECK(names("mapping.fc0.weight").name == "mapping.fc0.weight");
  // Of the same size, with other widths, filters are the same.
  Options wider = o;
  wider.channel_max = 20;
  const auto same = names_in(file_of(wider), shape_of(o).synthesis);
  const std::string first = layers_of(shape_of(o).synthesis).front().name;
  CHECK_FALSE(same("synthesis." + first + ".up_filter").follows_size);
}

}  // namespace
}  // namespace gantrain::stylegan3
