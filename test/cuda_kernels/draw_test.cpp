// SPDX-License-Identifier: Apache-2.0
#include "core/torch.h"
#include "ops/draws/draws.h"
#include "ops/gpu/table_cuda.h"
#include "support/catch.h"
#include "util/hash.h"

using namespace gantrain;

namespace {

// How many representable numbers lie between two floats, at most.
int64_t largest_distance(const at::Tensor& a, const at::Tensor& b) {
  const auto ordered = [](const at::Tensor& t) {
    const at::Tensor bits = t.contiguous().view(at::kInt).to(at::kLong);
    return at::where(bits < 0, -(bits & 0x7FFFFFFF), bits);
  };
  return (ordered(a) - ordered(b)).abs().max().item<int64_t>();
}

}  // namespace

TEST_CASE("KernelsDrawTheCpusNumbers") {
  const DrawKey key = make_draw_key(7, 11, 0, at::kCPU);
  int64_t cases = 0;
  for (const auto kind : {Distribution::kNormal, Distribution::kUniform, Distribution::kBits}) {
    for (int64_t each = 1; each < 1100; each += 1 + each / 12) {
      for (const Samples samples : {Samples{0, 1, 1}, Samples{3, 2, 5}, Samples{1LL << 40, 7, 3}}) {
        for (const int64_t phase : {0, 3}) {
          const DrawNumbers how{
              key.numbers, phase, hash64("purpose " + std::to_string(cases)), samples, each, kind};
          const at::Tensor expected = cpu_draw(how);
          const at::Tensor drawn = cuda_draw(how);
          INFO(each << " numbers of " << samples.count << " samples, kind " << int(kind));
          REQUIRE(drawn.sizes() == expected.sizes());
          if (kind == Distribution::kNormal)
            CHECK(largest_distance(drawn, expected) <= 1);
          else
            CHECK(drawn.equal(expected));
          ++cases;
        }
      }
    }
  }
  CHECK(cases >= 3 * 200);
}
