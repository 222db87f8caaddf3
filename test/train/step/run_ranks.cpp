// SPDX-License-Identifier: Apache-2.0
#include "train/step/run_ranks.h"

#include "core/torch.h"
#include "support/catch.h"
#include "support/temporary_folder.h"

namespace gantrain {

namespace {

// Also where both hold the same numbers that are not finite.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::allclose(a, b, 0, 0, /*equal_nan=*/true);
}

}  // namespace

TensorsByName result_of_ranks(int64_t world,
                              const std::function<NamedTensors(const Rendezvous&)>& train) {
  const TemporaryFolder folder;
  REQUIRE(failed_ranks(world, [&](const Rendezvous& r) {
            save_safetensors(folder / std::to_string(r.ranks.rank), train(r), {});
            return 0;
          }) == 0);
  const TensorsByName first = load_safetensors(folder / "0").tensors;
  for (int64_t rank = 1; rank < world; ++rank) {
    CAPTURE(rank);
    check_same_bits(load_safetensors(folder / std::to_string(rank)).tensors, first);
  }
  return first;
}

void check_same_bits(const TensorsByName& got, const TensorsByName& expected) {
  CHECK(got.size() == expected.size());
  for (const auto& [name, tensor] : expected) {
    CAPTURE(name);
    const auto at = got.find(name);
    const bool same = at != got.end() && same_bits(at->second, tensor);
    CHECK(same);
  }
}

}  // namespace gantrain
