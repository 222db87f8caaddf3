// SPDX-License-Identifier: Apache-2.0
// Directions in w: against numpy on stored weights (test/python/directions.py), in files, and added
// to w.
#include "draw/directions.h"

#include "core/tensor_files.h"
#include "core/torch.h"
#include "draw/draw.h"
#include "recipes/stylegan1/recipe.h"
#include "recipes/stylegan2/recipe.h"
#include "recipes/stylegan3/recipe.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "support/tensor_checks.h"
#include "support/toy_generator.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

constexpr double kTolerance = 1e-5;

// A stored network of a family: its fixture without "_G", "_params".
std::unique_ptr<Generator> stored_generator(const std::string& name) {
  const TensorFile file = fixture(name);
  if (name.starts_with("stylegan1")) {
    const ModelContent model = stylegan1::import_official(file, name);
    auto generator = stylegan1::row().make_generator(model.model, model.tensors, name);
    generator->load(model.tensors, name);
    return generator;
  }
  TensorMap tensors;
  for (const auto& [key, tensor] : file.tensors) tensors[key.substr(2)] = tensor;  // "G/"
  const RecipeRow row = name.starts_with("sg2") ? stylegan2::row() : stylegan3::row();
  auto generator = row.make_generator(Json::parse(file.metadata.at("config")), tensors, name);
  generator->load(tensors, name);
  return generator;
}

EditRequest request_of(DirectionMethod method, std::optional<int64_t> count) {
  set_log({.console = Level::kError});
  EditRequest request;
  request.how.model = "MODEL";
  request.method = method;
  request.count = count;
  request.samples = 600;
  return request;
}

// Rows are those of `expected` up to their signs.
void check_rows(const at::Tensor& rows, const at::Tensor& expected) {
  REQUIRE(rows.sizes() == expected.sizes());
  const at::Tensor exact = rows.to(at::kDouble);
  const at::Tensor signs = (exact * expected).sum(1, /*keepdim=*/true).sign();
  CHECK((exact - expected * signs).abs().max().item<double>() < kTolerance);
}

void check_against(const std::map<std::string, at::Tensor>& numpy,
                   const std::string& name,
                   const at::Tensor& vectors,
                   const at::Tensor& values) {
  CAPTURE(name);
  check_rows(vectors, numpy.at(name + "/vectors"));
  CHECK(scaled_error(values, numpy.at(name + "/values")) < kTolerance);
}

// A .npz of the toy generator's directions: e0, e1, e2 of 4, with lengths 1, 2, 3.
std::string toy_directions(const TemporaryFolder& folder, const Json& about) {
  Directions directions;
  directions.vectors = torch::eye(4).narrow(0, 0, 3);
  directions.lengths = torch::tensor({1.0F, 2.0F, 3.0F});
  directions.values = torch::tensor({9.0F, 4.0F, 1.0F});
  directions.about = about;
  save_directions(folder / "toy.npz", directions);
  return (folder / "toy.npz").string();
}

Json about(const Json& layers) { return {{"format", "gantrain directions 1"}, {"layers", layers}}; }

std::string load_error(const fs::path& file) {
  return user_error(Exit::kInput, [&] { load_directions(file); });
}

}  // namespace

TEST_CASE("SefaMatchesNumpyOnStoredWeights") {
  const auto numpy = fixture("directions").tensors;
  for (const std::string name : {"sg2_uncond32_G", "sg3_t16_c3_G", "stylegan1_16_params"}) {
    const auto generator = stored_generator(name);
    CHECK(static_cast<int64_t>(generator->style_weights(0).size()) == generator->num_ws());
    for (const std::string layers : {"all", "2-4", "0"}) {
      EditRequest request = request_of(DirectionMethod::kSefa, 8);
      if (layers != "all") request.layers = parse_layers("--layers", layers);
      const Directions found = find_directions(*generator, request, 0, {});
      check_against(numpy,
                    "sefa/" + name + "/" + layers,  // of StyleGAN3's input four, its rank
                    found.vectors,
                    found.values);
      CHECK(found.lengths.equal(torch::ones_like(found.values)));
      CHECK(found.about["weights"].size() == found.layers.size());
    }
  }
}

