// SPDX-License-Identifier: Apache-2.0
#include "train/run/reporter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "core/device.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "data/load/loader.h"
#include "gan/generator.h"
#include "metrics/pictures.h"
#include "page/pictures.h"
#include "page/run_record.h"
#include "report/grid.h"
#include "train/plan/plan.h"
#include "train/run/training_data.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

// An entry of /proc/self/status, in GB.
double memory_gb(const char* key) {
  return static_cast<double>(proc_bytes("/proc/self/status", key)) / (1 << 30);
}

constexpr const char* kPeakMemory = "Resources/peak_gpu_mem_gb";

// {number, sum, sum of squares} of values of any shape: float64 [3] on their device.
at::Tensor moments_of(const at::Tensor& values) {
  const at::Tensor v = values.detach().to(at::kDouble).reshape(-1);
  const at::Tensor count = torch::full({}, static_cast<double>(v.numel()), v.options());
  return torch::stack({count, v.sum(), v.square().sum()});
}

void add_to(std::map<std::string, at::Tensor>& sums,
            const std::string& name,
            const at::Tensor& more) {
  const auto [at, fresh] = sums.try_emplace(name, more);
  if (!fresh) at->second.add_(more);
}

// In a row, of a type in which at::cat() keeps every number as it is.
at::Tensor flat(const at::Tensor& values) {
  const at::Tensor all = values.detach().reshape(-1);
  return all.scalar_type() == at::kFloat ? all : all.to(at::kDouble);
}

}  // namespace

Reporter::Reporter(std::shared_ptr<Group> group,
                   int64_t total_images,
                   int64_t start_images,
                   std::shared_ptr<DeviceMemory> memory)
    : group_(std::move(group)),
      memory_(std::move(memory)),
      total_images_(total_images),
      tick_images_(start_images),
      started_(monotonic_seconds()),
      tick_started_(started_) {}

void Reporter::open(const std::filesystem::path& folder, int64_t resumed_at) {
  folder_ = folder;
  resumed_at_ = resumed_at;
  events_ = std::make_unique<EventWriter>(folder);
  if (resumed_at > 0) events_->resume_at(resumed_at / 1000 + 1);
  // With -q nothing is drawn.
  live_ = log_console_level() >= Level::kInfo && detect_terminal().live;
  console_ = std::make_unique<Console>(live_ ? detect_terminal() : Terminal{});
}

bool Reporter::has_row(const std::string& file, int64_t images) const {
  constexpr int64_t kMost = int64_t{1} << 30;  // bytes
  if (images == 0 || images != resumed_at_) return false;
  const std::string rows = trim(content_of(folder_ / file, kMost).value_or(""));
  const auto kimg = kimg_of_line(rows.substr(rows.rfind('\n') + 1));
  return kimg && std::llround(*kimg * 1e3) == images;
}

void Reporter::start() {
  started_ = tick_started_ = monotonic_seconds();
  if (memory_) memory_->restart();
}

bool Reporter::foretell(const Counters& counters, int64_t batch, bool grows) {
  constexpr int64_t kWarmUp = 1, kMeasured = 3;
  iterations_ += 1;
  if (iterations_ == kWarmUp) warm_at_ = monotonic_seconds();
  if (iterations_ != kWarmUp + kMeasured) return false;
  if (group_->rank() > 0) return true;
  const double each = (monotonic_seconds() - warm_at_) / kMeasured;
  const auto images = static_cast<double>(batch);
  const double left = static_cast<double>(total_images_ - counters.images_seen) / images;
  if (left <= 0) return true;
  info("speed   {} images/s{}: about {} to go{}",
       grouped(images / each),
       grows ? ", if all stages were as fast as this one" : "",
       short_duration(left * each),
       obeyed_text(each));
  return true;
}

void Reporter::count_stage(const Schedule& schedule, const Counters& counters) {
  if (schedule.empty()) return;
  const Stage& stage = schedule.stages()[static_cast<size_t>(counters.stage)];
  count("Progress/resolution", static_cast<double>(stage.resolution));
  count("Progress/alpha", schedule.alpha_at(counters.images_seen));
}

