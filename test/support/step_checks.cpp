// SPDX-License-Identifier: Apache-2.0
#include "support/step_checks.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "core/device.h"
#include "core/torch.h"
#include "data/options.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tape_graphs.h"
#include "support/wait_counter.h"
#include "util/error.h"

namespace gantrain {

namespace {

using Changes = std::map<std::string, Json>;

// One case in training: `extra` are settings beside its own.
class Training {
 public:
  Training(const std::shared_ptr<Group>& group,
           const RecipeRow& row,
           const StepCase& one,
           const Changes& extra = {})
      : one_(one),
        config_(config_of(row, one, extra)),
        step_(
            group, row, config_, one.class_counts, [](const std::string&) {}, one.label_rows) {
    step_->enter(one.stage);
    step_->begin();
  }

  // Iteration `i`, when a third of the case's stage is over.
  StepReport iterate(int64_t i) { return step_.run(batch(i)); }
  StepOnCpu& step() { return step_; }

 private:
  static Config config_of(const RecipeRow& row, const StepCase& one, const Changes& extra) {
    Changes changes = one.changes;
    for (const auto& [key, value] : extra) changes[key] = value;
    return step_config(row.facts, changes);
  }

  GlobalBatch batch(int64_t i) {
    const int64_t count = step_->plan().batch;
    int64_t pixels = config_.read<DataOptions>().resolution.width, seen = i * count;
    const Schedule& schedule = step_->recipe().schedule();
    if (!schedule.empty()) {
      const Stage& stage = schedule.stages().at(static_cast<size_t>(one_.stage));
      pixels = stage.resolution;
      seen += stage.first + stage.length / 3;
    }
    const int64_t numbers = count * 3 * pixels * pixels;
    GlobalBatch all{torch::sin(torch::arange(numbers, at::kFloat) * 0.37 + i)
                        .reshape({count, 3, pixels, pixels}),
                    {},
                    i,
                    seen};
    const auto classes = static_cast<int64_t>(one_.class_counts.size());
    if (classes > 0) all.labels = torch::arange(count, at::kLong).remainder(classes);
    if (const at::Tensor& rows = one_.label_rows; rows.defined())
      all.labels = rows.index_select(0, torch::arange(i, i + count).remainder(rows.size(0)));
    return all;
  }

  StepCase one_;
  Config config_;
  StepOnCpu step_;
};

// What waits in two iterations on this rank, the first of which has all phases; empty: nothing.
std::string waits_of(Training& training) {
  std::string all;
  for (int64_t i = 0; i < 2; ++i) {
    const WaitCounter counter;
    training.iterate(i);
    if (counter.count() > 0) all += fmt::format(" iteration {}: {}", i, text_of(counter.seen()));
  }
  return all;
}

}  // namespace

at::Tensor some_label_rows() {
  return torch::tensor({1.0f,
                        0.0f,
                        0.25f,
                        0.0f,
                        1.0f,
                        -2.0f,
                        1.0f,
                        1.0f,
                        0.5f,
                        0.0f,
                        0.0f,
                        1.5f,
                        1.0f,
                        0.0f,
                        -0.75f,
                        0.0f,
                        1.0f,
                        0.0f})
      .reshape({6, 3});
}

std::vector<Changes> all_amp() {
  return {{{"precision.amp", "off"}},
          {{"precision.amp", "bf16"}},
          {{"precision.amp", "fp16"}, {"precision.initial_scale", 128}}};
}

void check_nothing_waits(const RecipeRow& row,
                         const std::vector<StepCase>& cases,
                         const std::string& mode,
                         const std::vector<Changes>& precisions) {
  const int failed = failed_ranks(2, [&](const Rendezvous& rendezvous) {
    const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, 60);
    int code = 0;
    for (const StepCase& one : cases) {
      for (Changes extra : precisions) {
        extra["dist.ddp_mode"] = mode;
        for (const bool reads_wait : {false, true}) {
          std::optional<AssumeReadsWait> assumed;
          if (reads_wait) assumed.emplace();
          Training training(group, row, one, extra);
          const std::string waits = waits_of(training);
          if (waits.empty()) continue;
          std::fprintf(stderr,
                       "%s, %s, %s%s:%s\n",
                       one.name.c_str(),
                       mode.c_str(),
                       extra.at("precision.amp").get<std::string>().c_str(),
                       reads_wait ? ", reads wait" : "",
                       waits.c_str());
          code = 1;
        }
      }
    }
    return code;
  });
  CAPTURE(mode);
  CHECK(failed == 0);
}