TEST_CASE("GanspaceMatchesNumpyOnStoredWeights") {
  const auto numpy = fixture("directions").tensors;
  for (const std::string name :
       {"sg2_uncond32_G", "sg2_cond32_G", "sg3_t16_c3_G", "stylegan1_16_params"}) {
    CAPTURE(name);
    const auto generator = stored_generator(name);
    const int64_t classes = generator->classes();
    const at::Tensor labels = classes > 0 ? torch::arange(classes) : at::Tensor();
    EditRequest request = request_of(DirectionMethod::kGanspace, 8);
    const Directions found = find_directions(*generator, request, 0, labels);
    check_against(numpy, "ganspace/" + name, found.vectors, found.values);
    CHECK(scaled_error(found.lengths.square(), found.values) < 1e-6);
    CHECK(scaled_error(found.mean, numpy.at("ganspace/" + name + "/mean")) < kTolerance);
    if (classes == 0 || !generator->takes_vectors()) continue;
    const Directions by_vectors = find_directions(*generator, request, 0, torch::eye(classes));
    CHECK(by_vectors.vectors.equal(found.vectors));
    CHECK(by_vectors.about["labels"] == classes);
  }
}

TEST_CASE("WithoutFullRankThereAreFewerAxes") {
  const auto numpy = fixture("directions").tensors;
  const auto of_weights = [](const std::vector<at::Tensor>& weights) {
    return principal_axes(gram_of_unit_rows(weights), 10);
  };
  const at::Tensor &low = numpy.at("low/weight"), &full = numpy.at("full/weight");
  const PrincipalAxes of_low = of_weights({low});  // rank 3; a row of zeros
  check_against(numpy, "low", of_low.vectors, of_low.values);
  CHECK(of_low.total == Approx(8));
  const PrincipalAxes of_full = of_weights({full.narrow(0, 0, 7), full.narrow(0, 7, 13)});
  check_against(numpy, "full", of_full.vectors, of_full.values);  // all six that there are
  CHECK(principal_axes(torch::zeros({4, 4}), 3).values.size(0) == 0);
  CHECK(principal_axes(torch::ones({4, 4}), 3)
            .vectors.allclose(torch::full({1, 4}, 0.5, at::kDouble)));
}

TEST_CASE("ACovarianceOfBatchesIsThatOfAllRows") {
  const auto numpy = fixture("directions").tensors;
  for (const std::string name : {"rows", "few"}) {
    const at::Tensor& rows = numpy.at(name + "/rows");
    for (const int64_t batch : {int64_t{1}, int64_t{7}, rows.size(0)}) {
      CAPTURE(name, batch);
      RunningCovariance running;
      for (int64_t first = 0; first < rows.size(0); first += batch)
        running.add(rows.narrow(0, first, std::min(batch, rows.size(0) - first)));
      const PrincipalAxes axes = principal_axes(running.covariance(), 10);
      check_against(numpy, name, axes.vectors, axes.values);
      CHECK(scaled_error(running.mean(), numpy.at(name + "/mean")) < 1e-12);
    }
  }
}

TEST_CASE("TheLargestComponentOfAnAxisIsPositive") {
  const at::Tensor random = normal_like(torch::empty({9, 9}), 3, "matrix").to(at::kDouble);
  const at::Tensor vectors = principal_axes(random.matmul(random.t()), 9).vectors;
  const at::Tensor largest = vectors.abs().argmax(1, /*keepdim=*/true);
  CHECK(vectors.gather(1, largest).min().item<double>() > 0);
  CHECK(vectors.matmul(vectors.t()).allclose(torch::eye(9, at::kDouble)));
}

TEST_CASE("AFileOfDirectionsComesBack") {
  const TemporaryFolder folder;
  const auto generator = stored_generator("sg2_uncond32_G");
  for (const auto method : {DirectionMethod::kSefa, DirectionMethod::kGanspace}) {
    EditRequest request = request_of(method, 3);
    request.layers = parse_layers("--layers", "6,1-3");
    const Directions found = find_directions(*generator, request, 0, {});
    save_directions(folder / "a.npz", found);
    const Directions again = load_directions(folder / "a.npz");
    CHECK(again.vectors.equal(found.vectors));
    CHECK(again.lengths.equal(found.lengths));
    CHECK(again.values.equal(found.values));
    CHECK(again.mean.defined() == (method == DirectionMethod::kGanspace));
    CHECK(again.about == found.about);
    CHECK(again.layers == std::vector<int64_t>{1, 2, 3, 6});
    CHECK(to_json(again) == to_json(found));
  }
}

