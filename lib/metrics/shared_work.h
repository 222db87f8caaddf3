// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "metrics/metric.h"

namespace gantrain {

// Who shares the work of a metric. Members are as in MetricInput.
struct SharedWork {
  Group* group = nullptr;  // null: this process alone
  at::Device device = at::kCPU;
  std::function<void(const MetricProgress&)> between = [](const MetricProgress&) {};

  int64_t rank() const;
  int64_t world() const;
};

// Pictures of one piece of work; one number for all metrics, so that pictures kept for one of them
// serve the others.
inline constexpr int64_t kPicturesAtOnce = 64;

// A range of numbers that is done in pieces of the same size; the last one may be shorter.
struct Pieces {
  std::string doing;  // for MetricProgress
  int64_t items = 0;
  int64_t of_each = 1;  // items of a piece
};
struct Piece {
  int64_t first = 0;  // its first item
  int64_t count = 0;

  std::vector<int64_t> numbers() const;  // first, first + 1, ...
};

// Calls `run` for every piece: piece k on rank k mod world. Collective only in that all ranks call
// between() once in each round of pieces.
void share(const SharedWork& work,
           const Pieces& pieces,
           const std::function<void(const Piece&)>& run);

// Replaces a tensor on the CPU by its sum over all ranks, in blocks that fit any device. Where each
// rank has filled in other rows and left zeros elsewhere, all ranks then have all rows, bit for
// bit.
void sum_over_ranks_(const SharedWork& work, at::Tensor& tensor);

// Returns rank 0's text on all ranks.
std::string text_of_rank_0(const SharedWork& work, const std::string& text);

}  // namespace gantrain
