// SPDX-License-Identifier: Apache-2.0
#include "ddp_table/ddp_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/tensors.h"
#include "core/torch.h"
#include "distributed/gradient_sync.h"
#include "util/text.h"

namespace gantrain {

namespace {

// One reducer for both networks, called in the order of MMDistributedDataParallel: at the start of
// an iteration the buckets are rebuilt, and at its end the reducer is armed for the next iteration.
// With kWholeDynamic it is armed before each backward pass as well, as DynamicIterBasedRunner does.
class WholeModel final : public TableMode {
 public:
  WholeModel(const TableSettings& settings, const Group& group, const TableGan& gan)
      : find_unused_(settings.find_unused), on_loss_(settings.way == TableWay::kWholeDynamic) {
    NamedTensors all = gan.all();
    for (const auto& [name, parameter] : gan.G) {
      if (settings.average)
        all.emplace_back("average." + name, parameter.detach().clone().requires_grad_(true));
    }
    std::reverse(all.begin(), all.end());
    // As in DistributedDataParallel: without a search for unused parameters there is one bucket
    // until the first rebuild.
    constexpr int64_t kOne = std::numeric_limits<int64_t>::max();
    ReducerSettings s;
    s.find_unused = find_unused_;
    s.views = false;
    if (!find_unused_) s.first_bucket_bytes = s.bucket_bytes = kOne;
    reducer_ = BucketReducer::make(s, group, all);
  }

  void begin_iteration(const TableStage& /*stage*/) override { reducer_->rebuild_buckets(); }
  at::Tensor expect_backward(bool /*of_G*/, const at::Tensor& loss) override {
    if (on_loss_) arm(loss);
    return loss;
  }
  void end_iteration(const at::Tensor& fake) override { arm(fake); }
  int64_t buckets(bool /*of_G*/) const override { return reducer_->buckets(); }
  bool zeroes() const override { return !on_loss_; }  // undefined ones fail with another message

 private:
  void arm(const at::Tensor& output) {
    reducer_->arm(find_unused_ ? std::vector<at::Tensor>{output} : std::vector<at::Tensor>{});
  }
  bool find_unused_, on_loss_;
  std::unique_ptr<BucketReducer> reducer_;
};

// The syncs that gantrain itself trains with.
class OwnMode final : public TableMode {
 public:
  OwnMode(const TableSettings& settings, std::shared_ptr<Group> group, const TableGan& gan)
      : group_(std::move(group)), gan_(gan), by_stage_(settings.way == TableWay::kOwn) {
    if (by_stage_) return;
    options_.ddp_mode = DdpMode::kWrapper;
    options_.find_unused = settings.find_unused ? FindUnused::kOn : FindUnused::kOff;
    make({});
  }

  void begin_iteration(const TableStage& stage) override {
    if (!by_stage_ || (of_G_ && stage.same_graph(stage_))) return;
    of_G_.reset();
    of_D_.reset();
    make(stage);
    stage_ = stage;
  }
  void begin_phase(bool of_G) override { sync(of_G).begin(/*last=*/true); }
  void forwarded(bool of_G, const at::Tensor& output) override { sync(of_G).forwarded("", output); }
  at::Tensor expect_backward(bool of_G, const at::Tensor& loss) override {
    return sync(of_G).expect_backward(loss);
  }
  void finish_phase(bool of_G) override { sync(of_G).finish(); }
  int64_t buckets(bool of_G) const override { return sync(of_G).buckets(); }
  bool freezes() const override { return by_stage_; }

 private:
  GradientSync& sync(bool of_G) const { return of_G ? *of_G_ : *of_D_; }

  void make(const TableStage& stage) {
    of_G_ = make_one("G", gan_.G, stage);
    of_D_ = make_one("D", gan_.D, stage);
  }

