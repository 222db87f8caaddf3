// SPDX-License-Identifier: Apache-2.0
// Projected GANs from outside: the same in every mode, resumes, weights in, official files drawn.
#include <cmath>

#include "config/value.h"
#include "support/catch.h"
#include "support/paths.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// 16 pixels, few feature maps, a narrow feature network of drawn weights.
const std::string kSmallProjected =
    "--preset projected-tiny --resolution 16 --kimg 0.16 --set train.tick=0.08 "
    "--set samples.rows=1 --set data.synth_size=64 --set projected.ngf=2 --set projected.z_dim=16 "
    "--set projected.cout=4 --set projected.ndf=8 "
    "--set projected.feature_widths=4,4,4,4,8,8,8,8 ";

// Statistics and vectors of spectral norm are averaged over ranks after each iteration.
TEST_CASE("ProjectedGansTrainTheSameBitsInEveryMode") {
  const TemporaryFolder folder;
  for (const std::string more :
       {"--set projected.lite=off ", "--cond on --set projected.separable=on --accumulate 2 "}) {
    CAPTURE(more);
    const std::string name = std::to_string(more.size());
    const std::string same = kSmallProjected + "--kimg 0.08 --nproc 2 " + more + "--ddp-mode ";
    const std::string wrapper = model_sha(train(folder, "wrapper" + name, same + "wrapper"));
    for (const std::string mode : {"dynamic", "flat", "dynamic --ddp-scope whole"}) {
      CAPTURE(mode);
      const std::string run = name + std::to_string(mode.size());
      CHECK(model_sha(train(folder, "mode" + run, same + mode)) == wrapper);
    }
  }
}

// With batch norm over all ranks; by plain gradient descent, because gradients that are 0 but for
// their rounding, of biases before batch norm, become full steps of Adam.
TEST_CASE("TwoRanksOfAProjectedGanFollowOneUndividedBatch") {
  const TemporaryFolder folder;
  const std::string same = kSmallProjected +
                           "--kimg 0.08 --set train.dtype=float64 --set dist.sync_bn=on "
                           "--set G.optimizer=sgd --set D.optimizer=sgd --cond on "
                           "--set projected.lite=off ";
  const fs::path one = train(folder, "one", same);
  const FileTensors start = read_safetensors(files_like(one, "model-").front());
  const FileTensors a = read_safetensors(last_model(one));
  const FileTensors b = read_safetensors(last_model(train(folder, "two", same + "--nproc 2")));
  double moved = 0, apart = 0;
  for (const auto& [name, tensor] : a) {
    if (tensor.dtype != "F64") continue;
    moved = std::max(moved, max_distance(tensor, start.at(name)));
    apart = std::max(apart, max_distance(tensor, b.at(name)));
  }
  CHECK(moved > 1e-3);
  CHECK(apart > 0);
  CHECK(apart <= 1e-8 * moved);
}

TEST_CASE("ProjectedGansTrainInReducedPrecision") {
  const TemporaryFolder folder;
  const std::string same = kSmallProjected + "--kimg 0.048 --nproc 2 --set projected.lite=off ";
  const std::string full = model_sha(train(folder, "full", same));
  const std::string one =
      model_sha(train(folder, "wrapper", same + "--amp=bf16 --ddp-mode wrapper"));
  CHECK(one != full);
  CHECK(model_sha(train(folder, "flat", same + "--amp=bf16 --ddp-mode flat")) == one);
  const fs::path half = train(folder, "half", same + "--amp=fp16");
  const std::vector<std::string> lines = split(trim(read_file(half / "stats.jsonl")), '\n');
  CHECK(mean_of(Json::parse(lines.back()), "AMP/G/scale") > 1);  // steps may have been left out
}

