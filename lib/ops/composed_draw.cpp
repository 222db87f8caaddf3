// SPDX-License-Identifier: Apache-2.0
// Draws for any device out of LibTorch's operators: the arithmetic of core/philox.h on int64
// tensors that hold the bits of unsigned numbers. Nothing is read by the host or copied to it.
#include <array>
#include <cmath>

#include "core/philox.h"
#include "core/torch.h"
#include "ops/device_kernels.h"
#include "ops/integer_ops.h"

namespace gantrain {

using at::Tensor;

namespace {

constexpr int64_t kLow32 = 0xFFFFFFFF;

int64_t as_signed(uint64_t bits) { return static_cast<int64_t>(bits); }

Tensor low32(const Tensor& x) { return x.bitwise_and(kLow32); }

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

Tensor shifted_left(const Tensor& x, int64_t bits) { return x.bitwise_left_shift(bits); }

Tensor shifted_right(const Tensor& x, int64_t bits) {
  return x.bitwise_right_shift(bits).bitwise_and((int64_t{1} << (64 - bits)) - 1);
}

// multiply_high() of core/philox.h.
Tensor multiply_high(const Tensor& a, const Tensor& b) {
  const Tensor a0 = low32(a), a1 = shifted_right(a, 32);
  const Tensor b0 = low32(b), b1 = shifted_right(b, 32);
  const Tensor middle = a1 * b0 + shifted_right(a0 * b0, 32);
  const Tensor other = a0 * b1 + low32(middle);
  return a1 * b1 + shifted_right(middle, 32) + shifted_right(other, 32);
}

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

}  // namespace gantrain