void Reporter::say_stage(const TrainingStep& step, const Counters& counters) const {
  const Schedule& schedule = step.recipe().schedule();
  const Stage& stage = schedule.stages()[static_cast<size_t>(counters.stage)];
  info("{} over {} kimg; {}, learning rates x {}{}",
       counters.stage_name,
       kimg_text(stage.length),
       step.plan().text(),
       shortest(stage.lr_factor),
       group_->world() > 1 ? "; ddp-mode " + step.describe_reductions() : "");
}

// The values of a step that was left out do not count.
void Reporter::add(const std::string& name,
                   const at::Tensor& values,
                   const GradientVerdict* verdict) {
  const bool judged = verdict != nullptr && !verdict->finite;
  if (reads_are_free(values.device()) && !judged) {
    add_to(values_, name, moments_of(values));
    return;
  }
  held_.push_back({name, values.numel(), judged, false});
  given_.push_back(flat(values));
  if (judged) given_.push_back(flat(verdict->found));
}

void Reporter::hold() {
  if (given_.empty()) return;
  held_values_.push_back(at::cat(given_));
  given_.clear();
  held_numbers_ += held_values_.back().numel();
  constexpr int64_t kMostNumbers = 1 << 20;
  constexpr size_t kMostIterations = 1000;
  if (held_numbers_ >= kMostNumbers || held_values_.size() >= kMostIterations) add_up_held();
}

void Reporter::forget_held() {
  held_.clear();
  held_values_.clear();
  held_numbers_ = 0;
}

// On its device, without waiting, so that memory does not grow with the tick. Few ticks hold so
// much; what they hold at their end is read as it is.
void Reporter::add_up_held() {
  const at::Tensor all = at::cat(held_values_).to(at::kDouble);
  struct Alike {
    std::vector<at::Tensor> values, found;
  };
  std::map<std::tuple<std::string, bool, bool>, Alike> kinds;
  int64_t next = 0;
  for (const Held& one : held_) {
    Alike& alike = kinds[{one.name, one.judged, one.total}];
    alike.values.push_back(all.narrow(0, next, one.count));
    next += one.count;
    if (one.judged) alike.found.push_back(all.narrow(0, next++, 1).expand({one.count}));
  }
  for (const auto& [kind, alike] : kinds) {
    const auto& [name, judged, total] = kind;
    const at::Tensor values = at::cat(alike.values);
    if (total) {
      add_to(totals_, name, (values > 0).sum().to(at::kDouble));
    } else if (judged) {
      const at::Tensor bad = at::cat(alike.found) > 0, good = values.masked_fill(bad, 0);
      const at::Tensor count = (values.numel() - bad.sum()).to(at::kDouble);
      add_to(values_, name, torch::stack({count, good.sum(), good.square().sum()}));
    } else {
      add_to(values_, name, moments_of(values));
    }
  }
  forget_held();
}

void Reporter::read_held(Stats& into) {
  if (held_.empty()) return;
  const at::Tensor all = at::cat(held_values_).to(at::kDouble).cpu();
  const double* numbers = all.const_data_ptr<double>();
  std::map<std::string, std::array<double, 3>> sums;  // number, sum, sum of squares
  int64_t next = 0;
  for (const Held& one : held_) {
    const at::Tensor values = all.narrow(0, next, one.count);
    const double first = one.count > 0 ? numbers[next] : 0;
    next += one.count + (one.judged ? 1 : 0);
    if (one.total) {
      sums_[one.name] += first > 0 ? 1 : 0;
      continue;
    }
    std::array<double, 3>& moments = sums[one.name];
    if (one.judged && numbers[next - 1] > 0) continue;
    moments[0] += static_cast<double>(one.count);
    moments[1] += one.count == 1 ? first : values.sum().item<double>();
    moments[2] += one.count == 1 ? first * first : values.square().sum().item<double>();
  }
  for (const auto& [name, m] : sums) into.add(name, m[0], m[1], m[2]);
  forget_held();
}

void Reporter::record(const std::string& name, const at::Tensor& values) {
  const torch::NoGradGuard no_grad;
  add(name, values, nullptr);
  hold();
}