TEST_CASE("AFileOfDirectionsIsNeverHalfRead") {
  const TemporaryFolder folder;
  const fs::path bad = folder / "bad.npz";
  const std::string good = read_file(toy_directions(folder, about({0, 1})));
  for (size_t at = 0; at + 1 < good.size(); at += 53) {
    write_file(bad, good.substr(0, at));
    CHECK(load_error(bad).find("bad.npz") != std::string::npos);
  }
  const at::Tensor vectors = torch::ones({2, 4}), nan = torch::full({2, 4}, NAN);
  const auto refused = [&](const NamedTensors& arrays,
                           const std::map<std::string, std::string>& texts,
                           const std::string& expected) {
    save_npz(bad, arrays, texts);
    const std::string error = load_error(bad);
    CAPTURE(error, expected);
    CHECK(error.find("bad.npz") != std::string::npos);
    CHECK(error.find(expected) != std::string::npos);
  };
  refused({{"w", vectors}}, {}, "no array \"directions\" in it; it has w");
  refused({{"directions", vectors[0]}}, {}, "(directions): shape [4]; [K, w_dim] is needed");
  refused({{"directions", nan}}, {}, "(directions): holds values that are not finite");
  refused({{"directions", vectors}, {"lengths", torch::ones({3})}}, {}, "shape [3]; [2] is needed");
  refused({{"directions", vectors}, {"mean", torch::ones({2})}}, {}, "shape [2]; [4] is needed");
  refused({{"directions", vectors}}, {{"about", "{"}}, "(about)");
  refused({{"directions", vectors}}, {{"about", "[1]"}}, "format");
  refused(
      {{"directions", vectors}}, {{"about", R"({"format": "other"})"}}, "gantrain directions 1");
  refused({{"directions", vectors}}, {{"about", about({-1}).dump()}}, "-1 is no layer");
  refused({{"directions", vectors}}, {{"about", about({"x"}).dump()}}, "\"x\" is no layer");
  refused({{"directions", vectors}, {"about", vectors}}, {}, "a text is needed");
}

TEST_CASE("DirectionsOfOtherProgramsAreOfLengthOneAndMoveAllLayers") {
  const TemporaryFolder folder;
  save_npz(folder / "own.npz", {{"directions", torch::ones({2, 4})}});
  ToyGenerator generator;
  const DirectionRequest request{(folder / "own.npz").string(), {parse_direction("1:-0.5", false)}};
  const auto edits = load_edits(generator, request, "MODEL");
  REQUIRE(edits.size() == 1);
  CHECK(edits[0].step.equal(torch::ones({3, 4}, at::kDouble)));
  CHECK(edits[0].strengths == std::vector<double>{-0.5});
}

TEST_CASE("WhatAFileOfDirectionsOrTheModelLacksIsNamed") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  const std::string file = toy_directions(folder, about({0, 1}));
  const auto error = [&](Exit code, const std::string& use, Generator& of) {
    const DirectionRequest request{file, {parse_direction(use, false)}};
    return user_error(code, [&] { load_edits(of, request, "MODEL"); });
  };
  CHECK(error(Exit::kUsage, "3:1", generator).find("--direction 3:1") != std::string::npos);
  CHECK(error(Exit::kUsage, "3:1", generator).find("3 directions, 0 to 2") != std::string::npos);
  CHECK(error(Exit::kUsage, "0:1@2-3", generator).find("layer 3: MODEL has 3 layers, 0 to 2") !=
        std::string::npos);
  ToyGenerator without({.num_ws = 0});
  CHECK(error(Exit::kUsage, "0:1", without).find("no w space") != std::string::npos);
  const auto larger = stored_generator("sg2_uncond32_G");
  CHECK(error(Exit::kInput, "0:1", *larger).find("4 numbers, and w of MODEL has 64") !=
        std::string::npos);
  toy_directions(folder, about({0, 5}));
  CHECK(error(Exit::kInput, "0:1", generator).find("toy.npz: layer 5") != std::string::npos);
  CHECK_NOTHROW(load_edits(generator, {file, {parse_direction("0:1@1", false)}}, "MODEL"));
}

