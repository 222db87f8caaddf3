// SPDX-License-Identifier: Apache-2.0
#include "explore/memorisation.h"

#include <algorithm>
#include <numeric>

#include "core/torch.h"
#include "data/load_planes.h"
#include "data/scan.h"
#include "report/grid.h"

namespace gantrain {

namespace {

constexpr int64_t kBatchBytes = 64 << 20;  // of float64 vectors
constexpr int64_t kMostBatch = 256;        // pictures
constexpr int64_t kGroup = 32;             // pictures that become vectors at a time
constexpr int64_t kSample = 256;           // reals that are compared with each other
constexpr double kCopy = 0.5;              // of the usual distance
constexpr size_t kMostLines = 64;          // of the sheet

double median_of_nearest(const NearestKeeper& keeper) {
  std::vector<double> distances;
  for (const auto& list : keeper.nearest()) {
    if (!list.empty()) distances.push_back(list.front().distance);
  }
  if (distances.empty()) return 0;
  const auto middle = distances.begin() + static_cast<int64_t>(distances.size() / 2);
  std::nth_element(distances.begin(), middle, distances.end());
  return *middle;
}

// The vectors of all pictures, made in groups: what a network needs does not grow with the
// pictures.
at::Tensor vectors_in_groups(const PictureVectors& vectors, const at::Tensor& pictures) {
  at::Tensor all;
  for (int64_t first = 0; first < pictures.size(0); first += kGroup) {
    const int64_t count = std::min(kGroup, pictures.size(0) - first);
    const at::Tensor some = vectors(pictures.narrow(0, first, count));
    if (!all.defined()) all = torch::empty({pictures.size(0), some.size(1)}, some.options());
    all.narrow(0, first, count).copy_(some);
  }
  return all;
}

// Fakes, and a sample of the reals, beside all reals in one kind of vectors.
class Comparison {
 public:
  Comparison(const PictureVectors& vectors,
             const at::Tensor& fakes,
             const at::Tensor& sample,
             const std::vector<int64_t>& sampled,
             int64_t count)
      : vectors_(vectors),
        fakes_(vectors_in_groups(vectors, fakes), count),
        reals_(vectors_in_groups(vectors, sample), 1, sampled) {}

  void add(const at::Tensor& pictures, int64_t first, bool mirrored) {
    const at::Tensor vectors = vectors_in_groups(vectors_, pictures);
    fakes_.add(vectors, first, mirrored);
    if (!mirrored) reals_.add(vectors, first, mirrored);
  }
  const std::vector<std::vector<Neighbour>>& nearest() const { return fakes_.nearest(); }
  double usual() const { return median_of_nearest(reals_); }

 private:
  const PictureVectors& vectors_;
  NearestKeeper fakes_, reals_;
};

at::Tensor sample_of(const Dataset& reals, const std::vector<int64_t>& numbers) {
  std::vector<WantedPicture> wanted;
  for (const int64_t number : numbers) wanted.push_back({number});
  return load_planes(reals, wanted);
}

// Fakes by the distance of their nearest real.
std::vector<size_t> by_distance(const Memorisation& found) {
  std::vector<size_t> order(found.by_pixels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return found.by_pixels[a].front().distance < found.by_pixels[b].front().distance;
  });
  return order;
}

Json rows_of(const std::vector<Neighbour>& list, const Dataset& reals) {
  Json rows = Json::array();
  for (const Neighbour& neighbour : list) {
    rows.push_back({{"file", picture_name(reals, neighbour.picture)},
                    {"picture", neighbour.picture},
                    {"mirrored", neighbour.mirrored},
                    {"distance", neighbour.distance}});
  }
  return rows;
}

}  // namespace

Memorisation find_nearest(const Fakes& fakes,
                          const Dataset& reals,
                          const MemorisationOptions& options) {
  const torch::NoGradGuard no_grad;
  const std::vector<int64_t> sampled = evenly_spaced(reals.size(), kSample);
  const at::Tensor sample = sample_of(reals, sampled);
  const PictureVectors pixels = pixel_vectors;
  Comparison by_pixels(pixels, fakes.pictures, sample, sampled, options.count);
  Comparison by_features(options.features, fakes.pictures, sample, sampled, options.count);
  const int64_t bytes = sample[0].numel() * static_cast<int64_t>(sizeof(double));
  const int64_t batch = std::clamp<int64_t>(kBatchBytes / bytes, 1, kMostBatch);
  for (int64_t first = 0; first < reals.size(); first += batch) {
    const at::Tensor pictures = load_pictures(reals, first, std::min(batch, reals.size() - first));
    for (const bool mirrored : {false, true}) {
      if (mirrored && !options.mirror) continue;
      const at::Tensor shown = mirrored ? pictures.flip(3) : pictures;
      by_pixels.add(shown, first, mirrored);
      by_features.add(shown, first, mirrored);
    }
    options.progress(first + pictures.size(0));
  }
  return {.by_pixels = by_pixels.nearest(),
          .by_features = by_features.nearest(),
          .usual_pixels = by_pixels.usual(),
          .usual_features = by_features.usual()};
}

std::vector<size_t> likely_copies(const Memorisation& found) {
  std::vector<size_t> copies;
  for (const size_t fake : by_distance(found)) {
    const double nearest = found.by_pixels[fake].front().distance;
    if (nearest == 0 || nearest < kCopy * found.usual_pixels) copies.push_back(fake);
  }
  return copies;
}

Json to_json(const Memorisation& found, const Fakes& fakes, const Dataset& reals) {
  Json rows = Json::array();
  for (size_t i = 0; i < fakes.names.size(); ++i) {
    rows.push_back({{"name", fakes.names[i]},
                    {"pixels", rows_of(found.by_pixels[i], reals)},
                    {"features", rows_of(found.by_features[i], reals)}});
  }
  Json copies = Json::array();
  for (const size_t fake : likely_copies(found)) copies.push_back(fakes.names[fake]);
  return {{"fakes", rows},
          {"usual", {{"pixels", found.usual_pixels}, {"features", found.usual_features}}},
          {"copies", copies},
          {"reals", reals.size()}};
}

Image pair_sheet(const Memorisation& found, const Fakes& fakes, const Dataset& reals) {
  std::vector<at::Tensor> cells;
  std::vector<size_t> order = by_distance(found);
  order.resize(std::min(order.size(), kMostLines));
  const auto add = [&](const std::vector<Neighbour>& list) {
    for (const Neighbour& neighbour : list) {
      const at::Tensor real = load_pictures(reals, neighbour.picture, 1)[0];
      cells.push_back(neighbour.mirrored ? real.flip(2) : real);
    }
  };
  for (const size_t fake : order) {
    cells.push_back(fakes.pictures[static_cast<int64_t>(fake)]);
    add(found.by_pixels[fake]);
    add(found.by_features[fake]);
  }
  return tile(torch::stack(cells), static_cast<int64_t>(cells.size() / order.size()));
}

}  // namespace gantrain
