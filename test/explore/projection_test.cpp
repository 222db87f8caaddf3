// SPDX-License-Identifier: Apache-2.0
#include "explore/projection.h"

#include <signal.h>

#include <cmath>

#include "core/tensor_files.h"
#include "core/torch.h"
#include "draw/painter.h"
#include "report/grid.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "support/toy_generator.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Pictures a.png and b.png of a generator, and a request for both.
ProjectRequest request_in(const TemporaryFolder& folder, ToyGenerator& generator) {
  set_log({.console = Level::kError});
  const at::Tensor made = generator.images(latents_of_seeds({11, 12}, 4), {}, {});
  ProjectRequest request;
  request.how.model = "model.safetensors";
  for (int64_t i = 0; i < 2; ++i) {
    request.images.push_back((folder / (i == 0 ? "a.png" : "b.png")).string());
    write_file(request.images.back(), encode_png(to_image(made[i])));
  }
  request.steps = 100;
  request.starts = 2;
  request.outdir = (folder / "out").string();
  return request;
}

Json project(ToyGenerator& generator, const ProjectRequest& request) {
  const ClassTable none;
  return project_pictures({generator, none}, request);
}

int code_of(ToyGenerator& generator, const ProjectRequest& request, const std::string& named) {
  try {
    project(generator, request);
  } catch (const UserError& e) {
    INFO(e.what());
    CHECK(std::string(e.what()).find(named) != std::string::npos);
    return static_cast<int>(e.code());
  }
  return 0;
}

}  // namespace

TEST_CASE("AProjectionLeavesLatentsThatDrawItsPicture") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  ProjectRequest request = request_in(folder, generator);
  const bool of_layers = GENERATE(false, true);
  if (of_layers) request.space = ProjectionSpace::kWPlus;
  request.clip = (folder / "way.webp").string();
  const Json result = project(generator, request);
  CHECK(result["space"] == (of_layers ? "w+" : "w"));
  REQUIRE(result["pictures"].size() == 2);
  const std::filesystem::path out = folder / "out";
  for (size_t i = 0; i < 2; ++i) {
    const std::string name = i == 0 ? "a" : "b";
    CHECK(result["pictures"][i]["image"] == request.images[i]);
    CHECK(result["pictures"][i]["psnr"].get<double>() > 30);
    const at::Tensor w = load_npz(out / (name + ".npz"), "w");
    REQUIRE(w.sizes() == at::IntArrayRef({1, 3, 4}));
    CHECK(w[0][0].equal(w[0][2]) != of_layers);
    const Image drawn = to_image(generator.synthesize(w, {})[0]);
    const std::string made = read_file(out / (name + "-projected.png"));
    CHECK(decode_image(made, name).pixels == drawn.pixels);
    CHECK(decode_image(read_file(out / (name + "-target.png")), name).pixels ==
          decode_image(read_file(request.images[i]), name).pixels);
  }
  CHECK(read_file(request.clip).substr(0, 4) == "RIFF");
}

TEST_CASE("AModelWithoutWIsProjectedIntoZ") {
  const TemporaryFolder folder;
  ToyGenerator generator({.num_ws = 0});
  const ProjectRequest request = request_in(folder, generator);
  CHECK(project(generator, request)["space"] == "z");
  CHECK(load_npz(folder / "out/a.npz", "z").sizes() == at::IntArrayRef({1, 4}));
}

TEST_CASE("ASignalSavesAndTheSameRequestGoesOnWithTheSameBits") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  ProjectRequest request = request_in(folder, generator);
  request.outdir = (folder / "whole").string();
  project(generator, request);
  request.outdir = (folder / "stopped").string();
  // The signal arrives while the loss of the seventh step is computed.
  int64_t calls = 0;
  const ClassTable none;
  ProjectionTools tools{generator, none};
  tools.further = [&](const at::Tensor&) -> FurtherLoss {
    return [&](const at::Tensor& pictures, const at::Tensor&) {
      if (pictures.requires_grad() && ++calls == 7) raise(SIGINT);
      return torch::zeros({pictures.size(0)});
    };
  };
  CHECK(user_error(Exit::kInterrupted, [&] {
          project_pictures(tools, request);
        }).find("7 of 100") != std::string::npos);
  CHECK(!std::filesystem::exists(folder / "stopped/a.npz"));
  project(generator, request);
  CHECK(read_file(folder / "stopped/a.npz") == read_file(folder / "whole/a.npz"));
  CHECK(read_file(folder / "stopped/b-projected.png") ==
        read_file(folder / "whole/b-projected.png"));
}

TEST_CASE("AFolderOfAnotherProjectionIsRefusedWithWhatDiffers") {
  const TemporaryFolder folder;
  ToyGenerator generator;
  ProjectRequest request = request_in(folder, generator);
  request.steps = 5;
  project(generator, request);
  CHECK(code_of(generator, request, "") == 0);  // done already: the same files again
  ProjectRequest longer = request;
  longer.steps = 6;
  CHECK(code_of(generator, longer, "steps was 5, is 6") == 2);
  ProjectRequest other = request;
  other.images.pop_back();
  CHECK(code_of(generator, other, "project-state.safetensors") == 2);
  const std::filesystem::path state = folder / "out/project-state.safetensors";
  const std::string whole = read_file(state);
  std::string damaged = whole;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_file(state, damaged);
  CHECK(code_of(generator, request, "damaged") == 3);
  write_file(state, whole.substr(0, 100));
  CHECK(code_of(generator, request, state.string()) == 3);
}

