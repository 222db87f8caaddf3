// SPDX-License-Identifier: Apache-2.0
#include "bench/worlds.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/common.h"
#include "bench/requests.h"
#include "core/cpu_memory.h"
#include "core/device.h"
#include "core/parallel.h"
#include "core/torch.h"
#include "launch/local/supervise.h"
#include "launch/options.h"
#include "ops/device_kernels.h"
#include "ops/gpu/library_info.h"
#include "train/memory/memory_shortage.h"
#include "util/error.h"
#include "util/log.h"
#include "util/sample.h"
#include "util/system.h"

namespace gantrain {

namespace {

class QuietWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { debug("LibTorch: {}", warning.msg()); }
};

// The bytes per second at which this process copies 64 MiB from one place in memory to another with
// LibTorch's threads, at best; read and written bytes count.
double cpu_copy_speed() {
  constexpr int64_t kBytes = 64 << 20;
  const at::Tensor from = torch::ones({kBytes / 4}), to = torch::zeros({kBytes / 4});
  const auto* read = static_cast<const char*>(from.const_data_ptr());
  auto* written = static_cast<char*>(to.mutable_data_ptr());
  const auto by_library = [&] {
    parallel_for(0, kBytes, 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(written + begin, read + begin, static_cast<size_t>(end - begin));
    });
  };
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 12; ++i) {
    least = std::min(least, seconds_of(by_library));
    least = std::min(least, seconds_of([&] { to.copy_(from); }));
  }
  return 2 * kBytes / least;
}

// As CUDA names the first visible GPU; "GPU" if it does not.
std::string name_of_gpu() {
  void* const found = dlsym(RTLD_DEFAULT, kCudaDevices);
  if (found == nullptr) return "GPU";
  const Json all = Json::parse(reinterpret_cast<CudaLibraryText>(found)(), nullptr, false);
  if (!all.is_object() || !all.contains("devices") || all["devices"].empty()) return "GPU";
  return all["devices"][0].value("name", "GPU");
}

// Median seconds of a call, of several rows of calls between two waits.
double seconds_on(c10::Device device, const std::function<void()>& run) {
  constexpr double kRow = 0.02;  // seconds
  constexpr int64_t kRows = 5, kMostCalls = 1000;
  const auto seconds_of_row = [&](int64_t calls) {
    wait_for(device);
    return seconds_of([&] {
      for (int64_t i = 0; i < calls; ++i) run();
      wait_for(device);
    });
  };
  seconds_of_row(2);  // memory and algorithms
  const double once = seconds_of_row(1);
  const auto calls =
      std::clamp(static_cast<int64_t>(std::ceil(kRow / once)), int64_t{1}, kMostCalls);
  std::vector<double> each;
  for (int64_t row = 0; row < kRows; ++row)
    each.push_back(seconds_of_row(calls) / static_cast<double>(calls));
  return median(each);
}

}  // namespace

void quieten_libtorch() {
  static QuietWarnings quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
}

std::vector<std::string> run_local_world(
    int64_t world, int64_t seconds, const std::function<std::string(const Rendezvous&)>& body) {
  return run_local_ranks(world, seconds, [&](const Rendezvous& meeting) {
    quieten_libtorch();
    try {
      return body(meeting);
    } catch (const c10::Error& e) {
      const std::string text = e.what_without_backtrace();
      if (const auto shortage = shortage_in(text))
        throw UserError(Exit::kOutOfMemory, shortage_text(*shortage, {}, host_memory()));
      throw std::runtime_error(text);
    }
  });
}

Json in_child(int64_t threads, const std::function<Json(const Rendezvous&)>& measurement) {
  constexpr int64_t kSeconds = 3600;
  const auto answers = run_local_world(1, kSeconds, [&](const Rendezvous& rendezvous) {
    use_threads(threads);
    return measurement(rendezvous).dump();
  });
  return Json::parse(answers.front());
}