  std::unique_ptr<GradientSync> make_one(const std::string& name,
                                         const NamedTensors& parameters,
                                         const TableStage& stage) {
    NamedTensors chosen;
    for (const auto& item : parameters) {
      if (by_stage_ && !gan_.is_active(item.first, stage)) continue;
      chosen.push_back(item);
      chosen.back().second.requires_grad_(true);
    }
    return GradientSync::create(
        options_, group_, name, {{"", chosen}}, {/*all_used=*/by_stage_, /*some_frozen=*/false});
  }

  std::shared_ptr<Group> group_;
  const TableGan& gan_;
  bool by_stage_;
  DistOptions options_;
  TableStage stage_;
  std::unique_ptr<GradientSync> of_G_, of_D_;
};

constexpr int64_t kIterations = 9;
constexpr int64_t kBatch = 8;
constexpr double kRate = 0.05;
constexpr double kSameAsOne = 1e-6;  // sums in another order

const char* name_of(TableWay way) {
  constexpr std::array<const char*, 4> kNames = {
      "whole-model DDP", "wrapper", "whole + dynamic", "default (dynamic, net)"};
  return kNames.at(static_cast<size_t>(way));
}

// ---- in a rank ----

class CellRun {
 public:
  CellRun(const DdpCell& cell, const Rendezvous& r)
      : group_(Group::join(r, BackendKind::kGloo, at::kCPU, 20)),
        gan_(make_table_gan(cell.progressive)),
        mode_(make_table_mode(cell.settings, group_, *gan_)) {}

  Json run() {
    Json answer = {{"hashes", Json::array()}};
    for (int64_t i = 0; i < kIterations; ++i) {
      try {
        iterate(i);
      } catch (const c10::Error& e) {
        return failed(std::move(answer), i, e.what_without_backtrace());
      } catch (const std::exception& e) {
        return failed(std::move(answer), i, e.what());
      }
      answer["hashes"].push_back(sha256_of(gan_->all()));
    }
    return finished(std::move(answer));
  }

 private:
  void iterate(int64_t i) {
    const TableStage stage = gan_->stage_at(i);
    mode_->begin_iteration(stage);
    const Samples samples{group_->rank(), group_->world(), kBatch / group_->world()};
    const auto draw = [&](const char* purpose, at::IntArrayRef shape) {
      return normal(Stream(0, purpose, static_cast<uint64_t>(i)), samples, shape);
    };
    const at::Tensor z = draw("table/z", {TableGan::kLatents});
    const int64_t side = gan_->side(stage);
    const at::Tensor real = torch::tanh(draw("table/real", {3, side, side}));
    phase(/*of_G=*/false, stage, [&] {
      const at::Tensor fake = gan_->generate(z, stage).detach();
      const at::Tensor of_fake = judged(fake, stage), of_real = judged(real, stage);
      return torch::softplus(of_fake).mean() + torch::softplus(-of_real).mean();
    });
    at::Tensor fake;
    phase(/*of_G=*/true, stage, [&] {
      fake = gan_->generate(z, stage);
      mode_->forwarded(/*of_G=*/true, fake);
      return torch::softplus(-gan_->judge(fake, stage)).mean();
    });
    mode_->end_iteration(fake);
  }

  at::Tensor judged(const at::Tensor& x, const TableStage& stage) {
    const at::Tensor scores = gan_->judge(x, stage);
    mode_->forwarded(/*of_G=*/false, scores);
    return scores;
  }

  void phase(bool of_G, const TableStage& stage, const std::function<at::Tensor()>& loss) {
    NamedTensors& stepping = of_G ? gan_->G : gan_->D;
    for (auto& [name, p] : gan_->D) p.requires_grad_(false);
    for (auto& [name, p] : stepping)
      p.requires_grad_(!mode_->freezes() || gan_->is_active(name, stage));
    clear_gradients(stepping);
    const Traffic before = group_->traffic();
    mode_->begin_phase(of_G);
    mode_->expect_backward(of_G, loss()).backward();
    mode_->finish_phase(of_G);
    const torch::NoGradGuard no_grad;
    for (auto& [name, p] : stepping) {
      if (p.grad().defined()) p.sub_(p.grad(), kRate);
    }
    const Traffic after = group_->traffic();
    CellPhase& sum = phases_[of_G ? "G" : "D"];
    sum.bytes += static_cast<double>(after.bytes - before.bytes);
    sum.collectives += static_cast<double>(after.collectives - before.collectives);
    sum.buckets = mode_->buckets(of_G);
  }

