// SPDX-License-Identifier: Apache-2.0
#include "bench_common.h"

#include <cstring>
#include <limits>

#include "core/cpu_memory.h"
#include "core/parallel.h"
#include "core/torch.h"
#include "launch/options.h"
#include "local_world.h"
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

void keep_memory(const Config& config) {
  keep_cpu_memory(config.read<LaunchOptions>("launch.").keep_mb);
}

double copy_speed() {
  constexpr int64_t kBytes = 64 << 20;
  const at::Tensor from = torch::ones({kBytes / 4}), to = torch::zeros({kBytes / 4});
  const auto* read = static_cast<const char*>(from.const_data_ptr());
  auto* written = static_cast<char*>(to.mutable_data_ptr());
  const auto by_library = [&] {
    parallel_for(0, kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(written + begin, read + begin, static_cast<size_t>(end - begin));
    });
  };
  const auto by_tensors = [&] { to.copy_(from); };
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 12; ++i) {
    for (const std::function<void()>& copy :
         {std::function<void()>(by_library), std::function<void()>(by_tensors)}) {
      const double start = monotonic_seconds();
      copy();
      least = std::min(least, monotonic_seconds() - start);
    }
  }
  return 2 * kBytes / least;
}

}  // namespace gantrain
