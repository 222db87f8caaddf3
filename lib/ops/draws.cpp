// SPDX-License-Identifier: Apache-2.0
#include "ops/draws.h"

#include "core/device_reads.h"
#include "core/random.h"
#include "core/torch.h"
#include "ops/device_kernels.h"
#include "ops/integer_ops.h"
#include "util/hash.h"

namespace gantrain {

using at::Tensor;

namespace {

Tensor drawn(Distribution distribution,
             const DrawKey& key,
             std::string_view purpose,
             const Samples& samples,
             int64_t each) {
  const DeviceKernels& kernels = device_kernels(key.numbers.device().type());
  return kernels.draw({key.numbers, key.phase, hash64(purpose), samples, each, distribution});
}

Tensor drawn(Distribution distribution,
             const DrawKey& key,
             std::string_view purpose,
             const Samples& samples,
             at::IntArrayRef shape) {
  std::vector<int64_t> all = shape.vec();
  all.insert(all.begin(), samples.count);
  const int64_t each = c10::multiply_integers(shape);
  return drawn(distribution, key, purpose, samples, each).view(all);
}

at::TensorOptions whole_numbers(const DrawKey& key) {
  return at::TensorOptions(at::kLong).device(key.numbers.device());
}

// The stream of a key whose numbers the host can read.
Stream stream_of(const DrawKey& key, std::string_view purpose) {
  const auto* numbers = key.numbers.const_data_ptr<int64_t>();
  return Stream(static_cast<uint64_t>(numbers[0]),
                purpose,
                static_cast<uint64_t>(numbers[1]),
                static_cast<uint64_t>(key.phase));
}

// Stream::below(bound, sample, element) out of bits [N, 4 * element + 2 or more]; int64 [N].
Tensor below_of_bits(const Tensor& bits, int64_t bound, int64_t element) {
  const Tensor wide =
      shifted_left(bits.select(1, 4 * element), 32).bitwise_or(bits.select(1, 4 * element + 1));
  return multiply_high(wide, at::full({}, bound, bits.options()));
}

// One whole number in [0, bound) for each sample, int64 [samples.count]: Stream::below of its first
// element.
Tensor below(const DrawKey& key, std::string_view purpose, const Samples& samples, int64_t bound) {
  if (!reads_are_free(key.numbers.device()))
    return below_of_bits(drawn(Distribution::kBits, key, purpose, samples, 2), bound, 0);
  const Stream stream = stream_of(key, purpose);
  Tensor out = at::empty({samples.count}, whole_numbers(key));
  auto* data = out.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < samples.count; ++i) {
    const auto sample = static_cast<uint64_t>(samples.first + i * samples.stride);
    data[i] = static_cast<int64_t>(stream.below(static_cast<uint64_t>(bound), sample));
  }
  return out;
}

}  // namespace

DrawKey make_draw_key(uint64_t seed, int64_t iteration, int64_t phase, at::Device device) {
  DrawKey key{at::empty({2}, at::TensorOptions(at::kLong).device(device)), phase};
  key.numbers.select(0, 0).fill_(static_cast<int64_t>(seed));
  set_iteration_(key, iteration);
  return key;
}

void set_iteration_(const DrawKey& key, int64_t iteration) {
  key.numbers.select(0, 1).fill_(iteration);
}

Tensor normal(const DrawKey& key,
              std::string_view purpose,
              const Samples& samples,
              at::IntArrayRef shape) {
  return drawn(Distribution::kNormal, key, purpose, samples, shape);
}

Tensor uniform(const DrawKey& key,
               std::string_view purpose,
               const Samples& samples,
               at::IntArrayRef shape) {
  return drawn(Distribution::kUniform, key, purpose, samples, shape);
}

Tensor drawn_classes(const DrawKey& key,
                     std::string_view purpose,
                     const Samples& samples,
                     const Tensor& first_above,
                     int64_t total) {
  // Choose a picture of the data, all equally likely. Its class is the first whose running sum is
  // larger than the picture's number.
  const Tensor pictures = below(key, purpose, samples, total);
  return at::searchsorted(first_above, pictures, /*out_int32=*/false, /*right=*/true);
}

Tensor drawn_cutoff(const DrawKey& key,
                    std::string_view purpose,
                    double probability,
                    int64_t layers) {
  const at::TensorOptions options = whole_numbers(key);
  if (layers < 2) return at::full({}, layers, options);
  // Element 0 decides whether styles are mixed, element 1 where.
  if (reads_are_free(key.numbers.device())) {
    const Stream stream = stream_of(key, purpose);
    if (stream.uniform(0, 0) >= probability) return at::full({}, layers, options);
    const uint64_t layer = stream.below(static_cast<uint64_t>(layers - 1), 0, 1);
    return at::full({}, 1 + static_cast<int64_t>(layer), options);
  }
  const Tensor bits = drawn(Distribution::kBits, key, purpose, Samples{0, 1, 1}, int64_t{6});
  const Tensor mixes = bits.select(1, 0).to(at::kDouble) * 0x1p-32 < probability;
  const Tensor cut = 1 + below_of_bits(bits, layers - 1, 1);
  return at::where(mixes, cut, at::full_like(cut, layers)).squeeze(0);
}

}  // namespace gantrain