// Losses of a step that was left out are not reported.
void Reporter::record_losses(const PhaseReport& report) {
  const GradientVerdict& verdict = report.verdict;
  if (!verdict.finite.value_or(true)) return;
  const std::string name = fmt::format("Loss/{}/{}",
                                       report.phase->player.name,
                                       report.phase->role == Role::kPenalty ? "reg" : "loss");
  for (const at::Tensor& loss : report.losses) add(name, loss, &verdict);
}

void Reporter::record_verdict(const PhaseReport& report) {
  const GradientVerdict& verdict = report.verdict;
  const std::string& player = report.phase->player.name;
  if (verdict.scale.defined()) add("AMP/" + player + "/scale", verdict.scale, nullptr);
  if (verdict.norm.defined()) add("Gradients/" + player + "/norm", verdict.norm, &verdict);
  const std::string skipped = "AMP/" + player + "/skipped";
  if (verdict.finite) {
    sums_[skipped] += *verdict.finite ? 0 : 1;
    return;
  }
  held_.push_back({skipped, 1, false, true});
  given_.push_back(flat(verdict.found));
}

void Reporter::record(const StepReport& step) {
  const torch::NoGradGuard no_grad;
  for (const PhaseReport& phase : step.phases) {
    for (const auto& [name, values] : phase.statistics) add(name, values, nullptr);
    record_verdict(phase);
    record_losses(phase);
    if (group_->world() == 1) continue;
    const std::string prefix = "Comm/" + phase.phase->name;
    count(prefix + "/bytes", static_cast<double>(phase.spent.traffic.bytes));
    count(prefix + "/collectives", static_cast<double>(phase.spent.traffic.collectives));
    count(prefix + "/buckets", static_cast<double>(phase.spent.buckets));
  }
  for (const auto& [name, values] : step.statistics) add(name, values, nullptr);
  hold();
  time("Timing/comm", step.reducing);
}

void Reporter::iteration(const Counters& counters) {
  const double now = monotonic_seconds();
  if (!live_ || now - drawn_ < 0.1) return;
  drawn_ = now;
  console_->update(progress(counters));
}

Progress Reporter::progress(const Counters& c) const {
  Progress p;
  p.kimg = kimg_of(c.images_seen);
  p.total_kimg = kimg_of(total_images_);
  p.seconds = monotonic_seconds() - started_;
  p.tick = c.tick;
  for (const char* player : {"G", "D"}) {
    if (const auto loss = last_.mean(fmt::format("Loss/{}/loss", player)))
      p.losses.emplace_back(player, *loss);
  }
  const double augment = last_.mean("Progress/augment").value_or(0);
  if (augment > 0) p.watched.push_back({"ada p", augment});
  if (swd_) p.watched.push_back(*swd_);
  p.cpu_mem_gb = memory_gb("VmRSS");
  p.gpu_mem_gb = last_.mean(kPeakMemory).value_or(0);
  return p;
}

void Reporter::fill_resources(const Counters& c) {
  const double now = monotonic_seconds();
  last_.add("Progress/kimg", kimg_of(c.images_seen));
  last_.add("Progress/tick", static_cast<double>(c.tick));
  const int64_t images = c.images_seen - tick_images_;
  if (images > 0) last_.add("Timing/sec_per_kimg", (now - tick_started_) / kimg_of(images));
  last_.add("Timing/total_sec", c.seconds);
  last_.add("Resources/cpu_mem_gb", memory_gb("VmHWM"));
  tick_images_ = c.images_seen;
  tick_started_ = now;
}

// The peaks of this tick, in GiB as the official code has them.
void Reporter::count_device_memory() {
  if (!memory_) return;
  constexpr double kGiB = 1 << 30;
  const MemoryPeaks peaks = memory_->peaks();
  count(kPeakMemory, static_cast<double>(peaks.allocated) / kGiB);
  count("Resources/peak_gpu_mem_reserved_gb", static_cast<double>(peaks.reserved) / kGiB);
  memory_->restart();
}