TEST_CASE("ADirectionIsAddedToTruncatedWInItsLayers") {
  const TemporaryFolder folder;
  set_log({.console = Level::kError});
  ToyGenerator generator;
  GenerateRequest request;
  request.how.model = "MODEL";
  request.how.trunc = 0.5;
  request.seeds = parse_seeds("--seeds", "3,5");
  request.outdir = (folder / "out").string();
  request.how.edits.file = toy_directions(folder, about({0, 1}));
  for (const std::string use : {"0:1.5", "1:-0.5@1-2"})
    request.how.edits.uses.push_back(parse_direction(use, false));
  draw_pictures(generator, request);

  SynthesisOptions half;
  half.trunc = 0.5;
  at::Tensor w = generator.map(latents_of_seeds({3, 5}, 4), {}, half).clone();
  w.narrow(1, 0, 2).select(2, 0) += 1.5;  // direction 0: length 1, layers of the file
  w.narrow(1, 1, 2).select(2, 1) -= 1.0;  // direction 1: length 2, layers of the command
  save_npy(folder / "w.npy", w);
  GenerateRequest of_styles;
  of_styles.how.model = "MODEL";
  of_styles.w = (folder / "w.npy").string();
  of_styles.outdir = request.outdir;
  draw_pictures(generator, of_styles);
  CHECK(read_file(folder / "out/seed0003.png") == read_file(folder / "out/w0000.png"));
  CHECK(read_file(folder / "out/seed0005.png") == read_file(folder / "out/w0001.png"));

  // Latents of layers, as `project` finds them, are edited, too.
  save_npy(folder / "w.npy", generator.map(latents_of_seeds({3, 5}, 4), {}, half));
  of_styles.how.edits = request.how.edits;
  draw_pictures(generator, of_styles);
  CHECK(read_file(folder / "out/seed0003.png") == read_file(folder / "out/w0000.png"));
  GenerateRequest mixed = request;
  mixed.seeds = {};
  mixed.mix = parse_mix("3:5:0-2");
  draw_mix(generator, mixed);
  CHECK(read_file(folder / "out/3-5.png") == read_file(folder / "out/seed0005.png"));
}

TEST_CASE("AWalkPassesTheStrengthsOfADirection") {
  const TemporaryFolder folder;
  set_log({.console = Level::kError});
  ToyGenerator generator;
  const std::string file = toy_directions(folder, about({0, 1, 2}));
  for (const auto space : {WalkSpace::kZ, WalkSpace::kW}) {
    InterpolateRequest walk;
    walk.how.model = "MODEL";
    walk.how.edits = {file, {parse_direction("2:-1:1", true)}};
    walk.seeds = parse_seeds("--seeds", "7,7");
    walk.frames = 4;
    walk.space = space;
    walk.outdir = (folder / "walk").string();
    draw_walk(generator, walk);
    for (const auto& [frame, strength] :
         {std::pair("frame0000", "2:-1"), {"frame0001", "2:-0.5"}, {"frame0004", "2:1"}}) {
      GenerateRequest one;
      one.how.model = "MODEL";
      one.how.edits = {file, {parse_direction(strength, false)}};
      one.seeds = parse_seeds("--seeds", "7");
      one.outdir = (folder / "one").string();
      draw_pictures(generator, one);
      CAPTURE(frame);
      CHECK(read_file(folder / ("walk/" + std::string(frame) + ".png")) ==
            read_file(folder / "one/seed0007.png"));
    }
  }
}

