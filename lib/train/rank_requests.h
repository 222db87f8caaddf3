// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <optional>

namespace gantrain {

// What a rank asks of all ranks. Any rank may ask; all obey at the end of the same iteration.
struct RankRequests {
  bool stop = false;
  bool save = false;
};

// Brings requests from every rank to all of them, inside the all-reduce that ends an iteration.
// Where reads are free all ranks hear them in the same iteration. Elsewhere the answer is copied
// aside while the device works on, and read about a second later: all ranks take the next look at
// the same iteration, which follows from rank 0's seconds an iteration, part of the sum too.
class RequestExchange {
 public:
  static constexpr int64_t kNumbers = 3;

  RequestExchange(const at::TensorOptions& like, int64_t rank);

  // What this rank gives to the sum, [kNumbers] of the type and on the device of `like`.
  at::Tensor packed(const RankRequests& mine);
  // `sum` [kNumbers] over all ranks, at the end of that iteration: what any of them asked for.
  RankRequests heard(const at::Tensor& sum, int64_t iteration);

 private:
  RankRequests read(const at::Tensor& on_host);

  at::TensorOptions like_;
  int64_t rank_;
  double last_;         // monotonic seconds at the last packed()
  double seconds_ = 0;  // an iteration took then, here
  int64_t due_ = 0;     // iteration of the next look
  int64_t every_ = 16;  // iterations between two looks, by the last one
  at::Tensor aside_;    // the last look's copy on the host; undefined: there is none
  std::optional<c10::Event> copied_;
};

}  // namespace gantrain
