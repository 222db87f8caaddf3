// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "distributed/gradient_sync.h"
#include "support/catch.h"

using namespace gantrain;

TEST_CASE("AShareIsTheGradientOverTheRanksInHalfPrecision") {
  const at::Tensor g = torch::tensor({1.0F, -3.0F, 1e-3F});
  CHECK(torch::equal(compressed_share(g, Compress::kNone, 4), g / 4));
  CHECK(torch::equal(compressed_share(g, Compress::kFp16, 4), (g / 4).to(at::kHalf)));
  CHECK(torch::equal(compressed_share(g, Compress::kBf16, 4), (g / 4).to(at::kBFloat16)));
}

TEST_CASE("AMeanThatFitsDoesNotOverflowAsASum") {
  const at::Tensor share = compressed_share(torch::full({2}, 60000.0F), Compress::kFp16, 8);
  CHECK((share * 8).isfinite().all().item<bool>());
}