std::vector<Json> in_ranks(int64_t ranks,
                           const std::function<Json(const Rendezvous&)>& body,
                           int64_t threads) {
  constexpr int64_t kSeconds = 1800;
  std::vector<Json> answers;
  for (const std::string& text : run_local_world(ranks, kSeconds, [&](const Rendezvous& meeting) {
         setsid();  // as torchrun's workers have: a busy kernel shares its processors by session
         use_threads(threads);
         return body(meeting).dump();
       })) {
    answers.push_back(Json::parse(text));
  }
  return answers;
}

std::vector<StepTimes> time_ranks(int64_t ranks, const StepBench& bench, int64_t threads) {
  const auto timed = [&](const Rendezvous& meeting) {
    keep_memory(bench.config);
    return to_json(time_steps(bench, meeting));
  };
  std::vector<StepTimes> times;
  for (const Json& answer : in_ranks(ranks, timed, threads))
    times.push_back(step_times_from(answer));
  return times;
}

void keep_memory(const Config& config) { keep_cpu_memory(config.read<LaunchOptions>().keep_mb); }

double seconds_alone(const std::function<void()>& run, double hopeless) {
  constexpr double kEnough = 0.05;  // seconds
  constexpr size_t kLeast = 4, kMost = 200;
  std::vector<double> seconds;
  double sum = 0;
  while (seconds.size() < kLeast || (sum < kEnough && seconds.size() < kMost)) {
    seconds.push_back(seconds_of(run));
    sum += seconds.back();
    if (seconds.front() > hopeless) return seconds.front();
  }
  seconds.erase(seconds.begin());  // it warmed up
  return median(seconds);
}

BenchDevice::BenchDevice(bool cuda)
    : device_(cuda ? begin_on_gpu(0) : c10::Device(c10::DeviceType::CPU)) {
  if (cuda) name_ = name_of_gpu();
}

double BenchDevice::seconds(const std::function<void()>& run) const {
  return device_.is_cpu() ? seconds_alone(run) : seconds_on(device_, run);
}

double BenchDevice::copy_speed() const {
  if (device_.is_cpu()) return cpu_copy_speed();
  constexpr int64_t kBytes = int64_t{512} << 20;  // far more than a GPU's cache holds
  const auto bytes = at::TensorOptions().dtype(at::kByte).device(device_);
  const at::Tensor from = torch::ones({kBytes}, bytes), to = torch::zeros({kBytes}, bytes);
  return 2.0 * static_cast<double>(kBytes) / seconds_on(device_, [&] { to.copy_(from); });
}

namespace {

constexpr double kBudget = 8;    // seconds for all ways together
constexpr double kEnough = 0.4;  // seconds of iterations that are timed of each

// The mean seconds of an iteration of ranks that wait for each other.
double seconds_of_use(const TimeUsesRequest& request,
                      const ProcessorUse& use,
                      FindRecipe find_recipe,
                      int64_t steps) {
  const StepBench bench{.config = request.config,
                        .recipe = find_recipe(text_of(request.config.get("recipe"))),
                        .warm = 1,
                        .steps = steps,
                        .all_phases = true};
  double seconds = 0;
  for (const StepTimes& rank : time_ranks(use.ranks, bench, use.threads))
    seconds = std::max(seconds, rank.mean_iteration());
  return seconds;
}

}  // namespace

int time_uses(const TimeUsesRequest& request, FindRecipe find_recipe) {
  const double end = monotonic_seconds() + kBudget;
  std::vector<double> seconds(request.uses.size(), 0.0);
  seconds.front() = seconds_of_use(request, request.uses.front(), find_recipe, 2);
  if (seconds.front() <= request.most_seconds && seconds.front() >= request.least_seconds) {
    const auto steps =
        static_cast<int64_t>(std::clamp(kEnough / std::max(seconds.front(), 1e-4), 2.0, 20.0));
    for (size_t i = 0; i < seconds.size() && monotonic_seconds() < end; ++i)
      seconds[i] = seconds_of_use(request, request.uses[i], find_recipe, steps);
  }
  fmt::print("{}\n", Json(seconds).dump());
  return 0;
}

}  // namespace gantrain
