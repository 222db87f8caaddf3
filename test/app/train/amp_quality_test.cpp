// SPDX-License-Identifier: Apache-2.0
// Half precision costs no quality: minutes of training, so these have the label "slow".
#include <fmt/format.h>

#include <algorithm>

#include "support/catch.h"
#include "support/tiny.h"
#include "util/file.h"
#include "util/text.h"

namespace gantrain {
namespace {

// Sliced Wasserstein distances after 5 kimg at 16 pixels, of three seeds, in order of size.
std::vector<double> distances(const TemporaryFolder& folder,
                              const std::string& preset,
                              const std::string& amp) {
  std::vector<double> all;
  for (const char* seed : {"0", "1", "2"}) {
    const std::string name = preset + amp + seed;
    const auto run = train(folder,
                           name,
                           "--preset " + preset +
                               " --kimg 5 --metrics swd --set metrics.at_start=off "
                               "--set metrics.every=1000 --set samples.every=1000 --amp=" +
                               amp + " --seed " + seed);
    const std::vector<std::string> lines = split(trim(read_file(run / "metric-swd.jsonl")), '\n');
    all.push_back(nlohmann::ordered_json::parse(lines.back())["results"]["swd"]);
  }
  std::sort(all.begin(), all.end());
  return all;
}

void check_quality(const std::string& preset) {
  const TemporaryFolder folder;
  const std::vector<double> full = distances(folder, preset, "off");
  const std::vector<double> half = distances(folder, preset, "bf16");
  WARN(fmt::format("{}: SWD of float32 {:.2f} {:.2f} {:.2f}, of bf16 {:.2f} {:.2f} {:.2f}",
                   preset,
                   full[0],
                   full[1],
                   full[2],
                   half[0],
                   half[1],
                   half[2]));
  const bool inside = half[1] >= full[0] && half[1] <= full[2];
  CHECK((inside || half[1] <= 1.1 * full[1]));
}

TEST_CASE("Bfloat16CostsDcganNoQuality") { check_quality("dcgan-tiny"); }
TEST_CASE("Bfloat16CostsStyleGan2NoQuality") { check_quality("stylegan2-tiny"); }

}  // namespace
}  // namespace gantrain
