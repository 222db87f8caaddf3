// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "cpu_kernels/winograd.h"

// Parts of WinogradKernels in files of their own.
namespace gantrain::GANTRAIN_ISA {

// m[tile][32] = sum over channels of v[panel][tile][32] u[channel][32], for one point. v's panels
// lie `panel_stride` floats apart. `next_v` and `next_u` are the distances to what the next call
// reads, which comes into the caches meanwhile; there may be nothing.
void product_of_tiles(const float* v,
                      int64_t panel_stride,
                      int64_t next_v,
                      int64_t panels,
                      int64_t tiles,
                      const float* u,
                      int64_t next_u,
                      float* m);

// du[row][32] += sum over tiles of m[tile][row] v[tile][32], for one point and 32 rows. The next
// call's rows lie `next_m` floats behind these, and its du behind this one.
void product_over_tiles(const float* m, int64_t next_m, const float* v, int64_t tiles, float* du);

// See WinogradKernels.
void transform_kernel(const KernelView& w,
                      const TapChoice& choice,
                      TapCounts taps,
                      int64_t panel_of_rows,
                      int64_t panel,
                      int64_t first_row,
                      int64_t all_rows,
                      float* u);
void kernel_gradient(const float* du,
                     const TapChoice& choice,
                     TapCounts taps,
                     int64_t panel_of_rows,
                     int64_t panel,
                     int64_t all_rows,
                     const KernelView& w);

}  // namespace gantrain::GANTRAIN_ISA