void Reporter::tick(const Counters& c) {
  count_device_memory();
  Stats mine = numbers_;
  numbers_.clear();
  for (const auto& [name, moments] : values_) {
    const at::Tensor m = moments.cpu();
    mine.add(name, m[0].item<double>(), m[1].item<double>(), m[2].item<double>());
  }
  read_held(mine);
  for (const auto& [name, total] : totals_) sums_[name] += total.item<double>();
  for (const auto& [name, sum] : sums_) mine.add(name, sum);
  values_.clear();
  totals_.clear();
  sums_.clear();
  const std::vector<std::string> names = mine.names();
  // On the group's device even where nothing was computed on it since the last tick.
  at::Tensor packed = torch::tensor(mine.pack(names), at::kDouble).to(device_of(*group_));
  group_->sum_(packed, "statistics of a tick");
  packed = packed.cpu();
  last_.clear();
  last_.unpack(names, {packed.data_ptr<double>(), packed.data_ptr<double>() + packed.numel()});
  for (const auto& [name, moments] : last_.all()) {
    if (ends_with(name, "/loss") && moments.bad > 0) {
      fail(Exit::kDiverged,
           "{} is not finite at {} kimg: training has diverged; lower the learning rate, or resume "
           "from an earlier state",
           name,
           kimg_text(c.images_seen));
    }
  }
  fill_resources(c);
  if (!console_ || has_row("stats.jsonl", c.images_seen)) return;
  append_stats(folder_, last_);
  const int64_t step = c.images_seen / 1000;
  for (const auto& [name, moments] : last_.all()) {
    if (moments.num > 0) events_->scalar(name, step, moments.mean());
  }
  events_->flush();
  const std::string line = console_->tick(progress(c));
  if (live_) log_to_file(line);
}

void Reporter::finish() {
  if (console_) console_->finish();
  if (events_) events_->flush();
}

void Reporter::grid(const std::string& file,
                    const std::string& tag,
                    const Image& image,
                    int64_t images_seen) {
  const std::string png = encode_png(image);
  std::error_code error;  // the user may have removed it; a run folder is not made again
  std::filesystem::create_directory(folder_ / "samples", error);
  write_file(folder_ / "samples" / file, png);
  events_->image_png(tag, images_seen / 1000, png, {image.width, image.height, image.channels});
  events_->flush();
}

void Reporter::array(const std::string& file, const std::vector<Image>& pictures) {
  write_file(folder_ / "samples" / file, encode_npy(pictures));
}

void Reporter::metric(Json line, const std::string& snapshot, int64_t images_seen) {
  line["snapshot"] = snapshot;
  line["kimg"] = kimg_of(images_seen);
  line["num_gpus"] = group_->world();
  line["timestamp"] = unix_seconds();
  line["total_time_str"] = short_duration(line.value("total_time", 0.0));
  line["snapshot_pkl"] = snapshot;  // the name that the official code's readers look for
  const std::string file = fmt::format("metric-{}.jsonl", std::string(line["metric"]));
  if (!has_row(file, images_seen)) append_line(folder_ / file, line.dump());
  for (const auto& [key, value] : line["results"].items()) {
    if (!value.is_number()) continue;
    if (key == "swd") swd_ = Watched{"swd", value.get<double>(), kimg_of(images_seen)};
    events_->scalar("Metrics/" + key, images_seen / 1000, value.get<double>());
  }
}

std::vector<int64_t> grid_labels(const SampleOptions& samples, int64_t classes) {
  if (classes == 0) return {};
  const int64_t cells = samples.rows * samples.columns;
  std::vector<int64_t> labels;
  for (int64_t cell = 0; cell < cells; ++cell) {
    labels.push_back(class_of_cell(cell, {samples.rows, samples.columns}, classes));
  }
  return labels;
}

int64_t grid_rows(const Config& config, int64_t classes, const std::filesystem::path& folder) {
  constexpr int64_t kMostClasses = 16;  // with a row each
  const int64_t rows = config.read<SampleOptions>().rows;
  if (config.given("samples.rows")) return rows;
  if (!folder.empty()) {
    const Json before = read_saved_config(folder, Unreadable::kIgnored).value("samples.rows");
    if (before.is_number_integer()) return std::clamp<int64_t>(before.get<int64_t>(), 1, 64);
  }
  return classes > rows && classes <= kMostClasses ? classes : rows;
}

