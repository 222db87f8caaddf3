// SPDX-License-Identifier: Apache-2.0
#include "bench_save_pause.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

#include "bench_numbers.h"
#include "core/random.h"
#include "core/torch.h"
#include "data/options.h"
#include "train/checkpoint_writer.h"
#include "train/model_options.h"
#include "train/training_step.h"
#include "util/sample.h"
#include "util/time.h"

namespace gantrain {

namespace {

// Warm memory for the elements of all tensors of a save, each once.
class PlainCopy {
 public:
  explicit PlainCopy(const CheckpointWriter::Save& save) {
    std::map<const void*, size_t> seen;
    const auto add = [&](const at::Tensor& tensor) {
      if (tensor.nbytes() > 0) seen.emplace(tensor.const_data_ptr(), tensor.nbytes());
    };
    for (const auto& [name, tensor] : save.state.tensors) add(tensor);
    for (const auto& [name, tensor] : save.model.tensors) add(tensor);
    for (const auto& [from, bytes] : seen) {
      parts_.push_back({from, std::vector<char>(bytes)});
      bytes_ += static_cast<double>(bytes);
    }
  }
  void run() {
    for (auto& [from, to] : parts_) std::memcpy(to.data(), from, to.size());
  }
  double bytes() const { return bytes_; }

 private:
  std::vector<std::pair<const void*, std::vector<char>>> parts_;
  double bytes_ = 0;
};

at::Tensor random_pictures(const PauseBench& bench) {
  const auto data = bench.config.read<DataOptions>("data.");
  return torch::tanh(
      normal(Stream(0, "bench"),
             {0, 1, bench.step.plan().batch},
             {data.channels.value_or(3), data.resolution.height, data.resolution.width}));
}

struct Times {
  std::vector<double> pause, memcpy, write, alone, beside;
};

constexpr int64_t kIteration = 1;  // of phases that are lazy: none is due

// One save, and steps until it is written. Those that began after that do not count.
void save_once(const PauseBench& bench,
               const at::Tensor& real,
               CheckpointWriter& writer,
               PlainCopy& plain,
               Times& times) {
  const auto step = [&] { bench.step.run({real, {}, kIteration, 0}); };
  times.memcpy.push_back(seconds_of([&] { plain.run(); }));
  times.alone.push_back(seconds_of(step));
  std::atomic<double> written = 0;  // when
  const CheckpointWriter::Save save{
      bench.folder / "pause.pt",
      bench.folder / "pause.safetensors",
      state_archive(named(bench.step.state()), Counters{}, bench.config),
      model_file(bench.step, Counters{}, bench.config.read<ModelOptions>("save.").raw)};
  const double start = monotonic_seconds();
  writer.save(save, [&written] { written = monotonic_seconds(); });
  times.pause.push_back(monotonic_seconds() - start);
  do {
    times.beside.push_back(seconds_of(step));
  } while (written == 0);
  writer.wait();
  times.write.push_back(written - start);
}

}  // namespace

Json measure_pause(const PauseBench& bench) {
  const at::Tensor real = random_pictures(bench);
  CheckpointWriter writer;
  const CheckpointWriter::Save first{
      {},
      {},
      state_archive(named(bench.step.state()), Counters{}, bench.config),
      model_file(bench.step, Counters{}, bench.config.read<ModelOptions>("save.").raw)};
  writer.reserve(first);
  PlainCopy plain(first);
  plain.run();
  for (int i = 0; i < 2; ++i) bench.step.run({real, {}, kIteration, 0});  // warm
  Times times;
  for (int64_t i = 0; i < bench.rounds; ++i) save_once(bench, real, writer, plain, times);
  const double alone = gantrain::median(times.alone);
  std::vector<double> of_alone;
  for (const double beside : times.beside) of_alone.push_back(beside / alone);
  return {{"bytes", plain.bytes()},
          {"pause", spread_of(times.pause)},
          {"memcpy", spread_of(times.memcpy)},
          {"write", spread_of(times.write)},
          {"step_alone", spread_of(times.alone)},
          {"step_beside", spread_of(times.beside)},
          {"pause_of_memcpy", ratio_of(quotients(times.pause, times.memcpy))},
          {"step_of_alone", ratio_of(of_alone)}};
}

void print_pause(const Json& pause) {
  const auto seconds = [&](const char* name) { return pause.at(name).at("median").get<double>(); };
  fmt::print("  a save in training: {:.1f} MB are copied, then written in the background\n",
             1e-6 * pause.at("bytes").get<double>());
  fmt::print("  the training waits {:.3f} s, {} of a memcpy ({:.3f} s); files after {:.3f} s\n",
             seconds("pause"),
             ratio_text(pause.at("pause_of_memcpy")),
             seconds("memcpy"),
             seconds("write"));
  fmt::print("  an iteration takes {:.3f} s, beside the writing {:.3f} s: {}\n",
             seconds("step_alone"),
             seconds("step_beside"),
             ratio_text(pause.at("step_of_alone")));
}

}  // namespace gantrain