void check_waiting_changes_nothing(const RecipeRow& row, const StepCase& one, double tolerance) {
  const auto train = [&] {
    Training training(Group::join({}, BackendKind::kGloo, at::kCPU, 60), row, one);
    for (int64_t i = 0; i < 3; ++i) training.iterate(i);
    training.step()->settle();
    return training.step().state();
  };
  const NamedTensors expected = train();
  const AssumeReadsWait reads_wait;
  const NamedTensors got = train();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(one.name, got[i].first);
    REQUIRE(got[i].first == expected[i].first);
    CHECK(expected[i].second.isfinite().all().item<bool>());
    const at::Tensor a = got[i].second.to(at::kDouble), b = expected[i].second.to(at::kDouble);
    const double largest = std::max(1.0, b.abs().max().item<double>());
    // On a device the average moves by three operators, of which a CPU's lerp is one: it rounds
    // twice more.
    const bool is_average = got[i].first.rfind("G_ema/", 0) == 0;
    const double allowed = is_average ? std::max(tolerance, 1e-6) : tolerance;
    CHECK((a - b).abs().max().item<double>() <= allowed * largest);
  }
}

namespace {

// The state after training, and everything that was reported.
struct Trained {
  NamedTensors state;
  std::vector<at::Tensor> reported;
};

Trained trained(Training& training, int64_t iterations) {
  Trained all;
  for (int64_t i = 0; i < iterations; ++i) {
    const StepReport report = training.iterate(i);
    for (const PhaseReport& phase : report.phases) {
      for (const at::Tensor& loss : phase.losses) all.reported.push_back(loss);
      for (const auto& [name, values] : phase.statistics) all.reported.push_back(values);
      all.reported.push_back(phase.verdict.found);
    }
    for (const auto& [name, values] : report.statistics) all.reported.push_back(values.clone());
  }
  training.step()->settle();
  all.state = training.step().state();
  return all;
}

bool equal_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && at::allclose(a, b, 0, 0, /*equal_nan=*/true);
}

// What differs between the two, in words; empty: nothing.
std::string difference(const Trained& a, const Trained& b) {
  if (a.state.size() != b.state.size() || a.reported.size() != b.reported.size())
    return "numbers of tensors";
  std::string all;
  for (size_t i = 0; i < a.state.size(); ++i) {
    if (!equal_bits(a.state[i].second, b.state[i].second)) all += " " + a.state[i].first;
  }
  for (size_t i = 0; i < a.reported.size(); ++i) {
    if (!equal_bits(a.reported[i], b.reported[i])) return all + fmt::format(" report {}", i);
  }
  return all;
}

int ranks_with_differences(const RecipeRow& row,
                           const StepCase& one,
                           const std::vector<Changes>& precisions,
                           const Rendezvous& rendezvous,
                           int64_t iterations) {
  const auto group = Group::join(rendezvous, BackendKind::kGloo, at::kCPU, 60);
  const AssumeReadsWait on_a_device;
  int code = 0;
  for (Changes extra : precisions) {
    extra["dist.ddp_mode"] = "flat";
    const TapeGraphs tapes;
    extra["train.graphs"] = "off";
    Training plain(group, row, one, extra);
    const Trained expected = trained(plain, iterations);
    extra["train.graphs"] = "on";
    Training recorded(group, row, one, extra);
    const std::string differing = difference(expected, trained(recorded, iterations));
    const bool replayed = TapeGraphs::replayed() > TapeGraphs::recorded();
    if (differing.empty() && replayed) continue;
    std::fprintf(stderr,
                 "%s, %s: %s, %s differ\n",
                 one.name.c_str(),
                 extra.at("precision.amp").get<std::string>().c_str(),
                 replayed ? "replayed" : "nothing was replayed",
                 differing.c_str());
    code = 1;
  }
  return code;
}

}  // namespace

void check_graphs_change_nothing(const RecipeRow& row,
                                 const StepCase& one,
                                 const std::vector<Changes>& precisions,
                                 int64_t ranks,
                                 int64_t iterations) {
  CAPTURE(one.name, ranks);
  // What several ranks add does not depend on the types: two of the settings are enough.
  const std::vector<Changes> few = {precisions.front(), precisions.back()};
  const auto check = [&](const Rendezvous& rendezvous) {
    return ranks_with_differences(row, one, ranks == 1 ? precisions : few, rendezvous, iterations);
  };
  CHECK((ranks == 1 ? check({}) : failed_ranks(ranks, check)) == 0);
}

}  // namespace gantrain
