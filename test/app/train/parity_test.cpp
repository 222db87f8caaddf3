// SPDX-License-Identifier: Apache-2.0
// The same global batch gives the same model, however many ranks share it: bits in
// float32 where the sums have the same order, a distance in float64 where they have not.
#include <algorithm>

#include "support/catch.h"
#include "support/tensor_file.h"
#include "support/tiny.h"

namespace gantrain {
namespace {

namespace fs = std::filesystem;

// Narrow networks: there are many trainings.
const std::string kNarrow = "--set dcgan.channels=32 --set dcgan.d_channels=8 ";

// Without BatchNorm, 10 iterations, powers of two: scaling and sums of two are exact.
void check_two_ranks_equal_two_parts(const std::string& more) {
  const TemporaryFolder folder;
  const std::string same = kNarrow + "--kimg 0.16 --set dcgan.norm=none " + more;
  const std::string one = model_sha(train(folder, "one", "--accumulate 2 " + same));
  for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
    CAPTURE(mode);
    CHECK(model_sha(train(folder, mode, "--nproc 2 --ddp-mode " + mode + " " + same)) == one);
  }
}

TEST_CASE("TwoRanksEqualTwoPartsWithAdam") { check_two_ranks_equal_two_parts(""); }
TEST_CASE("TwoRanksEqualTwoPartsWithSgd") {
  check_two_ranks_equal_two_parts("--set G.optimizer=sgd --set D.optimizer=sgd");
}
TEST_CASE("TwoRanksEqualTwoPartsWithDoubleBackward") {
  check_two_ranks_equal_two_parts("--set dcgan.loss=wgan-gp --set D.steps=2");
}

// Against one undivided batch sums have another order: 1e-10 of the distance moved.
void check_follows(const fs::path& one, const fs::path& ranks) {
  const FileTensors start = read_safetensors(files_like(one, "model-").front());
  const FileTensors a = read_safetensors(last_model(one));
  const FileTensors b = read_safetensors(last_model(ranks));
  REQUIRE(a.size() == b.size());
  double moved = 0;
  double apart = 0;
  for (const auto& [name, tensor] : a) {
    CAPTURE(name);
    REQUIRE(tensor.dtype == "F64");
    CHECK(max_distance(tensor, start.at(name)) > 0);
    moved = std::max(moved, max_distance(tensor, start.at(name)));
    apart = std::max(apart, max_distance(tensor, b.at(name)));
  }
  CHECK(moved > 1e-4);
  CHECK(apart > 0);  // equal bits would mean that nothing was divided
  CHECK(apart <= 1e-10 * moved);
}

const std::string kFloat64 =
    kNarrow + "--kimg 0.16 --set train.dtype=float64 --set dcgan.norm=none ";

TEST_CASE("TwoRanksFollowOneUndividedBatch") {
  for (const std::string more : {"", "--set G.optimizer=sgd --set D.optimizer=sgd"}) {
    CAPTURE(more);
    const TemporaryFolder folder;
    const fs::path one = train(folder, "one", kFloat64 + more);
    check_follows(one, train(folder, "two", kFloat64 + "--nproc 2 " + more));
  }
}

TEST_CASE("FourRanksFollowOneUndividedBatchInEveryMode") {
  const TemporaryFolder folder;
  const fs::path one = train(folder, "one", kFloat64);
  for (const std::string mode : {"wrapper", "dynamic", "flat", "dynamic --ddp-scope whole"}) {
    CAPTURE(mode);
    const std::string name = mode.substr(0, mode.find(' ')) + std::to_string(mode.size());
    check_follows(one, train(folder, name, kFloat64 + "--nproc 4 --ddp-mode " + mode));
  }
}

// Its statistics are a rank's own, but averaged after each iteration.
TEST_CASE("ModesAreTheSameBitsWithBatchNormToo") {
  const TemporaryFolder folder;
  const std::string same = kNarrow + "--nproc 2 --kimg 0.16 --set dcgan.norm=batch --ddp-mode ";
  const std::string wrapper = model_sha(train(folder, "wrapper", same + "wrapper"));
  for (const std::string mode : {"dynamic", "flat"}) {
    CAPTURE(mode);
    CHECK(model_sha(train(folder, mode, same + mode)) == wrapper);
  }
}

TEST_CASE("RanksThatStartApartTrainAsOne") {
  const TemporaryFolder folder;
  const std::string same = kNarrow + "--nproc 2 --kimg 0.16 --set dcgan.norm=none";
  const std::string plain = model_sha(train(folder, "plain", same));
  for (const std::string mode : {"wrapper", "dynamic", "flat"}) {
    CAPTURE(mode);
    const std::string apart = same + " --set train.perturb_ranks=on --ddp-mode " + mode;
    CHECK(model_sha(train(folder, mode, apart)) == plain);
  }
}

}  // namespace
}  // namespace gantrain
