// SPDX-License-Identifier: Apache-2.0
// The layers and the networks, compared with the reference's.
#include "gan/generator.h"
#include "metrics/picture_metrics.h"
#include "nn/style/layers.h"
#include "recipes/stylegan3/networks_of_fixtures.h"
#include "recipes/stylegan3/recipe.h"
#include "support/covered_fixture.h"
#include "util/error.h"
#include "util/text.h"

using namespace gantrain;
using namespace gantrain::stylegan3;

TEST_CASE("TheInputIsTheReferences") {
  CoveredFixture file("sg3_ops_input");
  const Json cases = Json::parse(fixture("sg3_ops_input").metadata.at("cases"));
  for (const auto& [name, one] : cases.items()) {
    CAPTURE(name);
    Signal signal;
    signal.cutoff = one["bandwidth"];
    signal.rate = one["sampling_rate"].get<int64_t>();
    signal.channels = one["channels"];
    const Json size = one["size"];
    const int64_t width = size.is_array() ? size[0] : size;
    const int64_t height = size.is_array() ? size[1] : size;
    SynthesisInput input(signal, one["w_dim"], width, height);
    {
      const torch::NoGradGuard no_grad;
      for (auto& [tensor_name, tensor] : state_of(input))
        tensor.copy_(file[name + "/" + tensor_name]);
    }
    const Tensor w = file[name + "/in/w"].clone().requires_grad_();
    const Tensor y = input.forward(w);
    CHECK(scaled_error(y.detach(), file[name + "/y"]) < 5e-5);
    y.backward(file[name + "/dy"]);
    CHECK(scaled_error(w.grad(), file[name + "/d_w"]) < 5e-5);
    for (const auto& item : input.named_parameters()) {
      CAPTURE(item.key());
      CHECK(scaled_error(item.value().grad(), file[name + "/d_" + item.key()]) < 5e-5);
    }
  }
  CHECK(file.unused() == std::vector<std::string>());
}

TEST_CASE("ModulatedConvolutionsAreTheReferences") {
  CoveredFixture file("sg3_ops_modulated_conv2d");
  const Json cases = Json::parse(fixture("sg3_ops_modulated_conv2d").metadata.at("cases"));
  for (const auto& [name, one] : cases.items()) {
    CAPTURE(name);
    const auto leaf = [&](const char* key) {
      return file[name + "/" + key].clone().requires_grad_();
    };
    const Tensor x = leaf("x"), w = leaf("w"), s = leaf("s");
    Modulation how{.demodulate = one["demodulate"], .padding = one["padding"]};
    if (file.has(name + "/input_gain")) how.input_gain = file[name + "/input_gain"];
    const Tensor y = modulated_conv(x, w, s, how);
    CHECK(scaled_error(y.detach(), file[name + "/y"]) < 1e-5);
    y.backward(file[name + "/dy"]);
    CHECK(scaled_error(x.grad(), file[name + "/dx"]) < 1e-5);
    CHECK(scaled_error(w.grad(), file[name + "/dw"]) < 1e-5);
    CHECK(scaled_error(s.grad(), file[name + "/ds"]) < 1e-5);
  }
  CHECK(file.unused() == std::vector<std::string>());
}

TEST_CASE("NetworksHaveTheReferencesTensors") {
  for (const std::string name : kReferences) {
    const Pair p(name, "io");
    check_same_layout(stylegan3::Generator(p.G_shape), p.G_tensors);
    check_same_layout(StyleDiscriminator(p.D_shape), p.D_tensors);
    // Filters are designed, not stored.
    const Tensors fresh = tensors_of(stylegan3::Generator(p.G_shape));
    for (const auto& [key, tensor] : p.G_tensors) {
      if (!key.ends_with("_filter")) continue;
      CAPTURE(name, key);
      CHECK((fresh.at(key) - tensor).abs().max().item<double>() < 1e-7);
    }
  }
}

namespace {

// What each layer gives for the first sample.
void check_activations(Pair& p, const Tensor& ws) {
  const auto check = [&](const std::string& layer, const Tensor& x) {
    CAPTURE(layer);
    const Tensor rms = x.square().mean().sqrt();
    CHECK(scaled_error(rms, p["out/act_rms/" + layer]) < 5e-5);
    if (p.reference.tensors.count("out/act_corner/" + layer) == 0) return;
    const Tensor corner = x[0].narrow(0, 0, 2).narrow(1, 0, 6).narrow(2, 0, 6);
    CHECK(scaled_error(corner, p["out/act_corner/" + layer]) < 5e-5);
  };
  Tensor x = p.G->synthesis->input->forward(ws.select(1, 0));
  check("input", x);
  int64_t at = 1;
  for (const auto& layer : p.G->synthesis->layers) {
    x = layer->forward(x, ws.select(1, at++));
    check(layer->plan.name, x);
  }
}

}  // namespace

