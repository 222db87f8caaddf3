// SPDX-License-Identifier: Apache-2.0
#include "ops/draws/draws.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/device.h"
#include "core/parallel.h"
#include "core/philox.h"
#include "core/random.h"
#include "core/torch.h"
#include "ops/device_kernels.h"
#include "util/hash.h"

namespace gantrain {

namespace {

// Draws for any device out of LibTorch's operators: the arithmetic of core/philox.h on int64
// tensors that hold the bits of unsigned numbers. Sums and products wrap around with LibTorch's own
// operators; the functions here are those that differ from their signed namesakes. Nothing is read
// by the host or copied to it.

constexpr int64_t kLow32 = 0xFFFFFFFF;

int64_t as_signed(uint64_t bits) { return static_cast<int64_t>(bits); }

Tensor low32(const Tensor& x) { return x.bitwise_and(kLow32); }

Tensor shifted_left(const Tensor& x, int64_t bits) { return x.bitwise_left_shift(bits); }

// The highest bits become zero.
Tensor shifted_right(const Tensor& x, int64_t bits) {
  return x.bitwise_right_shift(bits).bitwise_and((int64_t{1} << (64 - bits)) - 1);
}

// The upper 64 bits of the 128-bit product.
Tensor multiply_high(const Tensor& a, const Tensor& b) {
  const Tensor a0 = low32(a), a1 = shifted_right(a, 32);
  const Tensor b0 = low32(b), b1 = shifted_right(b, 32);
  const Tensor middle = a1 * b0 + shifted_right(a0 * b0, 32);
  const Tensor other = a0 * b1 + low32(middle);
  return a1 * b1 + shifted_right(middle, 32) + shifted_right(other, 32);
}

Tensor folded(const Tensor& a, const Tensor& b) { return (a * b).bitwise_xor(multiply_high(a, b)); }

// stream_key() of numbers that the device holds; int64 [].
Tensor key_of(const DrawNumbers& how) {
  const Tensor seed = how.key.select(0, 0);
  const Tensor iteration = how.key.select(0, 1);
  const Tensor phase = at::full({}, how.phase, how.key.options());
  const auto secret = [&](size_t i, uint64_t purpose) {
    return as_signed(kXxhSecret[i] + purpose);
  };
  Tensor h = folded(seed.bitwise_xor(secret(0, how.purpose)),
                    iteration.bitwise_xor(secret(1, 0 - how.purpose)));
  h = h + folded(iteration.bitwise_xor(secret(2, how.purpose)),
                 phase.bitwise_xor(secret(3, 0 - how.purpose)));
  h = h + as_signed(kStreamKeyBytes * kXxhLengthPrime);
  h = h.bitwise_xor(shifted_right(h, 37)) * as_signed(kXxhAvalanchePrime);
  return h.bitwise_xor(shifted_right(h, 32));
}

using Words = std::array<Tensor, 4>;

// philox_rounds() of broadcasting counters.
Words rounds(Words counter, const Tensor& key) {
  Tensor k0 = low32(key), k1 = shifted_right(key, 32);
  for (int round = 0; round < 10; ++round) {
    const Tensor p0 = counter[0] * int64_t{0xD2511F53};
    const Tensor p1 = counter[2] * int64_t{0xCD9E8D57};
    counter = {shifted_right(p1, 32).bitwise_xor(counter[1]).bitwise_xor(k0),
               low32(p1),
               shifted_right(p0, 32).bitwise_xor(counter[3]).bitwise_xor(k1),
               low32(p0)};
    k0 = low32(k0 + int64_t{0x9E3779B9});
    k1 = low32(k1 + int64_t{0xBB67AE85});
  }
  return counter;
}

// Bits of each sample's blocks: four words of int64 [samples.count, blocks].
Words bits_of(const DrawNumbers& how) {
  const auto options = how.key.options();
  const Samples& s = how.samples;
  const Tensor block = at::arange((how.each + 3) / 4, options).unsqueeze(0);
  const Tensor sample = (at::arange(s.count, options) * s.stride + s.first).unsqueeze(1);
  const Tensor none = at::zeros({1, 1}, options);
  return rounds({block, none, low32(sample), shifted_right(sample, 32)}, key_of(how));
}

// A sample's blocks one after the other, as many numbers as are wanted.
Tensor in_order(const Words& words, int64_t each) {
  return at::stack(words, 2).flatten(1).narrow(1, 0, each);
}

// unit() of bits, in double.
Tensor unit_of(const Tensor& bits) { return bits.to(at::kDouble) * 0x1p-32; }

// Box & Muller 1958, as normal_pair() has it: float32.
std::array<Tensor, 2> normal_pairs(const Tensor& first, const Tensor& second) {
  const Tensor radius = (-2 * (1 - unit_of(first)).log()).sqrt();
  const Tensor angle = unit_of(second) * (2 * M_PI);
  return {(radius * angle.cos()).to(at::kFloat), (radius * angle.sin()).to(at::kFloat)};
}

}  // namespace

Tensor composed_draw(const DrawNumbers& how) {
  const bool whole = how.distribution == Distribution::kBits;
  if (how.samples.count == 0 || how.each == 0)
    return at::empty({how.samples.count, how.each},
                     how.key.options().dtype(whole ? at::kLong : at::kFloat));
  const Words words = bits_of(how);
  if (whole) return in_order(words, how.each);
  if (how.distribution == Distribution::kUniform)
    return shifted_right(in_order(words, how.each), 8).to(at::kFloat) * 0x1p-24;
  const auto [a, b] = normal_pairs(words[0], words[1]);
  const auto [c, d] = normal_pairs(words[2], words[3]);
  return in_order({a, b, c, d}, how.each);
}

namespace {

void fill_bits(int64_t* out, int64_t count, const PhiloxBlock& block) {
  for (int64_t j = 0; j < count && j < 4; ++j) out[j] = block[static_cast<size_t>(j)];
}

// Calls fill(at, room, block) for each block of each sample; `at` is where the block's first number
// goes, in an output of samples.count x how.each. Each block is a function of its place, so neither
// the number of threads nor their order changes a bit.
template <class Fill>
void each_block(const DrawNumbers& how, Fill&& fill) {
  constexpr int64_t kGrain = 512;  // blocks that a thread is worth: about 50 us of normals
  const auto* numbers = how.key.const_data_ptr<int64_t>();
  const uint64_t key = stream_key(how.purpose,
                                  static_cast<uint64_t>(numbers[0]),
                                  static_cast<uint64_t>(numbers[1]),
                                  static_cast<uint64_t>(how.phase));
  const int64_t blocks = (how.each + 3) / 4;
  parallel_for(0, how.samples.count * blocks, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end;) {
      const int64_t row = i / blocks;
      const auto sample = static_cast<uint64_t>(how.samples.first + row * how.samples.stride);
      for (const int64_t stop = std::min(end, (row + 1) * blocks); i < stop; ++i) {
        const int64_t block = i - row * blocks;
        fill(row * how.each + 4 * block,
             how.each - 4 * block,
             philox_block(key, sample, static_cast<uint32_t>(block)));
      }
    }
  });
}

}  // namespace

Tensor cpu_draw(const DrawNumbers& how) {
  const bool whole = how.distribution == Distribution::kBits;
  Tensor out = at::empty({how.samples.count, how.each}, whole ? at::kLong : at::kFloat);
  if (whole) {
    auto* data = out.mutable_data_ptr<int64_t>();
    each_block(how, [&](int64_t at, int64_t room, const PhiloxBlock& block) {
      fill_bits(data + at, room, block);
    });
    return out;
  }
  auto* data = out.mutable_data_ptr<float>();
  const bool normal = how.distribution == Distribution::kNormal;
  each_block(how, [&](int64_t at, int64_t room, const PhiloxBlock& block) {
    if (normal)
      fill_normal(data + at, room, block);
    else
      fill_uniform(data + at, room, block);
  });
  return out;
}

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

Tensor drawn_pictures(const DrawKey& key,
                      std::string_view purpose,
                      const Samples& samples,
                      int64_t total) {
  return below(key, purpose, samples, total);
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
