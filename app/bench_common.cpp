// SPDX-License-Identifier: Apache-2.0
#include "bench_common.h"

#include <torch/torch.h>

#include "local_world.h"
#include "util/sample.h"
#include "util/time.h"

namespace gantrain {

Json in_child(int64_t threads, const std::function<Json(const Rendezvous&)>& measurement) {
  constexpr int64_t kSeconds = 3600;
  const auto answers = run_local_world(1, kSeconds, [&](const Rendezvous& rendezvous) {
    at::set_num_threads(static_cast<int>(threads));
    return measurement(rendezvous).dump();
  });
  return Json::parse(answers.front());
}

double copy_speed() {
  constexpr int64_t kBytes = 64 << 20;
  const at::Tensor from = torch::ones({kBytes / 4}), to = torch::zeros({kBytes / 4});
  std::vector<double> seconds;
  for (int i = 0; i < 12; ++i) {
    const double start = monotonic_seconds();
    to.copy_(from);
    seconds.push_back(monotonic_seconds() - start);
  }
  return 2 * kBytes / median(seconds);
}

}  // namespace gantrain