TEST_CASE("ProjectedGansResumeBitForBit") {
  const TemporaryFolder folder;
  const std::string flags = kSmallProjected + "--set projected.lite=off --nproc 2 ";
  const std::string whole = model_sha(train(folder, "whole", flags));
  const Outcome stopped =
      gantrain(tiny(flags + "--run-dir parts --set save.every=0.064 --kimg 0.08"),
               {.folder = folder.path()});
  REQUIRE(stopped.code == 0);
  CHECK_THAT(stopped.err, Catch::Contains("features random"));
  CHECK(model_sha(train(folder, "parts", flags)) == whole);
  CHECK(!holds(text_in(folder / "parts/log.txt"), "D goes on with"));
}

TEST_CASE("FeaturesThatComeWithTheWeightsAreSaidToStay") {
  const TemporaryFolder folder;
  trained(folder, "source", kSmallProjected + "--kimg 0.016");
  const std::string more = "--kimg 0.032 --set train.tick=0.016 --init-from source ";
  const fs::path other = train(folder, "other", kSmallProjected + more + "--seed 5");
  CHECK(holds(text_in(other / "log.txt"), "features: D goes on with those of the state or model"));
  const fs::path same = train(folder, "same", kSmallProjected + more);
  CHECK(!holds(text_in(same / "log.txt"), "D goes on with"));
}

TEST_CASE("ProjectedGansStartFromAModelOfAnotherSize") {
  const TemporaryFolder folder;
  const fs::path source = trained(folder, "source", kSmallProjected + "--save-raw --kimg 0.016");
  const fs::path doubled =
      train(folder,
            "doubled",
            kSmallProjected + "--save-raw --kimg 0 --seed 5 --resolution 32 --init-from source");
  const FileTensors a = read_safetensors(last_model(source));
  const FileTensors b = read_safetensors(last_model(doubled));
  for (const char* name : {"synthesis.init.init.0.weight_orig",
                           "synthesis.feat_16.1.weight_u",
                           "D.feature_network.scratch.layer0_ccm.weight",
                           "D.feature_network.pretrained.layer1.0.0.conv_pw.weight",
                           "D.discriminator.mini_discs.2.main.0.main.0.weight_orig"}) {
    CAPTURE(name);
    CHECK(b.at(name).bytes == a.at(name).bytes);
  }
  const Outcome refused =
      gantrain(tiny(kSmallProjected +
                    "--kimg 0 --set projected.ngf=3 --set projected.z_dim=20 --init-from source"),
               {.folder = folder.path()});
  INFO(refused.err);
  CHECK_THAT(refused.err, Catch::Contains("--set projected.ngf=2"));
}

// A network of one's own instead of EfficientNet-Lite0, made by torch.jit.script.
TEST_CASE("ATorchScriptNetworkIsTrainedOnInEveryModeAndResumed") {
  const TemporaryFolder folder;
  const std::string file = fixtures_folder() + "/script_features.pt";
  const std::string common =
      "--preset projected-tiny --resolution 16 --kimg 0.08 --set train.tick=0.04 --nproc 2 "
      "--set samples.rows=1 --set data.synth_size=64 --set projected.ngf=2 "
      "--set projected.z_dim=16 --set projected.cout=4 --set projected.ndf=8 ";
  const std::string same =
      common + "--features " + file + " --set projected.taps=layer1,layer2,layer3,layer4 ";
  const fs::path whole = train(folder, "whole", same + "--save-raw --ddp-mode wrapper");
  CHECK(read_safetensors(last_model(whole))
            .count("D.feature_network.pretrained.layer3.0.conv.weight") == 1);
  for (const std::string mode : {"dynamic", "flat"}) {
    CAPTURE(mode);
    CHECK(model_sha(train(folder, mode, same + "--save-raw --ddp-mode " + mode)) ==
          model_sha(whole));
  }
  train(folder, "parts", same + "--save-raw --ddp-mode wrapper --kimg 0.048");
  CHECK(model_sha(train(folder, "parts", same + "--save-raw --ddp-mode wrapper")) ==
        model_sha(whole));
  train(folder, "half", same + "--amp=bf16 --kimg 0.016");

  const std::string checked = "features " + file + " --taps ";
  CHECK_THAT(succeed(folder, checked + "layer1,layer2,layer3,layer4").out,
             Catch::Contains("maps layer1 [4, 56, 56], layer2 [6, 28, 28]"));
  const auto refused = [&](const std::string& flags, int code, const std::string& said) {
    const Outcome outcome =
        gantrain(tiny(common + flags + " --run-dir refused"), {.folder = folder.path()});
    CAPTURE(flags, outcome.err);
    CHECK(outcome.code == code);
    CHECK((code == 3 || is_one_error_line(outcome.err)));  // ranks say first what they read
    CHECK_THAT(outcome.err, Catch::Contains(said));
  };
  refused("--features " + file, 3, "script_features.pt: forward() returns [1, 3], and 4 maps");
  refused("--features " + file + " --set projected.taps=a,b,c,d", 3, "no tap a; there are 0, stem");
  refused("--features " + file + " --set projected.taps=a,b,c", 2, "four different names");
  refused("--set projected.taps=a,b,c,d", 2, "projected.taps = a,b,c,d: of which network?");
  refused(
      "--features " + file + " --metrics fd_lite0 --set projected.taps=layer1,layer2,layer3,layer4",
      3,
      "a TorchScript network, and the weights of EfficientNet-Lite0 are needed");
}

