// SPDX-License-Identifier: Apache-2.0
#include "explore/memorisation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "core/tensors.h"
#include "core/torch.h"
#include "data/containers/source.h"
#include "data/load/loader.h"
#include "data/load/threads.h"
#include "draw/draw.h"
#include "draw/painter.h"
#include "metrics/features.h"
#include "metrics/pictures.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/wording.h"

namespace gantrain {

namespace {

constexpr int64_t kLargestCompared = 256;    // pixels a side
constexpr int64_t kLargestForFeatures = 64;  // pixels a side
constexpr std::array<int64_t, 3> kWidths = {32, 64, 128};
constexpr int64_t kPlaces = 4;  // a side of the grid
constexpr double kSlope = 0.2;  // of leaky ReLU

int64_t longer_side(const Tensor& pictures) { return std::max(pictures.size(2), pictures.size(3)); }

constexpr int64_t kMostUnasked = 1024;  // pictures, where no class was asked for
constexpr int64_t kMostFakes = 10'000;
constexpr int64_t kMostBytes = int64_t{2} << 30;  // of the vectors of all fakes

// Throws UserError where there are more pictures like `one` [C, H, W] than can be compared at a
// time. `what`: where they come from.
void check_number(Exit code, const std::string& what, int64_t count, const Tensor& one) {
  const auto bytes = static_cast<int64_t>(pixel_vectors(one.unsqueeze(0)).nbytes());
  const int64_t most = std::clamp<int64_t>(kMostBytes / bytes, 1, kMostFakes);
  if (count <= most) return;
  fail(code,
       "{}: {}, at most {} of {}x{} pixels are compared at a time",
       what,
       counted(count, "fake"),
       most,
       one.size(2),
       one.size(1));
}

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
Tensor vectors_in_groups(const PictureVectors& vectors, const Tensor& pictures) {
  Tensor all;
  for (int64_t first = 0; first < pictures.size(0); first += kGroup) {
    const int64_t count = std::min(kGroup, pictures.size(0) - first);
    const Tensor some = vectors(pictures.narrow(0, first, count));
    if (!all.defined()) all = torch::empty({pictures.size(0), some.size(1)}, some.options());
    all.narrow(0, first, count).copy_(some);
  }
  return all;
}

// Fakes, and a sample of the reals, beside all reals in one kind of vectors.
class Comparison {
 public:
  Comparison(const PictureVectors& vectors,
             const Tensor& fakes,
             const Tensor& sample,
             const std::vector<int64_t>& sampled,
             int64_t count)
      : vectors_(vectors),
        fakes_(vectors_in_groups(vectors, fakes), count),
        reals_(vectors_in_groups(vectors, sample), 1, sampled) {}

  void add(const Tensor& pictures, int64_t first, bool mirrored) {
    const Tensor vectors = vectors_in_groups(vectors_, pictures);
    fakes_.add(vectors, first, mirrored);
    if (!mirrored) reals_.add(vectors, first, mirrored);
  }
  const std::vector<std::vector<Neighbour>>& nearest() const { return fakes_.nearest(); }
  double usual() const { return median_of_nearest(reals_); }