  void clear_gradients(NamedTensors& stepping) {
    if (mode_->zeroes()) {
      for (auto& [name, p] : stepping) {
        if (p.grad().defined()) p.mutable_grad().zero_();
      }
      return;
    }
    for (const auto& [name, p] : gan_->all()) p.mutable_grad() = at::Tensor();
  }

  static Json failed(Json answer, int64_t iteration, const std::string& message) {
    answer["failed_at"] = iteration;
    answer["error"] = message;
    return answer;
  }

  Json finished(Json answer) const {
    answer["weights"] = Json::array();
    for (const auto& [name, p] : gan_->all()) {
      const at::Tensor flat = p.detach().reshape(-1);
      for (int64_t i = 0; i < flat.numel(); ++i) answer["weights"].push_back(flat[i].item<float>());
    }
    for (const auto& [name, sum] : phases_) {
      answer["phases"][name] = {{"bytes", sum.bytes / kIterations},
                                {"collectives", sum.collectives / kIterations},
                                {"buckets", sum.buckets}};
    }
    return answer;
  }

  std::shared_ptr<Group> group_;
  std::unique_ptr<TableGan> gan_;
  std::unique_ptr<TableMode> mode_;
  std::map<std::string, CellPhase> phases_;  // sums
};

// ---- in the process that forks ----

std::vector<Json> run_cell(const DdpCell& cell, int64_t world, const RunRanks& run) {
  std::vector<Json> answers;
  for (const std::string& text : run(world, [&](const Rendezvous& r) {
         at::set_num_threads(1);
         return CellRun(cell, r).run().dump();
       })) {
    answers.push_back(Json::parse(text));
  }
  return answers;
}

std::string first_sentence(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.substr(0, std::min(line.find(". "), line.find(".  ")));
}

double distance(const Json& a, const Json& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i].get<double>() - b[i].get<double>()));
  return most;
}

CellResult compare(const DdpCell& cell, const std::vector<Json>& ranks, const Json& one) {
  CellResult result;
  result.cell = cell;
  const Json &first = ranks[0], &second = ranks[1];
  result.not_reduced = first["hashes"] != second["hashes"];
  if (first.contains("error")) {
    result.error = first_sentence(first["error"]);
    result.failed_at = first["failed_at"];
    return result;
  }
  if (second.contains("error"))
    throw std::runtime_error("rank 1 alone failed: " + text_of(second["error"]));
  result.from_one_process = distance(first["weights"], one["weights"]);
  for (const auto& [name, phase] : first["phases"].items())
    result.phases[name] = {phase["bytes"], phase["collectives"], phase["buckets"]};
  return result;
}

}  // namespace

std::unique_ptr<TableMode> make_table_mode(const TableSettings& settings,
                                           const std::shared_ptr<Group>& group,
                                           const TableGan& gan) {
  const bool whole =
      settings.way == TableWay::kWholeModel || settings.way == TableWay::kWholeDynamic;
  if (whole && group->world() > 1) return std::make_unique<WholeModel>(settings, *group, gan);
  return std::make_unique<OwnMode>(settings, group, gan);
}

std::string CellResult::text() const {
  const std::string drift = not_reduced ? ", not reduced before" : "";
  if (!error.empty()) return fmt::format("error at iteration {}{}: {}", failed_at, drift, error);
  if (not_reduced) return "ranks differ";
  if (from_one_process > kSameAsOne)
    return fmt::format("{:.2g} from one process", from_one_process);
  return "OK";
}

