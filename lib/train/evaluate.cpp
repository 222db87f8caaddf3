// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include <torch/torch.h>

#include <cstring>

#include "core/tensors.h"
#include "metrics/ms_ssim.h"
#include "metrics/sliced_wasserstein.h"
#include "report/grid.h"
#include "util/log.h"
#include "util/text.h"
#include "util/time.h"

namespace gantrain {

namespace {
constexpr int64_t kAtATime = 64;  // pictures generated together
struct GivenUp {};                // thrown in the middle of metrics
}  // namespace

Evaluation::Evaluation(Generator& generator,
                       std::shared_ptr<const Dataset> dataset,
                       const SampleOptions& samples,
                       const MetricsOptions& metrics,
                       uint64_t seed,
                       GoesOn goes_on)
    : generator_(generator),
      dataset_(std::move(dataset)),
      samples_(samples),
      metrics_(metrics),
      seed_(seed),
      goes_on_(std::move(goes_on)) {}

at::Tensor Evaluation::fakes(const char* purpose, int64_t count, const Between& between) {
  const Stream stream(seed_, purpose);
  std::vector<at::Tensor> all;
  for (int64_t first = 0; first < count; first += kAtATime) {
    between();
    const int64_t n = std::min(kAtATime, count - first);
    const at::Tensor z = normal(stream, {first, 1, n}, {generator_.z_dim()});
    at::Tensor labels;
    if (generator_.classes() > 0)
      labels = torch::arange(first, first + n).remainder(generator_.classes());
    const at::Tensor bytes = to_bytes(generator_.images(z, labels, synthesis_options_));
    const std::vector<int64_t> levels = generator_.levels();
    const int64_t times = levels.empty() ? 1 : levels.back() / bytes.size(3);
    all.push_back(times == 1 ? bytes
                             : bytes.repeat_interleave(times, 2).repeat_interleave(times, 3));
  }
  return torch::cat(all);
}

at::Tensor Evaluation::reals(int64_t count, const Between& between) const {
  const std::vector<int64_t> order = Stream(seed_, "reals").permutation(dataset_->size());
  std::vector<at::Tensor> all;
  for (int64_t i = 0; i < count; ++i) {
    if (i % kAtATime == 0) between();
    const Image image = dataset_->load(order[static_cast<size_t>(i % dataset_->size())]);
    const at::Tensor hwc = torch::from_blob(const_cast<uint8_t*>(image.pixels.data()),
                                            {image.height, image.width, image.channels},
                                            at::kByte);
    all.push_back(hwc.permute({2, 0, 1}).clone());
  }
  return torch::stack(all).contiguous();
}

Image Evaluation::real_grid() const {
  return tile(reals(samples_.rows * samples_.columns), samples_.columns);
}

Image Evaluation::fake_grid() {
  return tile(fakes("grid", samples_.rows * samples_.columns), samples_.columns);
}

void Evaluation::draw_as_in(const Schedule& schedule, const Counters& counters) {
  if (!schedule.empty()) draw(options_at(schedule, counters.stage, counters.images_seen));
}

void Evaluation::write_samples(Reporter& reporter,
                               const std::string& file,
                               const Schedule& schedule,
                               const Counters& counters) {
  draw_as_in(schedule, counters);
  const Image grid = fake_grid();
  reporter.grid(file, "Samples/fakes", grid, counters.images_seen);
  reporter.grid("latest.png", "Samples/latest", grid, counters.images_seen);
}

void Evaluation::write_metrics(Reporter& reporter,
                               const std::string& snapshot,
                               const Schedule& schedule,
                               const Counters& counters) {
  draw_as_in(schedule, counters);
  const std::optional<std::vector<Json>> lines = measure();
  if (!lines) {
    info("metrics given up, because a stop was asked for");
    return;
  }
  for (const Json& line : *lines) {
    std::string text;
    for (const auto& [name, value] : line["results"].items())
      text += fmt::format("  {} {:.4g}", name, value.is_number() ? value.get<double>() : 0.0);
    info("metric{}  at {} kimg", text, number(static_cast<double>(counters.images_seen) / 1e3));
    reporter.metric(line, snapshot, counters.images_seen);
  }
}

std::optional<std::vector<Json>> Evaluation::measure() {
  try {
    return measure_all();
  } catch (const GivenUp&) {
    return std::nullopt;
  }
}

std::vector<Json> Evaluation::measure_all() {
  std::vector<Json> lines;
  const std::vector<std::string> wanted = metric_names(metrics_);
  if (wanted.empty()) return lines;
  const int64_t count = std::min(metrics_.images, dataset_->size());
  const auto between = [this] {
    if (!goes_on_()) throw GivenUp();
  };
  const at::Tensor fake = fakes("metrics", count, between);
  for (const std::string& name : wanted) {
    const double start = monotonic_seconds();
    Json results = Json::object();
    if (name == "swd") {
      const std::vector<double> levels =
          swd(reals(count, between), fake, seed_, {.between = between});
      int64_t side = fake.size(2);
      results["swd"] = levels.back();
      for (size_t i = 0; i + 1 < levels.size(); ++i, side /= 2)
        results["swd_" + std::to_string(side)] = levels[i];
    } else if (count >= 2) {
      results["msssim"] = ms_ssim(fake, between);
    }
    lines.push_back(
        {{"metric", name}, {"results", results}, {"total_time", monotonic_seconds() - start}});
  }
  return lines;
}

}  // namespace gantrain