TEST_CASE("PicturesAreTheReferences") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : kReferences) {
    CAPTURE(name);
    Pair p(name, "io");
    p.G->eval();
    const Tensor w = p.G->mapping->forward(p["in/z"], p.labels("in/c"));
    const Tensor ws = for_all_layers(w, p.G_shape.num_ws());
    CHECK(scaled_error(w, p["out/ws"]) < 5e-5);
    check_activations(p, ws.narrow(0, 0, 1));
    Synthesis& g = *p.G->synthesis;
    CHECK(scaled_error(g.forward(ws), p["out/img"]) < 5e-5);
    const Tensor two = ws.narrow(0, 0, 2), one = ws.narrow(0, 0, 1);
    CHECK(scaled_error(g.forward(two, nullptr, p["in/transform"]), p["out/img_transform"]) < 5e-5);
    const auto r = static_cast<double>(p.G_shape.synthesis.img_resolution);
    const Tensor shift = torch::tensor({{1.0, 0.0, -3 / r}, {0.0, 1.0, 2 / r}, {0.0, 0.0, 1.0}});
    CHECK(scaled_error(g.forward(one, nullptr, shift), p["out/img_shift_3_-2_sample0"]) < 5e-5);
    const Tensor scale = torch::diag(torch::tensor({3.0, 3.0, 1.0}));
    CHECK(scaled_error(g.forward(one, nullptr, scale), p["out/img_scale3_sample0"]) < 5e-5);
    const Tensor mixed = torch::cat(
        {one.narrow(1, 0, 4), ws.narrow(0, 1, 1).narrow(1, 4, p.G_shape.num_ws() - 4)}, 1);
    CHECK(scaled_error(g.forward(mixed), p["out/img_mix_0_1_at4"]) < 5e-5);
  }
}

TEST_CASE("LogitsAreTheReferences") {
  const torch::NoGradGuard no_grad;
  for (const std::string name : kReferences) {
    CAPTURE(name);
    Pair p(name, "io");
    const Tensor real = p.D->forward(p.real(), p.labels("in/real_c"));
    const Tensor fake = p.D->forward(p["out/img"], p.labels("in/c"));
    CHECK(scaled_error(real, p["out/D_real_logits"]) < 5e-5);
    CHECK(scaled_error(fake, p["out/D_fake_logits"]) < 5e-5);
  }
}

// Through the interface that generate and metrics use, from the file as it is and from its tensors
// alone.
TEST_CASE("TrainedGeneratorsDrawTheReferencesPictures") {
  for (const std::string name : kReferences) {
    const Pair p(name, "io");
    for (const bool with_model : {true, false}) {
      CAPTURE(name, with_model);
      CHECK(row().recognises(p.G_tensors));
      const auto made = row().make_generator(with_model ? p.G_model : Json(), p.G_tensors, "file");
      made->load(p.G_tensors, "file");
      CHECK(made->num_ws() == p.G_shape.num_ws());
      const Tensor labels = p.labels("in/c");
      SynthesisOptions how;
      CHECK(scaled_error(made->images(p["in/z"], labels, how), p["out/img"]) < 5e-5);
      how.trunc = 0.7;
      const Tensor two = p["in/z"].narrow(0, 0, 2);
      const Tensor of_two = labels.defined() ? labels.narrow(0, 0, 2) : labels;
      CHECK(scaled_error(made->images(two, of_two, how), p["out/img_psi0.7"]) < 5e-5);
      CHECK(scaled_error(made->map(p["in/z"], labels, how).select(1, 0), p["out/ws_psi0.7"]) <
            5e-5);
      how.trunc = 0.5;
      how.trunc_cutoff = 3;
      CHECK(scaled_error(made->map(p["in/z"], labels, how), p["out/ws_psi0.5_cutoff3"]) < 5e-5);
      auto* movable = dynamic_cast<MovableInput*>(made.get());
      REQUIRE(movable != nullptr);
      const Tensor ws = made->map(two, of_two, {});
      const Tensor each = p["in/transform"].unsqueeze(0).repeat({2, 1, 1});
      CHECK(scaled_error(movable->synthesize_moved(ws, each, {}), p["out/img_transform"]) < 5e-5);
    }
  }
}

