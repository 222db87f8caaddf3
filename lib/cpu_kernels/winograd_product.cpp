// SPDX-License-Identifier: Apache-2.0
// The matrix products of the Winograd convolution, with all sums of a block in registers.
#include "cpu_kernels/vector.h"
#include "cpu_kernels/winograd_kernels.h"

namespace gantrain::GANTRAIN_ISA {

namespace {

// Sums of kRows rows times kColumns vectors stay in registers: 16 of AVX-512's 32, 8 of the 16 that
// older instruction sets have.
constexpr int64_t kRows = kLanes == 16 ? 8 : 4;
constexpr int64_t kColumns = 2;
constexpr int64_t kWidth = kColumns * kLanes;

constexpr int64_t kLine = 16;  // floats that come into a cache together

constexpr int kSecondCache = 2;

// What the next products read: block() asks for it a line at a time, because the outer caches' way
// is long and their streams here are too short for a processor to foresee.
struct Ahead {
  const float *left, *right;        // what follows a and b
  int64_t left_panel, right_panel;  // floats from a panel to the next
  int64_t right_lines;              // lines of each panel of `right`, at most `length`
};

// out[row][column] (+)= sum over k of a[row * RowStride + k * KStride] b[k * 32 + column], for
// `panels` times `length` values of k; a's panels lie `panel_stride` apart, b's follow each other.
template <int64_t Rows, int64_t RowStride, int64_t KStride, bool Add>
inline void block(const float* a,
                  int64_t panel_stride,
                  int64_t panels,
                  int64_t length,
                  const float* b,
                  float* out,
                  const Ahead& ahead) {
  Vec sum[Rows][kColumns];
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c)
      sum[r][c] = Add ? load(out + r * kPanel + c * kLanes) : Vec{};
  }
  for (int64_t panel = 0; panel < panels; ++panel) {
    const float* from = a + panel * panel_stride;
    const float* left_ahead = ahead.left + panel * ahead.left_panel;
    const float* right_ahead = ahead.right + panel * ahead.right_panel;
    for (int64_t k = 0; k < length; ++k) {
      if (k % 2 == 0) __builtin_prefetch(left_ahead + k / 2 * kLine, 0, kSecondCache);
      if (k < ahead.right_lines) __builtin_prefetch(right_ahead + k * kLine, 0, kSecondCache);
      Vec right[kColumns];
      for (int64_t c = 0; c < kColumns; ++c) right[c] = load(b + c * kLanes);
      for (int64_t r = 0; r < Rows; ++r) {
        const Vec left = all(from[r * RowStride]);
        for (int64_t c = 0; c < kColumns; ++c) sum[r][c] += left * right[c];
      }
      from += KStride;
      b += kPanel;
    }
  }
  for (int64_t r = 0; r < Rows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) store(out + r * kPanel + c * kLanes, sum[r][c]);
  }
}

}  // namespace

void product_of_tiles(const float* v,
                      int64_t panel_stride,
                      int64_t next_v,
                      int64_t panels,
                      int64_t tiles,
                      const float* u,
                      int64_t next_u,
                      float* m) {
  constexpr int64_t kSquare = kPanel * kPanel;
  const int64_t blocks = tiles < kRows ? 1 : tiles / kRows;
  const int64_t share = blocks == 1 ? kPanel : kSquare / kLine / blocks;
  const auto some = [&]<bool Add>(int64_t first, int64_t count) {
    const float *left = v + first * panel_stride, *right = u + first * kSquare;
    for (int64_t c = 0; c < kPanel; c += kWidth) {
      int64_t t = 0;
      const auto rows = [&]<int64_t Rows>() {
        const Ahead ahead{left + t * kPanel + next_v,
                          right + next_u + t / kRows * share * kLine,
                          panel_stride,
                          kSquare,
                          share};
        block<Rows, kPanel, 1, Add>(
            left + t * kPanel, panel_stride, count, kPanel, right + c, m + t * kPanel + c, ahead);
        t += Rows;
      };
      while (t + kRows <= tiles) rows.template operator()<kRows>();
      while (t < tiles) rows.template operator()<1>();
    }
  };
  // As many panels of u at a time as stay in the first cache while all tiles pass by.
  constexpr int64_t kTogether = 4;
  for (int64_t first = 0; first < panels; first += kTogether) {
    const int64_t count = panels - first < kTogether ? panels - first : kTogether;
    if (first == 0) {
      some.template operator()<false>(first, count);
    } else {
      some.template operator()<true>(first, count);
    }
  }
}

void product_over_tiles(const float* m, int64_t next_m, const float* v, int64_t tiles, float* du) {
  for (int64_t c = 0; c < kPanel; c += kWidth) {
    for (int64_t r = 0; r < kPanel; r += kRows) {
      const Ahead ahead{m + next_m + r / kRows * (tiles / 2) * kLine,
                        du + (kPanel + r) * kPanel,
                        0,
                        0,
                        kRows * kPanel / kLine};
      block<kRows, 1, kPanel, true>(m + r, 0, 1, tiles, v + c, du + r * kPanel + c, ahead);
    }
  }
}

}  // namespace gantrain::GANTRAIN_ISA
