// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/torch.h"
#include "ops/adam/adam.h"

using namespace gantrain;

namespace {

// How often each number was visited, with so many threads.
std::vector<at::Tensor> visits(const std::vector<at::Tensor>& tensors, int threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  std::vector<at::Tensor> counts;
  for (const at::Tensor& t : tensors) counts.push_back(torch::zeros({t.numel()}, at::kInt));
  FlatPieces(tensors).for_each([&](const FlatPiece& piece) {
    int* count = counts[piece.tensor].mutable_data_ptr<int>() + piece.offset;
    for (int64_t i = 0; i < piece.count; ++i) ++count[i];
  });
  at::set_num_threads(before);
  return counts;
}

}  // namespace

TEST_CASE("EveryNumberIsInOnePiece") {
  const std::vector<at::Tensor> tensors = {torch::zeros({3}),
                                           torch::zeros({0}),
                                           torch::zeros({1 << 17}),
                                           torch::zeros({}),
                                           torch::zeros({257, 129}),
                                           torch::zeros({0, 4})};
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    for (const at::Tensor& count : visits(tensors, threads)) CHECK(count.eq(1).all().item<bool>());
  }
  CHECK(FlatPieces({}).size() == 0);
  FlatPieces({}).for_each([](const FlatPiece&) { FAIL(); });
}

TEST_CASE("OnlyFloat32WithoutGapsIsFlat") {
  const at::Tensor plain = torch::zeros({2, 3, 4, 5});
  CHECK(are_flat({plain, plain.transpose(0, 1)}));
  CHECK_FALSE(are_flat({plain, plain.to(at::kDouble)}));
  CHECK_FALSE(are_flat({plain.slice(3, 0, 4)}));
  CHECK_FALSE(are_flat({torch::zeros({1}).expand({4})}));
}

TEST_CASE("LayoutsAreEqualWhereNumbersLieInTheSameOrder") {
  const at::Tensor plain = torch::zeros({2, 3, 4, 5});
  const at::Tensor last = plain.contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(have_equal_layout({plain, last}, {plain.clone(), last.clone()}));
  CHECK_FALSE(have_equal_layout({plain}, {last}));
  CHECK_FALSE(have_equal_layout({plain}, {plain.reshape({6, 20})}));
  CHECK_FALSE(have_equal_layout({plain}, {}));
  // Strides of dimensions of size one mean nothing.
  CHECK(have_equal_layout({torch::zeros({8, 1, 1, 1})},
                          {torch::empty_strided({8, 1, 1, 1}, {1, 8, 8, 8})}));
}