// EQ-T, EQ-T of fractions and EQ-R of one batch with given moves (Karras et al. 2021, app. E).
TEST_CASE("EquivarianceIsTheReferences") {
  const Pair p("r32", "io");
  const TensorFile file = fixture("sg3_eq");
  const Json cases = Json::parse(file.metadata.at("cases"));
  const auto made = row().make_generator(p.G_model, p.G_tensors, "file");
  made->load(p.G_tensors, "file");
  const Tensor ws = made->map(p["in/z"], {}, {});
  const auto pixels = [](const Json& part) { return part.get<double>() * 32; };
  const std::vector<std::pair<MovedBy, Move>> moves = {
      {MovedBy::kPixels,
       {std::nearbyint(pixels(cases["int"][0][0])), std::nearbyint(pixels(cases["int"][0][1]))}},
      {MovedBy::kFractions, {pixels(cases["frac"][0][0]), pixels(cases["frac"][0][1])}},
      {MovedBy::kAngles, {.angle = cases["angles"][0]}}};
  for (size_t i = 0; i < moves.size(); ++i) {
    CAPTURE(i);
    const auto& [by, move] = moves[i];
    const Tensor sums = equivariance_sums(*made, ws, move, by, {});
    const auto k = static_cast<int64_t>(i);
    const Tensor& expected = file.tensors.at("sums");
    CHECK(sums[0].item<double>() == Approx(expected[2 * k].item<double>()).epsilon(0.01));
    CHECK(sums[1].item<double>() == expected[2 * k + 1].item<double>());
    CHECK(equivariance_of(sums) ==
          Approx(file.tensors.at("psnr_int_frac_rot")[k].item<double>()).margin(0.1));
  }
}

TEST_CASE("SizesReadOffTensorsAreThoseOfTheModel") {
  for (const std::string name : kReferences) {
    CAPTURE(name);
    const Pair p(name, "io");
    const GeneratorShape seen = shape_of_tensors(p.G_tensors, name);
    CHECK(seen.mapping.z_dim == p.G_shape.mapping.z_dim);
    CHECK(seen.mapping.c_dim == p.G_shape.mapping.c_dim);
    CHECK(seen.synthesis.channel_base == p.G_shape.synthesis.channel_base);
    CHECK(seen.synthesis.channel_max == p.G_shape.synthesis.channel_max);
    CHECK(seen.synthesis.conv_kernel == p.G_shape.synthesis.conv_kernel);
    CHECK(seen.synthesis.use_radial_filters == p.G_shape.synthesis.use_radial_filters);
    check_same_layout(stylegan3::Generator(seen), p.G_tensors);
    const GeneratorShape again = shape_of_model(to_json(p.G_shape), name);
    CHECK(to_json(again) == to_json(p.G_shape));
  }
}

// Odd widths, where halves are rounded to even numbers, and other numbers of critical layers.
TEST_CASE("SizesOfOddNetworksAreReadOffTheirTensors") {
  struct Row {
    int64_t pixels, layers, critical, base, most;
    bool radial;
  };
  for (const Row& row : {Row{16, 5, 1, 340, 32, false},
                         Row{32, 6, 3, 256, 32, false},
                         Row{32, 6, 4, 300, 21, true},
                         Row{32, 9, 2, 600, 41, true},
                         Row{32, 6, 2, 340, 32, false},
                         Row{16, 3, 2, 33, 9, false},
                         Row{16, 2, 1, 64, 9, false}}) {
    CAPTURE(row.pixels, row.layers, row.critical, row.base, row.most);
    GeneratorShape shape;
    shape.mapping.z_dim = shape.mapping.w_dim = 8;
    SynthesisShape& s = shape.synthesis;
    s.img_resolution = row.pixels;
    s.num_layers = row.layers;
    s.num_critical = row.critical;
    s.channel_base = row.base;
    s.channel_max = row.most;
    s.use_radial_filters = row.radial;
    s.conv_kernel = row.radial ? 1 : 3;
    auto tensors = tensors_of(stylegan3::Generator(shape));
    const GeneratorShape seen = shape_of_tensors(tensors, "file");
    check_same_layout(stylegan3::Generator(seen), tensors);
  }
}

