// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/tensors.h"
#include "core/torch.h"
#include "explore/memorisation.h"

namespace gantrain {
namespace {

at::Tensor points(int64_t count, const std::string& purpose) {
  return normal_like(torch::empty({count, 5}), 1, purpose).to(at::kDouble);
}

}  // namespace

TEST_CASE("NearestAreThoseOfAnExhaustiveSearchInAnyBatches") {
  const at::Tensor queries = points(4, "queries"), all = points(37, "all");
  const at::Tensor distances = torch::cdist(queries, all);
  const int64_t batch = GENERATE(1, 5, 37);
  NearestKeeper keeper(queries, 3);
  for (int64_t first = 0; first < 37; first += batch)
    keeper.add(all.narrow(0, first, std::min<int64_t>(batch, 37 - first)), first, false);
  for (int64_t q = 0; q < 4; ++q) {
    const at::Tensor order = distances[q].argsort();
    const std::vector<Neighbour>& found = keeper.nearest()[static_cast<size_t>(q)];
    REQUIRE(found.size() == 3);
    for (int64_t i = 0; i < 3; ++i) {
      const Neighbour& neighbour = found[static_cast<size_t>(i)];
      CHECK(neighbour.picture == order[i].item<int64_t>());
      CHECK(neighbour.distance == Approx(distances[q][neighbour.picture].item<double>()));
    }
  }
}

TEST_CASE("APictureCountsOnceOnItsNearerSide") {
  const at::Tensor query = torch::zeros({1, 2}, at::kDouble);
  const at::Tensor plain = torch::tensor({{3.0, 0.0}, {1.0, 0.0}}, at::kDouble);
  const at::Tensor mirrored = torch::tensor({{0.5, 0.0}, {2.0, 0.0}}, at::kDouble);
  NearestKeeper keeper(query, 2);
  keeper.add(plain, 0, false);
  keeper.add(mirrored, 0, true);
  const std::vector<Neighbour>& found = keeper.nearest().front();
  REQUIRE(found.size() == 2);
  CHECK((found[0].picture == 0 && found[0].mirrored && found[0].distance == Approx(0.5)));
  CHECK((found[1].picture == 1 && !found[1].mirrored && found[1].distance == Approx(1)));
}

TEST_CASE("APictureIsNotItsOwnNeighbour") {
  const at::Tensor all = points(6, "all");
  NearestKeeper keeper(all.narrow(0, 2, 2), 1, {2, 3});
  keeper.add(all, 0, false);
  CHECK(keeper.nearest()[0].front().picture != 2);
  CHECK(keeper.nearest()[1].front().picture != 3);
  CHECK(keeper.nearest()[0].front().distance > 0);
}

TEST_CASE("FewerPicturesThanAskedForAreAllNeighbours") {
  NearestKeeper keeper(points(1, "query"), 5);
  keeper.add(points(2, "all"), 0, false);
  CHECK(keeper.nearest().front().size() == 2);
}

}  // namespace gantrain