TEST_CASE("ALabelThatIsLeftOutIsAnotherProjection") {
  const TemporaryFolder folder;
  ToyGenerator plain, generator({.classes = 3, .vectors = true});
  ProjectRequest request = request_in(folder, plain);
  request.steps = 2;
  request.how.label = "0=1";
  project(generator, request);
  CHECK(code_of(generator, request, "") == 0);
  request.how.label = "";
  CHECK(code_of(generator, request, "label was") == 2);
}

TEST_CASE("WhatAModelHasNotIsRefusedBeforeAnythingIsWritten") {
  const TemporaryFolder folder;
  ToyGenerator plain({.num_ws = 0});
  ProjectRequest request = request_in(folder, plain);
  request.space = ProjectionSpace::kWPlus;
  CHECK(code_of(plain, request, "--space w+") == 2);
  request.space = ProjectionSpace::kAuto;
  request.how.classes = "1";
  CHECK(code_of(plain, request, "--class 1") == 2);
  request.how.classes = "";
  request.how.channels = "3";
  CHECK(code_of(plain, request, "--channels = 3") == 2);
  request.how.channels = "auto";
  request.images.push_back((folder / "none.png").string());
  CHECK(code_of(plain, request, "none.png") == 3);
  CHECK(!std::filesystem::exists(request.outdir));
}

namespace {

Image striped(int64_t width, int64_t height, int64_t channels) {
  Image image{width, height, channels, {}};
  for (int64_t i = 0; i < width * height * channels; ++i)
    image.pixels.push_back(static_cast<uint8_t>(i * 37 % 251));
  return image;
}

int code_of(const std::vector<std::string>& files) {
  try {
    load_targets(files, {8, 8}, {3});
  } catch (const UserError& e) {
    CHECK(std::string(e.what()).find(files.back()) != std::string::npos);
    return static_cast<int>(e.code());
  }
  return 0;
}

}  // namespace

TEST_CASE("ATargetOfTheRightSizeKeepsItsPixels") {
  const TemporaryFolder folder;
  const Image image = striped(12, 8, 3);
  write_file(folder / "a.png", encode_png(image));
  const Targets targets = load_targets({(folder / "a.png").string()}, {12, 8}, {3});
  CHECK(targets.names == std::vector<std::string>{"a"});
  REQUIRE(targets.pictures.sizes() == at::IntArrayRef({1, 3, 8, 12}));
  CHECK(to_image(targets.pictures[0]).pixels == image.pixels);
}

TEST_CASE("TargetsOfAnyFormAndSizeAreFitted") {
  const TemporaryFolder folder;
  write_file(folder / "grey.png", encode_png(striped(40, 30, 1)));
  write_file(folder / "alpha.webp", encode_webp(striped(9, 50, 4)));
  write_file(folder / "photo.jpg", encode_jpeg(striped(100, 20, 3)));
  std::vector<std::string> files;
  for (const char* name : {"grey.png", "alpha.webp", "photo.jpg"})
    files.push_back((folder / name).string());
  CHECK(load_targets(files, {16, 8}, {3}).pictures.sizes() == at::IntArrayRef({3, 3, 8, 16}));
  CHECK(load_targets(files, {8, 8}, {1}).pictures.sizes() == at::IntArrayRef({3, 1, 8, 8}));
}

TEST_CASE("TargetsThatCannotBeAreRefusedByName") {
  const TemporaryFolder folder;
  write_file(folder / "text.png", "no picture");
  const std::string good = (folder / "a.png").string();
  write_file(good, encode_png(striped(8, 8, 3)));
  CHECK(code_of({good}) == 0);
  CHECK(code_of({good, (folder / "text.png").string()}) == 3);
  CHECK(code_of({good, (folder / "none.png").string()}) == 3);
  CHECK(code_of({good, folder.path().string()}) == 3);
  CHECK(code_of({good, good}) == 2);
}

TEST_CASE("BytesComeFromTheMiddleOfWhatIsRoundedToThem") {
  const at::Tensor bytes = torch::arange(256, at::kByte).view({1, 1, 16, 16});
  CHECK(to_bytes(from_bytes(bytes)).equal(bytes));
  CHECK(from_bytes(bytes).abs().max().item<double>() == Approx(1));
}

TEST_CASE("PsnrIsThatOfItsDefinition") {
  const at::Tensor a = torch::zeros({2, 1, 4, 4}, at::kByte);
  at::Tensor b = a.clone();
  b[1].fill_(51);  // a fifth of the peak: 20 log10(5)
  const at::Tensor db = psnr(a, b);
  CHECK(std::isinf(db[0].item<double>()));
  CHECK(db[1].item<double>() == Approx(20 * std::log10(5.0)));
}

}  // namespace gantrain