// The reference's constructor calls the layers of synthesis and of mapping alike, num_layers.
TEST_CASE("LayersOfTheMappingAreThoseOfItsOwnArguments") {
  const Json flat = {{"num_layers", 7}, {"img_resolution", 16}};
  for (const Json& mapping : {Json(), Json(Json::object()), Json{{"w_avg_beta", 0.9}}}) {
    Json model = flat;
    if (!mapping.is_null()) model["mapping_kwargs"] = mapping;
    const GeneratorShape shape = shape_of_model(model, "m");
    CHECK(shape.mapping.num_layers == 2);
    CHECK(shape.synthesis.num_layers == 7);
  }
  const Json grouped = {{"synthesis_kwargs", {{"num_layers", 5}, {"conv_clamp", nullptr}}}};
  CHECK(shape_of_model(grouped, "m").synthesis.num_layers == 5);
  CHECK(shape_of_model(grouped, "m").mapping.num_layers == 2);
  CHECK_FALSE(shape_of_model(grouped, "m").synthesis.conv_clamp.has_value());
}

TEST_CASE("ABoundOfNullIsNone") {
  CHECK(shape_of_model(Json::object(), "m").synthesis.conv_clamp == 256);
  CHECK_FALSE(shape_of_model(Json{{"conv_clamp", nullptr}}, "m").synthesis.conv_clamp.has_value());
  GeneratorShape shape;
  shape.synthesis.conv_clamp.reset();
  CHECK_FALSE(shape_of_model(to_json(shape), "m").synthesis.conv_clamp.has_value());
}

TEST_CASE("AModelThatContradictsItsTensorsIsRefusedWithTheKeyThatFits") {
  Pair p("t32", "io");
  Json model = p.G_model;
  model["channel_base"] = 512;
  CHECK_THROWS_WITH(row().make_generator(model, p.G_tensors, "m.safetensors"),
                    Catch::Contains("m.safetensors") && Catch::Contains("channel_base = 256") &&
                        Catch::Contains("channel_max = 16"));
  model = p.G_model;
  model["num_layers"] = 7;
  CHECK_THROWS_WITH(row().make_generator(model, p.G_tensors, "m.safetensors"),
                    Catch::Contains("num_layers = 6"));
  model["num_layers"] = 2;
  CHECK_THROWS_WITH(row().make_generator(model, p.G_tensors, "m.safetensors"),
                    Catch::Contains("num_critical"));
  model = p.G_model;
  model["margin_size"] = 3;
  CHECK_THROWS_WITH(row().make_generator(model, p.G_tensors, "m.safetensors"),
                    Catch::Contains("margin_size"));
  model = p.G_model;
  model["img_channels"] = 2;
  CHECK_THROWS_WITH(row().make_generator(model, p.G_tensors, "m.safetensors"),
                    Catch::Contains("img_channels = 3"));
  for (const char* name : {"synthesis.L3_52_13.bias", "synthesis.L3_52_13.weight"}) {
    Tensors missing = p.G_tensors;
    REQUIRE(missing.erase(name) == 1);
    const auto load = [&](const Json& of) {
      row().make_generator(of, missing, "m.safetensors")->load(missing, "m.safetensors");
    };
    CHECK_THROWS_WITH(load(p.G_model), Catch::Contains(name));
    CHECK_THROWS_WITH(load(Json()), Catch::Contains(name));
  }
}

// Published numbers of parameters (specification, sec. 1.5).
TEST_CASE("PublishedSizesHaveTheirNumbersOfParameters") {
  const std::map<int64_t, std::pair<int64_t, int64_t>> published = {
      {128, {32'833'523, 21'366'701}},
      {256, {28'472'133, 18'816'387}},
      {512, {24'873'519, 16'665'594}},
      {1024, {22'313'167, 15'093'151}}};
  for (const auto& [pixels, of] : published) {
    CAPTURE(pixels);
    GeneratorShape t;
    t.synthesis.img_resolution = pixels;
    GeneratorShape r = t;
    r.synthesis.conv_kernel = 1;
    r.synthesis.use_radial_filters = true;
    r.synthesis.channel_base *= 2;
    r.synthesis.channel_max *= 2;
    CHECK(count(stylegan3::Generator(t).parameters()) == of.first);
    CHECK(count(stylegan3::Generator(r).parameters()) == of.second);
  }
}