 private:
  const PictureVectors& vectors_;
  NearestKeeper fakes_, reals_;
};

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

Tensor pixel_vectors(const Tensor& pictures) {
  const int64_t block = (longer_side(pictures) + kLargestCompared - 1) / kLargestCompared;
  Tensor values = pictures.to(at::kFloat);
  // Sums of whole numbers, which are exact, so that equal pictures have distance 0.
  if (block > 1) {
    values = at::avg_pool2d(values,
                            block,
                            /*stride=*/block,
                            /*padding=*/0,
                            /*ceil_mode=*/true,
                            /*count_include_pad=*/true,
                            /*divisor_override=*/1);
  }
  values = values.flatten(1);
  const double largest = 255.0 * static_cast<double>(block * block);
  return values.to(at::kDouble) / (largest * std::sqrt(static_cast<double>(values.size(1))));
}

RandomFeatures::RandomFeatures(int64_t channels) {
  int64_t in = channels;
  for (const int64_t out : kWidths) {
    const Tensor shape = torch::empty({out, in, 3, 3});
    const double gain = std::sqrt(2.0 / static_cast<double>(in * 9));
    weights_.push_back(normal_like(shape, 0, fmt::format("random features {}", out)) * gain);
    in = out;
  }
}

Tensor RandomFeatures::operator()(const Tensor& pictures) const {
  const torch::NoGradGuard no_grad;
  Tensor x = pictures.to(at::kFloat) / 127.5 - 1;
  if (longer_side(x) > kLargestForFeatures) {
    const double scale =
        static_cast<double>(kLargestForFeatures) / static_cast<double>(longer_side(x));
    const auto scaled = [&](int64_t side) {
      return std::max<int64_t>(std::llround(scale * static_cast<double>(side)), kPlaces);
    };
    x = torch::adaptive_avg_pool2d(x, {scaled(x.size(2)), scaled(x.size(3))});
  }
  std::vector<Tensor> features;
  for (const Tensor& weight : weights_) {
    if (!features.empty() && std::min(x.size(2), x.size(3)) > 1) x = torch::avg_pool2d(x, 2);
    x = torch::leaky_relu(torch::conv2d(x, weight, {}, 1, 1), kSlope);
    features.push_back(torch::adaptive_avg_pool2d(x, {kPlaces, kPlaces}).flatten(1));
  }
  const Tensor all = torch::cat(features, 1);
  return all / std::sqrt(static_cast<double>(all.size(1)));
}

Tensor load_pictures(const Dataset& dataset, const std::vector<int64_t>& numbers) {
  std::vector<WantedPicture> wanted;
  for (const int64_t number : numbers) wanted.push_back({number});
  return load_planes(dataset, wanted);
}

Tensor load_pictures(const Dataset& dataset, int64_t first, int64_t count) {
  return load_pictures(dataset, Piece{first, count}.numbers());
}

std::string picture_name(const Dataset& dataset, int64_t index) {
  const std::optional<PictureFile> file = dataset.picture_file(index);
  return file ? file->source->name(file->file) : fmt::format("picture {}", index);
}

Fakes draw_fakes(Generator& generator,
                 const ModelRequest& how,
                 const std::vector<int64_t>& seeds,
                 const ClassTable& table) {
  Painter painter(generator, how);
  const ClassChoice choice = choose_classes(generator, how, table);
  painter.use(choice.vectors);
  const LabelledRows rows(static_cast<int64_t>(seeds.size()), choice, kMostUnasked);
  Fakes fakes;
  std::vector<Tensor> pictures;
  Job job(rows.size(), "fakes");
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto [row, label] = rows[i];
    const int64_t seed = seeds[static_cast<size_t>(row)];
    const Tensor z = latents_of_seeds({seed}, generator.z_dim())[0];
    pictures.push_back(to_bytes(painter.picture(z, static_cast<uint64_t>(seed), label)));
    if (pictures.size() == 1) check_number(Exit::kUsage, "--seeds", rows.size(), pictures.front());
    fakes.names.push_back(fmt::format("seed{:04}{}", seed, class_suffix(label, choice)));
    job.step();
  }
  fakes.pictures = torch::stack(pictures);
  return fakes;
}

Fakes load_fakes(const Dataset& pictures) {
  const Tensor first = load_pictures(pictures, 0, 1)[0];
  check_number(Exit::kInput, pictures.description(), pictures.size(), first);
  Fakes fakes;
  for (int64_t i = 0; i < pictures.size(); ++i) fakes.names.push_back(picture_name(pictures, i));
  fakes.pictures = load_pictures(pictures, 0, pictures.size());
  return fakes;
}

NearestKeeper::NearestKeeper(const Tensor& queries, int64_t count, std::vector<int64_t> own)
    : queries_(queries),
      count_(count),
      own_(std::move(own)),
      nearest_(static_cast<size_t>(queries.size(0))) {}

void NearestKeeper::add(const Tensor& candidates, int64_t first, bool mirrored) {
  const Tensor distances = squared_distances(queries_, candidates);
  // One more than are kept: a query's own picture may be among them.
  const int64_t looked_at = std::min(count_ + 1, candidates.size(0));
  const auto [least, which] = distances.topk(looked_at, 1, /*largest=*/false);
  const auto squared = least.accessor<double, 2>();
  const auto index = which.accessor<int64_t, 2>();
  for (int64_t q = 0; q < queries_.size(0); ++q) {
    for (int64_t i = 0; i < looked_at; ++i)
      meet(static_cast<size_t>(q), {first + index[q][i], mirrored, std::sqrt(squared[q][i])});
  }
}

void NearestKeeper::meet(size_t query, const Neighbour& candidate) {
  if (query < own_.size() && own_[query] == candidate.picture) return;
  std::vector<Neighbour>& list = nearest_[query];
  const auto rank = [](const Neighbour& n) { return std::tie(n.distance, n.picture, n.mirrored); };
  const auto known = std::find_if(
      list.begin(), list.end(), [&](const Neighbour& n) { return n.picture == candidate.picture; });
  if (known != list.end()) {
    if (rank(candidate) >= rank(*known)) return;
    list.erase(known);
  }
  const auto place = std::find_if(
      list.begin(), list.end(), [&](const Neighbour& n) { return rank(candidate) < rank(n); });
  list.insert(place, candidate);
  if (static_cast<int64_t>(list.size()) > count_) list.pop_back();
}

Memorisation find_nearest(const Fakes& fakes,
                          const Dataset& reals,
                          const MemorisationOptions& options) {
  const torch::NoGradGuard no_grad;
  const std::vector<int64_t> sampled = evenly_spaced(reals.size(), kSample);
  const Tensor sample = load_pictures(reals, sampled);
  const PictureVectors pixels = pixel_vectors;
  Comparison by_pixels(pixels, fakes.pictures, sample, sampled, options.count);
  Comparison by_features(options.features, fakes.pictures, sample, sampled, options.count);
  const int64_t bytes = sample[0].numel() * static_cast<int64_t>(sizeof(double));
  const int64_t batch = std::clamp<int64_t>(kBatchBytes / bytes, 1, kMostBatch);
  for (int64_t first = 0; first < reals.size(); first += batch) {
    const Tensor pictures = load_pictures(reals, first, std::min(batch, reals.size() - first));
    for (const bool mirrored : {false, true}) {
      if (mirrored && !options.mirror) continue;
      const Tensor shown = mirrored ? pictures.flip(3) : pictures;
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

namespace {

// The pictures of a sheet with their captions.
struct Sheet {
  std::vector<Tensor> pictures;
  std::vector<std::string> captions;

  void add(const char* by, const std::vector<Neighbour>& list, const Dataset& reals) {
    for (const Neighbour& neighbour : list) {
      const Tensor real = load_pictures(reals, neighbour.picture, 1)[0];
      pictures.push_back(neighbour.mirrored ? real.flip(2) : real);
      captions.push_back(fmt::format("{} {:.2g}", by, neighbour.distance));
    }
  }
};

}  // namespace

Image pair_sheet(const Memorisation& found,
                 const Fakes& fakes,
                 const Dataset& reals,
                 const std::vector<int64_t>& shown) {
  Sheet sheet;
  std::vector<size_t> order = by_distance(found);
  order.resize(std::min(order.size(), kMostLines));
  for (const size_t fake : order) {
    sheet.pictures.push_back(fakes.pictures[static_cast<int64_t>(fake)]);
    sheet.captions.push_back(fakes.names[fake]);
    sheet.add("pixels", found.by_pixels[fake], reals);
    sheet.add("features", found.by_features[fake], reals);
  }
  return captioned_tile(shown_channels(torch::stack(sheet.pictures), shown),
                        sheet.captions,
                        static_cast<int64_t>(sheet.pictures.size() / order.size()));
}

}  // namespace gantrain
