// SPDX-License-Identifier: Apache-2.0
// Official weights of networks that grow, from outside: `import --recipe`, and the pictures of
// every stage by `generate`.
#include <algorithm>
#include <cmath>

#include "support/catch.h"
#include "support/paths.h"
#include "support/tensor_file.h"
#include "support/tiny.h"
#include "util/text.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

constexpr double kPictureTolerance = 1e-5;  // of the largest value

const fs::path kFixtures = fixtures_folder();

FileTensors import(const TemporaryFolder& folder,
                   const std::string& recipe,
                   const std::string& name) {
  const std::string params = (kFixtures / (name + "_params.safetensors")).string();
  const Outcome outcome = gantrain(
      words_of("import " + params + " --recipe " + recipe + " -o " + name + ".safetensors"),
      {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  const FileTensors io = read_safetensors(kFixtures / (name + "_io.safetensors"));
  write_npy(folder / "z.npy", io.at("in/z"));
  return io;
}

// What `generate` draws of in/z with `more` is `expected` [N, 3, r, r].
void check_drawn(const TemporaryFolder& folder,
                 const std::string& name,
                 const std::string& more,
                 const FileTensor& expected) {
  CAPTURE(name, more);
  const Outcome outcome =
      gantrain(words_of("generate --device cpu " + name +
                        ".safetensors --z z.npy --format npy --outdir out " + more),
               {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  double scale = 0;
  for (const double value : expected.values()) scale = std::max(scale, std::abs(value));
  const auto count = static_cast<size_t>(expected.shape.front());
  const size_t size = expected.bytes.size() / count;
  for (size_t i = 0; i < count; ++i) {
    const FileTensor got = read_npy(folder / "out" / ("z000" + std::to_string(i) + ".npy"));
    FileTensor row = expected;
    row.shape.erase(row.shape.begin());
    REQUIRE(got.shape == row.shape);
    row.bytes = expected.bytes.substr(i * size, size);
    CHECK(max_distance(got, row) <= kPictureTolerance * scale);
  }
}

// All tensors PREFIX/LEVEL/aALPHA.
size_t check_levels(const TemporaryFolder& folder,
                    const std::string& name,
                    const FileTensors& io,
                    const std::string& prefix) {
  size_t levels = 0;
  for (const auto& [key, expected] : io) {
    if (!starts_with(key, prefix)) continue;
    const std::vector<std::string> parts = split(key.substr(prefix.size()), '/');
    check_drawn(folder, name, "--level " + parts[0] + " --alpha " + parts[1].substr(1), expected);
    ++levels;
  }
  return levels;
}

}  // namespace

TEST_CASE("OfficialPgganDrawsItsPicturesAtEveryStage") {
  const TemporaryFolder folder;
  for (const std::string name : {"pggan16", "pggan16_unfused"}) {
    const FileTensors io = import(folder, "pggan", name);
    CHECK(check_levels(folder, name, io, "G/") == 7);
  }
}

TEST_CASE("OfficialStyleGan1DrawsItsPicturesAtEveryStageAndTruncated") {
  const TemporaryFolder folder;
  const FileTensors io = import(folder, "stylegan1", "stylegan1_16");
  CHECK(check_levels(folder, "stylegan1_16", io, "out/G/") == 7);
  check_drawn(folder,
              "stylegan1_16",
              "--trunc 0.5 --trunc-cutoff 2",
              io.at("out/trunc/psi0.5_cutoff2/img"));
}

TEST_CASE("SafetensorsThatAreNotTheRecipesAreRefusedWithTheTensorNamed") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& more, int code) {
    const Outcome outcome =
        gantrain(words_of("import " + more + " -o m.safetensors"), {.folder = folder.path()});
    CHECK(outcome.code == code);
    CHECK(is_one_error_line(outcome.err));
    CHECK_FALSE(fs::exists(folder / "m.safetensors"));
    return outcome.err;
  };
  const std::string params = (kFixtures / "pggan16_params.safetensors").string();
  CHECK_THAT(refused(params, 3), Catch::Contains("--recipe pggan or stylegan1"));
  CHECK_THAT(refused(params + " --recipe dcgan", 3), Catch::Contains("pggan and stylegan1"));
  CHECK_THAT(refused(params + " --recipe stylegan1", 3), Catch::Contains("tensor"));
  FileTensors broken = read_safetensors(params);
  broken.erase("G/8x8/Conv1/bias");
  write_safetensors(folder / "broken.safetensors", broken, {});
  CHECK_THAT(refused("broken.safetensors --recipe pggan", 3), Catch::Contains("8x8.Conv1.bias"));
}

}  // namespace gantrain