// The official names with the official constructor's arguments are a model file.
TEST_CASE("OfficialTensorsDrawTheOfficialPictures") {
  const TemporaryFolder folder;
  const auto file = [](const std::string& name) {
    return read_safetensors(fs::path(fixtures_folder()) /
                            ("proj_lite32_c5_" + name + ".safetensors"));
  };
  FileTensors tensors;
  for (const auto& [name, tensor] : file("G")) tensors[name.substr(2)] = tensor;
  const Json model = {{"recipe", "projected"},
                      {"z_dim", 8},
                      {"c_dim", 5},
                      {"img_resolution", 32},
                      {"img_channels", 3},
                      {"ngf", 3},
                      {"cond", 1},
                      {"synthesis_kwargs", {{"lite", true}, {"num_classes", 5}}},
                      {"left_out", "layers above img_resolution"}};
  write_safetensors(folder / "official.safetensors", tensors, {{"gantrain.model", model.dump()}});
  const FileTensors io = file("io");
  FileTensor z = io.at("in/z");
  write_npy(folder / "z.npy", z);
  const auto* classes = reinterpret_cast<const int64_t*>(io.at("in/class_idx").bytes.data());
  succeed(
      folder,
      fmt::format("generate --device cpu official.safetensors --z z.npy --class {} --format npy "
                  "--outdir out",
                  classes[0]));
  const std::vector<fs::path> drawn = files_like(folder / "out", "");
  REQUIRE(!drawn.empty());
  const std::vector<double> mine = read_npy(drawn.front()).values();
  const std::vector<double> expected = io.at("out/img_eval").values();
  double apart = 0;
  for (size_t i = 0; i < 3 * 32 * 32; ++i) apart = std::max(apart, std::abs(mine[i] - expected[i]));
  CHECK(apart < 5e-5 * 3);
  // The lite network has no noise to leave out.
  succeed(folder,
          "generate --device cpu official.safetensors --seeds 1 --class 0 --noise-mode none "
          "--outdir silent");
}

TEST_CASE("ARunOfAProjectedGanIsRehearsedWhole") {
  const TemporaryFolder folder;
  const Outcome labelled =
      gantrain(tiny(kSmallProjected + "--run-dir planned --dry-run=full --cond on"),
               {.folder = folder.path()});
  INFO(labelled.err);
  CHECK(labelled.code == 0);
  CHECK_THAT(labelled.out, Catch::Contains("synthesis.embed.weight"));
}

}  // namespace
}  // namespace gantrain
