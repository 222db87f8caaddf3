// SPDX-License-Identifier: Apache-2.0
#include "core/philox.h"
#include "ops/draws/draws_gpu.h"

namespace gantrain::cuda_kernels {

namespace {

// Each thread draws the four numbers of one Philox block.
template <Drawn kKind>
struct DrawBody {
  static constexpr int kThreads = 256;
  using Number = std::conditional_t<kKind == Drawn::kBits, int64_t, float>;

  DrawArguments how;
  int64_t blocks_each;  // Philox blocks of a sample
  bool aligned;         // whether each % 4 is 0: then four numbers are one or two accesses

  GANTRAIN_BOTH void operator()(const Place& place) const {
    const int64_t i = place.global(kThreads);
    if (i >= how.samples * blocks_each) return;
    const int64_t row = i / blocks_each;
    const int64_t block = i - row * blocks_each;
    const uint64_t key = stream_key(how.purpose,
                                    static_cast<uint64_t>(how.key[0]),
                                    static_cast<uint64_t>(how.key[1]),
                                    how.phase);
    const auto sample = static_cast<uint64_t>(how.first_sample + row * how.sample_stride);
    const PhiloxBlock bits = philox_block(key, sample, static_cast<uint32_t>(block));
    Number drawn[4];
    if constexpr (kKind == Drawn::kNormal) {
      normals(bits, drawn);
    } else {
      for (int j = 0; j < 4; ++j) {
        if constexpr (kKind == Drawn::kUniform)
          drawn[j] = unit_float(bits[static_cast<size_t>(j)]);
        else
          drawn[j] = bits[static_cast<size_t>(j)];
      }
    }
    write(drawn, static_cast<Number*>(how.out) + row * how.each + 4 * block, how.each - 4 * block);
  }

 private:
  GANTRAIN_BOTH void write(const Number* drawn, Number* out, int64_t room) const {
    constexpr int kPack = kPackSize<Number>;
    if (aligned) {
      for (int j = 0; j < 4; j += kPack) {
        Pack<Number> pack;
        for (int k = 0; k < kPack; ++k) pack.numbers[k] = drawn[j + k];
        store_pack(out + j, pack);
      }
    } else {
      for (int j = 0; j < 4 && j < room; ++j) out[j] = drawn[j];
    }
  }
};

template <Drawn kKind>
void launch_draw(const DrawArguments& how, Stream stream) {
  const int64_t blocks_each = blocks_for(how.each, 4);
  const DrawBody<kKind> body{how, blocks_each, how.each % 4 == 0};
  launch(body, blocks_for(how.samples * blocks_each, DrawBody<kKind>::kThreads), stream);
}

}  // namespace

void draw(const DrawArguments& how, Stream stream) {
  switch (how.kind) {
    case Drawn::kNormal:
      return launch_draw<Drawn::kNormal>(how, stream);
    case Drawn::kUniform:
      return launch_draw<Drawn::kUniform>(how, stream);
    case Drawn::kBits:
      return launch_draw<Drawn::kBits>(how, stream);
  }
}

}  // namespace gantrain::cuda_kernels
