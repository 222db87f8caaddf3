// SPDX-License-Identifier: Apache-2.0
#include "metrics/path_length.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/tensors.h"
#include "core/torch.h"
#include "gan/generator.h"
#include "metrics/detector.h"

namespace gantrain {

namespace {

constexpr int64_t kPathsAtOnce = 8;
constexpr int64_t kLargest = 256;  // pixels a side that pictures are compared at

// The two ends of a short piece of each path.
struct Ends {
  at::Tensor at_0;
  at::Tensor at_epsilon;
};

// Great circles (Shoemake 1985) between the directions of two sets of z; ends have length 1.
Ends on_great_circles(const at::Tensor& from, const at::Tensor& to, double t) {
  const at::Tensor a = from / from.norm(2, 1, true), b = to / to.norm(2, 1, true);
  const at::Tensor cosine = (a * b).sum(1, true);
  const at::Tensor angle = t * cosine.clamp(-1, 1).acos();
  const at::Tensor c = b - cosine * a;
  const at::Tensor moved = a * angle.cos() + c / c.norm(2, 1, true) * angle.sin();
  return {a, moved / moved.norm(2, 1, true)};
}

// -1..1 -> 0..255 in at most 256 pixels a side.
at::Tensor shown(const at::Tensor& images) {
  const at::Tensor x = to_rgb((images.detach().to(at::kFloat) + 1) * 127.5);
  const int64_t factor = std::min(x.size(2), x.size(3)) / kLargest;
  return factor > 1 ? at::avg_pool2d(x, {factor, factor}) : x;
}

Ends pictures_of(Generator& generator,
                 const at::Tensor& z,
                 const at::Tensor& labels,
                 SynthesisOptions how,
                 double epsilon) {
  const int64_t count = z.size(0) / 2;
  const at::Tensor from = z.narrow(0, 0, count), to = z.narrow(0, count, count);
  if (how.noise == NoiseMode::kConst) how.noise = NoiseMode::kRandom;  // other noise at each call
  if (generator.num_ws() == 0) {
    // A network that was trained on N(0, I) sees vectors of length sqrt(z_dim).
    const double length = std::sqrt(static_cast<double>(z.size(1)));
    const Ends ends = on_great_circles(from, to, epsilon);
    return {generator.images(ends.at_0 * length, labels, how),
            generator.images(ends.at_epsilon * length, labels, how)};
  }
  const at::Tensor w0 = generator.map(from, labels, how), w1 = generator.map(to, labels, how);
  return {generator.synthesize(w0, how), generator.synthesize(w0.lerp(w1, epsilon), how)};
}

}  // namespace

double mean_within_percentiles(std::vector<double> values) {
  TORCH_CHECK(!values.empty(), "mean_within_percentiles: no values");
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  const double low = values[static_cast<size_t>(std::floor(0.01 * last))];
  const double high = values[static_cast<size_t>(std::ceil(0.99 * last))];
  const auto from = std::lower_bound(values.begin(), values.end(), low);
  const auto to = std::upper_bound(values.begin(), values.end(), high);
  return std::accumulate(from, to, 0.0) / static_cast<double>(to - from);
}

double perceptual_path_length(GeneratedPictures& pictures,
                              Detector& detector,
                              const PathLengthOptions& options,
                              const SharedWork& work) {
  const at::NoGradGuard no_grad;
  Generator& generator = pictures.generator();
  const Stream stream(options.seed, "ppl");
  const Pieces pieces = {"paths for ppl", options.samples, kPathsAtOnce};
  const at::Tensor zeros = at::zeros({options.samples}, at::kDouble);
  const at::Tensor lengths = share_rows(work, pieces, zeros, [&](const Piece& piece) {
    const at::Tensor z = normal(stream, {2 * piece.first, 1, 2 * piece.count}, {generator.z_dim()});
    const std::vector<int64_t> own = pictures.labels(piece.numbers());
    const at::Tensor labels = own.empty() ? at::Tensor() : at::tensor(own, at::kLong);
    SynthesisOptions how = pictures.options().synthesis;
    how.noise_seed = options.seed + static_cast<uint64_t>(piece.first);
    const Ends ends = pictures_of(generator, z, labels, how, options.epsilon);
    const at::Tensor difference =
        detector.lpips(shown(ends.at_0)) - detector.lpips(shown(ends.at_epsilon));
    return difference.to(at::kDouble).square().sum(1) / (options.epsilon * options.epsilon);
  });
  const double* values = lengths.const_data_ptr<double>();
  return mean_within_percentiles({values, values + lengths.numel()});
}

}  // namespace gantrain
