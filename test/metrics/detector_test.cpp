// SPDX-License-Identifier: Apache-2.0
#include "metrics/detector.h"

#include <string>

#include "core/torch.h"
#include "metrics/toy_detector.h"
#include "support/catch.h"
#include "support/pictures.h"
#include "support/temporary_folder.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hash.h"
#include "util/log.h"

namespace gantrain {
namespace {

at::Tensor pictures(int64_t count, int64_t channels = 3) {
  torch::manual_seed(1);
  return torch::randint(0, 256, {count, channels, 8, 8}, at::kByte);
}

// What a file is refused with; the exit code is that of input.
std::string refusal(const TemporaryFolder& folder, const std::string& source) {
  save_detector(folder / "own.pt", source);
  return input_error([&] { Detector(folder / "own.pt", at::kCPU).features(pictures(3)); });
}

TEST_CASE("ADetectorOfThePublishedFormGivesFeaturesProbabilitiesAndLpips") {
  const TemporaryFolder folder;
  save_detector(folder / "toy.pt");
  Detector detector(folder / "toy.pt", at::kCPU);
  CHECK(detector.name() == "toy.pt");
  CHECK(detector.sha256().size() == 64);
  CHECK(detector.has_probabilities());
  CHECK(detector.has_lpips());
  const at::Tensor x = pictures(5);
  CHECK(detector.features(x).sizes() == at::IntArrayRef({5, 24}));
  CHECK(detector.lpips(x).sizes() == at::IntArrayRef({5, 12}));
  const at::Tensor p = detector.probabilities(x);
  CHECK(at::allclose(p.sum(1), torch::ones({5})));
  CHECK(at::allclose(detector.features(x).narrow(1, 0, 12), detector.lpips(x)));
}

TEST_CASE("ADetectorOfOneArgumentGivesFeatures") {
  const TemporaryFolder folder;
  save_detector(folder / "plain.pt", "def forward(self, x):\n    return x.mean([2, 3])\n");
  Detector detector(folder / "plain.pt", at::kCPU);
  CHECK_FALSE(detector.has_probabilities());
  CHECK_FALSE(detector.has_lpips());
  const at::Tensor x = pictures(4);
  CHECK(at::allclose(detector.features(x), x.to(at::kFloat).mean({2, 3})));
  CHECK_THROWS_WITH(detector.probabilities(x), Catch::Contains("plain.pt"));
  CHECK_THROWS_WITH(detector.lpips(x), Catch::Contains("return_lpips"));
}

TEST_CASE("LogitsAreNoProbabilities") {
  const TemporaryFolder folder;
  save_detector(folder / "logits.pt",
                "def forward(self, x, return_features: bool = False):\n"
                "    return x.float().mean([2, 3])\n");
  Detector detector(folder / "logits.pt", at::kCPU);
  CHECK_NOTHROW(detector.features(pictures(3)));
  CHECK_THROWS_WITH(detector.probabilities(pictures(3)),
                    Catch::Contains("logits.pt") && Catch::Contains("add up to 1"));
}

TEST_CASE("GreyIsRepeatedAndAlphaIsLaidOverWhite") {
  const at::Tensor grey = pictures(2, 1);
  CHECK(to_rgb(grey).equal(grey.to(at::kFloat).repeat({1, 3, 1, 1})));
  at::Tensor rgba = pictures(2, 4);
  rgba.select(1, 3).fill_(255);
  CHECK(at::allclose(to_rgb(rgba), rgba.narrow(1, 0, 3).to(at::kFloat)));
  rgba.select(1, 3).fill_(0);
  CHECK(to_rgb(rgba).eq(255).all().item<bool>());
  at::Tensor grey_alpha = pictures(1, 2);
  grey_alpha.select(1, 1).fill_(51);
  const at::Tensor wanted = grey_alpha.narrow(1, 0, 1).to(at::kFloat) * 0.2 + 204;
  CHECK(at::allclose(to_rgb(grey_alpha), wanted.repeat({1, 3, 1, 1})));
}

TEST_CASE("FilesThatAreNoDetectorsAreRefusedByName") {
  const TemporaryFolder folder;
  write_file(folder / "text.pt", "no network");
  CHECK_THROWS_WITH(Detector(folder / "text.pt", at::kCPU), Catch::Contains("text.pt"));
  save_detector(folder / "cut.pt");
  const std::string whole = read_file(folder / "cut.pt");
  write_file(folder / "cut.pt", whole.substr(0, whole.size() / 2));
  CHECK_THROWS_WITH(Detector(folder / "cut.pt", at::kCPU), Catch::Contains("cut.pt"));
  CHECK_THROWS_AS(Detector(folder / "none.pt", at::kCPU), UserError);

  CHECK_THAT(refusal(folder, "def forward(self, x):\n    return x.mean()\n"),
             Catch::Contains("own.pt: returns []"));
  CHECK_THAT(refusal(folder, "def forward(self, x):\n    return x.mean([2, 3])[1:]\n"),
             Catch::Contains("returns [2, 3] for 3 pictures"));
  CHECK_THAT(refusal(folder, "def forward(self, x):\n    return x.mean([2, 3]) / 0.0\n"),
             Catch::Contains("not finite"));
  CHECK_THAT(refusal(folder, "def forward(self, x):\n    return [x]\n"),
             Catch::Contains("not a tensor"));
  CHECK_THAT(refusal(folder, "def forward(self, x):\n    return x.reshape([7, 7])\n"),
             Catch::Contains("own.pt: cannot look at pictures [3, 3, 8, 8]"));
  CHECK_THAT(refusal(folder, "def forward(self, x, y: int):\n    return x.mean([2, 3])\n"),
             Catch::Contains("needs y"));
  CHECK_THAT(refusal(folder, "def look(self, x):\n    return x\n"),
             Catch::Contains("no forward()"));
}

// Then what is wrong is not the file, which a refusal as broken input would say.
TEST_CASE("ADetectorThatTheMemoryIsTooSmallForIsNotCalledBroken") {
  const TemporaryFolder folder;
  save_detector(folder / "large.pt",
                "def forward(self, x):\n    return torch.zeros([x.size(0), 1 << 50])\n");
  Detector detector(folder / "large.pt", at::kCPU);
  std::string said;
  try {
    detector.features(pictures(3));
  } catch (const UserError& e) {
    FAIL(e.what());
  } catch (const std::exception& e) {
    said = lower(e.what());
  }
  CHECK_THAT(said, Catch::Contains("memory"));
}

// TorchScript that leaves a file behind as soon as it is loaded.
TEST_CASE("ADetectorOfAnotherHashIsNotRun") {
  const TemporaryFolder folder;
  const auto mark = folder / "mark";
  save_detector(folder / "program.pt",
                "def forward(self, x):\n    return x.float().mean([2, 3])\n"
                "def __getstate__(self):\n    return 1\n"
                "def __setstate__(self, state: int):\n    torch.save(torch.zeros([1]), \"" +
                    mark.string() + "\")\n");
  const std::string right = sha256(read_file(folder / "program.pt"));
  const std::string wrong(64, '0');
  const std::string refused =
      input_error([&] { Detector(folder / "program.pt", at::kCPU, wrong); });
  for (const std::string& part : {std::string("program.pt"), wrong, right})
    CHECK_THAT(refused, Catch::Contains(part));
  CHECK_FALSE(std::filesystem::exists(mark));
  Detector detector(folder / "program.pt", at::kCPU, right);
  CHECK(std::filesystem::exists(mark));  // so it is a program
  CHECK(detector.sha256() == right);
  CHECK(detector.features(pictures(2)).sizes() == at::IntArrayRef({2, 3}));
}

TEST_CASE("ADetectorWithoutAHashIsSaidToBeAProgram") {
  const TemporaryFolder folder;
  save_detector(folder / "toy.pt");
  set_log({Level::kError, Level::kInfo, {}, ""});
  keep_log_lines();
  const std::string hash = Detector(folder / "toy.pt", at::kCPU).sha256();
  const std::vector<std::string> said = take_kept_lines();
  Detector(folder / "toy.pt", at::kCPU, hash);
  const std::vector<std::string> trusted = take_kept_lines();
  set_log({});
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Catch::Contains("program") && Catch::Contains("--detector-sha256 " + hash));
  CHECK(trusted.empty());
}

}  // namespace
}  // namespace gantrain