CellResult measure_cell(const DdpCell& cell, const RunRanks& run) {
  return compare(cell, run_cell(cell, 2, run), run_cell(cell, 1, run).front());
}

std::vector<CellResult> measure_ddp_table(const RunRanks& run) {
  std::vector<CellResult> results;
  for (const bool progressive : {false, true}) {
    const Json one = run_cell({{TableWay::kOwn}, progressive}, 1, run).front();
    const auto measure = [&](TableWay way, bool find_unused) {
      const DdpCell cell{{way, find_unused}, progressive};
      results.push_back(compare(cell, run_cell(cell, 2, run), one));
    };
    for (const TableWay way :
         {TableWay::kWholeModel, TableWay::kWrapper, TableWay::kWholeDynamic}) {
      for (const bool find_unused : {false, true}) measure(way, find_unused);
    }
    measure(TableWay::kOwn, false);
  }
  return results;
}

std::string expected_text(const DdpCell& cell) {
  constexpr const char* kUnfinished = "Expected to have finished reduction in the prior iteration";
  const TableSettings& s = cell.settings;
  switch (s.way) {
    case TableWay::kWholeModel:
      if (s.find_unused)
        return "error at iteration 1, not reduced before: Expected to mark a variable ready only "
               "once";
      if (cell.progressive || s.average)
        return fmt::format("error at iteration 2, not reduced before: {}", kUnfinished);
      return "error at iteration 2, not reduced before: `initialize_buckets` must NOT be called "
             "during autograd execution";
    case TableWay::kWrapper:
      if (cell.progressive && !s.find_unused)
        return "error at iteration 0: gradients of D were not all reduced";
      return "OK";
    case TableWay::kWholeDynamic:
      if (!s.find_unused)
        return fmt::format("error at iteration 1, not reduced before: {}", kUnfinished);
      return "OK";
    case TableWay::kOwn:
      return "OK";
  }
  return "";
}

std::string ddp_table_text(const std::vector<CellResult>& results) {
  std::string text = fmt::format(
      "Two gloo ranks, {} iterations. OK: ranks equal, and equal to one process.\n"
      "Bytes, collectives and buckets of an iteration's phases of D and G.\n\n"
      "  {:<23} {:<12} {:<12} {:>20} {:>20}  {}\n",
      kIterations,
      "mode",
      "find-unused",
      "GAN",
      "D",
      "G",
      "what happens");
  for (const CellResult& r : results) {
    std::map<std::string, std::string> cost = {{"D", "-"}, {"G", "-"}};
    for (const auto& [name, p] : r.phases)
      cost[name] = fmt::format("{:.0f} {:.1f} {}", p.bytes, p.collectives, p.buckets);
    const bool own = r.cell.settings.way == TableWay::kOwn;
    text += fmt::format("{} {:<23} {:<12} {:<12} {:>20} {:>20}  {}\n",
                        starts_with(r.text(), expected_text(r.cell)) ? " " : "!",
                        name_of(r.cell.settings.way),
                        own                           ? "auto"
                        : r.cell.settings.find_unused ? "on"
                                                      : "off",
                        r.cell.progressive ? "progressive" : "static",
                        cost["D"],
                        cost["G"],
                        r.text());
  }
  return text;
}

Json ddp_table_json(const std::vector<CellResult>& results) {
  Json cells = Json::array();
  for (const CellResult& r : results) {
    Json cell = {{"mode", name_of(r.cell.settings.way)},
                 {"find_unused", r.cell.settings.find_unused},
                 {"gan", r.cell.progressive ? "progressive" : "static"},
                 {"result", r.text()},
                 {"expected", starts_with(r.text(), expected_text(r.cell))}};
    for (const auto& [name, p] : r.phases) {
      cell[name] = {{"bytes", p.bytes}, {"collectives", p.collectives}, {"buckets", p.buckets}};
    }
    cells.push_back(cell);
  }
  return cells;
}

}  // namespace gantrain
