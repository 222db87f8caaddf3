// SPDX-License-Identifier: Apache-2.0
#include <ATen/Context.h>

#include <cstdlib>
#include <string>

#include "support/catch.h"
#include "train/step/mixed_precision.h"

namespace gantrain {

namespace {

// Leaves the settings as they were.
class AlgorithmsAsTheyWere {
 public:
  AlgorithmsAsTheyWere()
      : deterministic_(context_.deterministicAlgorithms()),
        warn_only_(context_.deterministicAlgorithmsWarnOnly()),
        deterministic_cudnn_(context_.deterministicCuDNN()),
        benchmark_(context_.benchmarkCuDNN()) {
    unsetenv(kWorkspace);
  }
  ~AlgorithmsAsTheyWere() {
    context_.setDeterministicAlgorithms(deterministic_, warn_only_);
    context_.setDeterministicCuDNN(deterministic_cudnn_);
    context_.setBenchmarkCuDNN(benchmark_);
    unsetenv(kWorkspace);
  }
  AlgorithmsAsTheyWere(const AlgorithmsAsTheyWere&) = delete;
  AlgorithmsAsTheyWere& operator=(const AlgorithmsAsTheyWere&) = delete;

  static constexpr const char* kWorkspace = "CUBLAS_WORKSPACE_CONFIG";
  std::string workspace() const {
    const char* value = std::getenv(kWorkspace);
    return value == nullptr ? "" : value;
  }

 private:
  at::Context& context_ = at::globalContext();
  bool deterministic_, warn_only_, deterministic_cudnn_, benchmark_;
};

}  // namespace

TEST_CASE("ConvolutionsRaceUnlessTheirBitsMustRepeat") {
  const AlgorithmsAsTheyWere settings;
  const at::Context& context = at::globalContext();
  choose_algorithms(/*deterministic=*/false);
  CHECK(context.benchmarkCuDNN());
  CHECK_FALSE(context.deterministicCuDNN());
  CHECK_FALSE(context.deterministicAlgorithms());
  CHECK(settings.workspace().empty());
  choose_algorithms(/*deterministic=*/true);
  CHECK_FALSE(context.benchmarkCuDNN());
  CHECK(context.deterministicCuDNN());
  CHECK(context.deterministicAlgorithms());
  CHECK_FALSE(context.deterministicAlgorithmsWarnOnly());
  CHECK(settings.workspace() == ":4096:8");
}

TEST_CASE("TheUsersOwnWorkspaceOfCublasStays") {
  const AlgorithmsAsTheyWere settings;
  setenv(AlgorithmsAsTheyWere::kWorkspace, ":16:8", /*overwrite=*/1);
  choose_algorithms(/*deterministic=*/true);
  CHECK(settings.workspace() == ":16:8");
}

}  // namespace gantrain
