// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include "core/device.h"
#include "core/torch.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("ReadsOfACpuAreFreeUntilATestAssumesOtherwise") {
  CHECK(reads_are_free(at::kCPU));
  CHECK_FALSE(reads_are_free(at::Device(at::kCUDA, 0)));
  {
    const AssumeReadsWait assumed;
    CHECK_FALSE(reads_are_free(at::kCPU));
    bool on_another_thread = true;
    std::thread([&] { on_another_thread = reads_are_free(at::kCPU); }).join();
    CHECK_FALSE(on_another_thread);
    { const AssumeReadsWait nested; }
    CHECK_FALSE(reads_are_free(at::kCPU));
  }
  CHECK(reads_are_free(at::kCPU));
}

TEST_CASE("TheOnlyNumberOfATensorIsReadWhateverItsType") {
  CHECK(read_free(torch::tensor(0.1, at::kDouble)) == 0.1);
  CHECK(read_free(torch::tensor(0.1F)) == static_cast<double>(0.1F));
  CHECK(read_free(torch::full({1, 1}, 1 << 30, at::kInt)) == 1 << 30);
  CHECK(read_free(torch::full({1}, int64_t{1} << 40, at::kLong)) == 1099511627776.0);
  CHECK(read_free(torch::ones({}, at::kBool)) == 1);
  CHECK(read_free(torch::arange(5)[3]) == 3);  // a view
  CHECK_THROWS(read_free(torch::ones({2})));
}