SampleGrids::SampleGrids(Generator& generator,
                         std::shared_ptr<const Dataset> dataset,
                         const Size& size,
                         const SampleOptions& samples,
                         uint64_t seed)
    : generator_(generator),
      dataset_(std::move(dataset)),
      size_(size),
      samples_(samples),
      seed_(seed) {
  shown_ = read_channels("samples.channels", samples.channels, dataset_->channels());
}

Image SampleGrids::grid_of(const at::Tensor& pictures) const {
  return tile(shown_channels(pictures, shown_), samples_.columns);
}

// [cells, C, H, W] in the data's depth.
at::Tensor SampleGrids::fakes(const SynthesisOptions& drawn) {
  const int64_t together = made_together(size_.pixels());
  const Stream stream(seed_, "grid");
  const std::vector<int64_t> labels = grid_labels(samples_, generator_.classes());
  std::vector<at::Tensor> all;
  for (int64_t first = 0; first < cells(); first += together) {
    const int64_t n = std::min(together, cells() - first);
    const at::Tensor z = normal(stream, {first, 1, n}, {generator_.z_dim()});
    at::Tensor label = vectors_of_cells(first, n);
    if (!label.defined() && !labels.empty()) label = torch::tensor(labels).narrow(0, first, n);
    const at::Tensor pictures = generator_.images(z, label, drawn);
    all.push_back(full_size(generator_, to_depth(pictures, dataset_->depth())));
  }
  return torch::cat(all);
}

Image SampleGrids::fake_grid(const SynthesisOptions& drawn) { return grid_of(fakes(drawn)); }

// The vectors of the real pictures in these cells, [n, L]; undefined where labels are no vectors.
at::Tensor SampleGrids::vectors_of_cells(int64_t first, int64_t n) const {
  const at::Tensor rows = label_rows_of(*dataset_);
  if (!rows.defined() || generator_.classes() == 0) return {};
  return rows.index_select(0, torch::tensor(real_pictures()).narrow(0, first, n));
}

// The index of each cell's picture; -1 where a class has none.
std::vector<int64_t> SampleGrids::real_pictures() const {
  const std::vector<int64_t> order = Stream(seed_, "reals").permutation(dataset_->size());
  const std::vector<int64_t> labels = grid_labels(samples_, generator_.classes());
  std::vector<int64_t> pictures;
  if (labels.empty() || dataset_->vectors().length() > 0) {
    for (int64_t i = 0; i < cells(); ++i)
      pictures.push_back(order[static_cast<size_t>(i % dataset_->size())]);
    return pictures;
  }
  std::map<int64_t, std::vector<int64_t>> of_class;
  for (const int64_t index : order) of_class[dataset_->label(index)].push_back(index);
  std::map<int64_t, size_t> shown;
  for (const int64_t label : labels) {
    const std::vector<int64_t>& own = of_class[label];
    pictures.push_back(own.empty() ? -1 : own[shown[label]++ % own.size()]);
  }
  return pictures;
}

Image SampleGrids::real_grid() const {
  const std::vector<int64_t> indices = real_pictures();
  std::vector<WantedPicture> wanted;
  for (const int64_t index : indices) wanted.push_back({std::max<int64_t>(index, 0)});
  const at::Tensor all = load_planes(*dataset_, wanted, dataset_->depth());
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) all[static_cast<int64_t>(i)].zero_();
  }
  return grid_of(all);
}

void SampleGrids::write_reals(Reporter& reporter) const {
  reporter.grid("reals.png", "Samples/reals", real_grid(), 0);
}

void SampleGrids::write(Reporter& reporter,
                        const std::string& file,
                        const SynthesisOptions& drawn,
                        int64_t images_seen) {
  const at::Tensor pictures = fakes(drawn);
  const Image grid = grid_of(pictures);
  reporter.grid(file, "Samples/fakes", grid, images_seen);
  if (pictures.size(1) > kMostColors || !shown_.empty()) {
    std::vector<Image> whole;
    for (const at::Tensor& picture : pictures.unbind()) whole.push_back(to_image(picture));
    reporter.array(file.substr(0, file.rfind('.')) + ".npy", whole);
  }
  reporter.grid("latest.png", "Samples/latest", grid, images_seen);
}

}  // namespace gantrain