TEST_CASE("AColumnOfASheetIsThePictureOfItsStrength") {
  const TemporaryFolder folder;
  const auto generator = stored_generator("sg2_uncond32_G");
  EditRequest request = request_of(DirectionMethod::kGanspace, 2);
  request.seeds = parse_seeds("--seeds", "4,9");
  request.columns = 3;
  request.strength = 2;
  request.how.trunc = 0.7;
  request.layers = parse_layers("--layers", "0-3");
  request.outdir = (folder / "edit").string();
  const Json result = draw_directions(*generator, request);
  REQUIRE(result["directions"].size() == 2);
  const std::string sheet_file = result["directions"][1]["sheet"];
  const Image sheet = decode_image(read_file(sheet_file), sheet_file);
  constexpr int64_t kSide = 32 * 3, kStrip = 11;  // enlarged for captions of 13 letters
  REQUIRE(sheet.width == 3 * kSide);
  REQUIRE(sheet.height == 2 * (kSide + kStrip));
  GenerateRequest drawn;
  drawn.how.model = "MODEL";
  drawn.how.trunc = 0.7;
  drawn.how.edits = {result["npz"], {}};
  drawn.seeds = request.seeds;
  drawn.outdir = (folder / "drawn").string();
  for (const auto& [column, strength] : {std::pair(0, "1:-2"), {1, "1:0"}, {2, "1:2"}}) {
    drawn.how.edits.uses = {parse_direction(strength, false)};
    draw_pictures(*generator, drawn);
    const Image own = decode_image(read_file(folder / "drawn/seed0009.png"), "seed0009.png");
    bool same = true;
    for (int64_t y = 0; y < 32; ++y) {
      for (int64_t x = 0; x < 32; ++x) {
        const int64_t at = (kSide + kStrip + 3 * y + 1) * sheet.width + column * kSide + 3 * x + 1;
        for (int64_t c = 0; c < 3; ++c)
          same = same && sheet.pixels[static_cast<size_t>(3 * at + c)] ==
                             own.pixels[static_cast<size_t>(3 * (32 * y + x) + c)];
      }
    }
    CHECK(same);
  }
}

TEST_CASE("AnEditThatCannotBeIsRefusedBeforeItIsWritten") {
  const TemporaryFolder folder;
  const auto generator = stored_generator("sg2_uncond32_G");
  const auto error =
      [&](Exit code, const std::function<void(EditRequest&)>& change, Generator& of) {
        EditRequest request = request_of(DirectionMethod::kSefa, {});
        request.seeds = parse_seeds("--seeds", "0");
        request.outdir = (folder / "out").string();
        change(request);
        const std::string text = user_error(code, [&] { draw_directions(of, request); });
        CHECK(!fs::exists(folder / "out"));
        return text;
      };
  ToyGenerator without({.num_ws = 0});
  CHECK(error(
            Exit::kUsage, [](EditRequest&) {}, without)
            .find("MODEL has no w space") != std::string::npos);
  CHECK(error(
            Exit::kUsage, [](EditRequest& r) { r.count = 65; }, *generator)
            .find("--count 65: w of MODEL has 64 numbers") != std::string::npos);
  CHECK(error(
            Exit::kUsage,
            [](EditRequest& r) { r.layers = parse_layers("--layers", "6-8"); },
            *generator)
            .find("layer 8: MODEL has 8 layers, 0 to 7") != std::string::npos);
  CHECK(error(
            Exit::kUsage,
            [](EditRequest& r) { r.seeds = parse_seeds("--seeds", "0-64"); },
            *generator)
            .find("at most 64") != std::string::npos);
  const torch::NoGradGuard no_grad;
  for (at::Tensor& parameter : generator->network()->parameters()) parameter.zero_();
  CHECK(error(
            Exit::kInput, [](EditRequest&) {}, *generator)
            .find("all zero") != std::string::npos);
  for (at::Tensor& parameter : generator->network()->parameters()) parameter.fill_(NAN);
  CHECK(error(
            Exit::kInput, [](EditRequest&) {}, *generator)
            .find("not finite") != std::string::npos);
}

TEST_CASE("AStageHasTheLayersThatItUses") {
  const auto generator = stored_generator("stylegan1_16_params");
  CHECK(generator->style_weights(8).size() == 4);
  CHECK(generator->style_weights(0).size() == 6);
  EditRequest request = request_of(DirectionMethod::kSefa, 2);
  CHECK(find_directions(*generator, request, 8, {}).layers == std::vector<int64_t>{0, 1, 2, 3});
  request.layers = parse_layers("--layers", "3-4");
  CHECK(user_error(Exit::kUsage, [&] {
          find_directions(*generator, request, 8, {});
        }).find("MODEL at 8 pixels has 4 layers") != std::string::npos);
}

}  // namespace gantrain
