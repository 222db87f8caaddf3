// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "core/device.h"
#include "core/torch.h"
#include "train/step/training_step.h"
#include "util/error.h"
#include "util/log.h"
#include "util/text.h"

namespace gantrain {

namespace {

// cuDNN has measured its algorithms and every workspace exists after the first run; the others see
// it with the memory that it then has.
constexpr int64_t kPlainRuns = 3;

at::Tensor copied(const at::Tensor& tensor) { return tensor.defined() ? tensor.clone() : tensor; }

std::vector<at::Tensor*> tensors_of(PhaseComputed& computed) {
  std::vector<at::Tensor*> all;
  for (at::Tensor& loss : computed.losses) all.push_back(&loss);
  for (Statistics* values : {&computed.statistics, &computed.sums})
    for (auto& [name, tensor] : *values) all.push_back(&tensor);
  return all;
}

std::vector<at::Tensor*> tensors_of(GradientVerdict& verdict) {
  return {&verdict.found, &verdict.scale, &verdict.norm};
}

bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type());
}

bool same_kind(const Batch& a, const Batch& b) {
  return same_kind(a.real, b.real) && same_kind(a.labels, b.labels);
}

std::string reason_in(const c10::Error& error) {
  return split(error.what_without_backtrace(), '\n').front();
}

std::vector<const void*> addresses(const NamedTensors& parameters) {
  std::vector<const void*> all;
  for (const auto& [name, parameter] : parameters)
    all.push_back(parameter.grad().defined() ? parameter.grad().const_data_ptr() : nullptr);
  return all;
}

}  // namespace

// What a graph computes, and the same side by side in one tensor for each type, which the graph
// fills too: a copy of some twenty tensors takes one launch.
template <class Result>
class RecordedResult {
 public:
  // Call it while recording.
  void hold(Result result) {
    const at::NoGradGuard no_grad;
    result_ = std::move(result);
    std::map<Kind, std::vector<at::Tensor>> parts;
    for (const at::Tensor* one : tensors_of(result_))
      if (one->defined()) parts[kind_of(*one)].push_back(one->reshape(-1));
    packs_.clear();
    for (const auto& [kind, all] : parts) packs_[kind] = at::cat(all);
  }
  // What the last replay computed: the next one does not change it.
  Result copy() const {
    std::map<Kind, at::Tensor> packs;
    std::map<Kind, int64_t> next;
    for (const auto& [kind, pack] : packs_) packs[kind] = pack.clone();
    Result result = result_;
    for (at::Tensor* one : tensors_of(result)) {
      if (!one->defined()) continue;
      const Kind kind = kind_of(*one);
      const int64_t begin = next[kind], count = one->numel();
      *one = packs.at(kind).narrow(0, begin, count).view(one->sizes());
      next[kind] += count;
    }
    return result;
  }

 private:
  using Kind = std::pair<at::ScalarType, c10::DeviceType>;
  static Kind kind_of(const at::Tensor& t) { return {t.scalar_type(), t.device().type()}; }

  Result result_;
  std::map<Kind, at::Tensor> packs_;
};

GraphChoice choose_graphs(const GraphSituation& s) {
  if (s.wanted == Graphs::kOff) return {};
  const bool alone = s.ranks.world == 1, demanded = s.wanted == Graphs::kOn;
  const std::string_view mode = names(s.dist.ddp_mode)[static_cast<size_t>(s.dist.ddp_mode)];
  std::string why_not;
  if (!s.device_records) {
    why_not = "this device records no graphs";
  } else if (!alone && s.dist.sync_bn) {
    why_not = "dist.sync_bn=on sums over ranks inside of phases";
  } else if (!alone && s.dist.ddp_scope == DdpScope::kWhole) {
    why_not = "--ddp-scope whole needs a reducer's hooks";
  } else if (!alone && !demanded && s.ddp_mode_given && s.dist.ddp_mode != DdpMode::kFlat) {
    why_not = fmt::format("--ddp-mode {} needs a reducer's hooks; --graphs on goes without", mode);
  } else if (!demanded && s.ranks.nodes > 1) {
    why_not =
        "on several nodes gradients are reduced while backward passes run; --graphs on replays "
        "graphs instead";
  }
  if (why_not.empty()) return {true, ""};
  if (demanded) fail(Exit::kUsage, "--graphs on: {}; use --graphs auto", why_not);
  return {false, s.device_records ? why_not : ""};
}

struct PhaseGraphs::Recorded {
  Batch shapes;  // the inputs of the first call; after recording, copies that the graph reads
  int64_t plain_runs = 0;
  std::unique_ptr<DeviceGraph> graph;
  RecordedResult<PhaseComputed> result;
  std::vector<at::Tensor> gradients;  // undefined where the phase gives none
  std::unique_ptr<DeviceGraph> step;
  bool step_refused = false;
  RecordedResult<GradientVerdict> verdict;
  std::vector<const void*> stepped;  // addresses of the gradients that the step's graph reads
};

PhaseGraphs::PhaseGraphs(c10::DeviceType device, Graphs wanted)
    : device_(device), wanted_(wanted) {}
PhaseGraphs::~PhaseGraphs() = default;

void PhaseGraphs::clear() {
  recorded_.clear();
  pools_.clear();
}

GraphPool& PhaseGraphs::pool(const std::string& name) {
  std::unique_ptr<GraphPool>& pool = pools_[name];
  if (pool == nullptr) pool = make_graph_pool(device_);
  TORCH_CHECK(pool != nullptr, "no graphs on ", device_);
  return *pool;
}

PhaseGraphs::Way PhaseGraphs::way(const std::string& name, const Batch& inputs) const {
  const auto found = recorded_.find(name);
  if (refused_.count(name) > 0 || found == recorded_.end()) return Way::kPlain;
  const Recorded& known = *found->second;
  if (!same_kind(known.shapes, inputs)) return Way::kPlain;
  if (known.graph != nullptr) return Way::kReplay;
  return known.plain_runs < kPlainRuns ? Way::kPlain : Way::kRecord;
}

PhaseGraphs::Recorded& PhaseGraphs::entry(const std::string& name, const Batch& inputs) {
  std::unique_ptr<Recorded>& known = recorded_[name];
  if (known == nullptr || !same_kind(known->shapes, inputs)) {
    known = std::make_unique<Recorded>();
    known->shapes = inputs;
  }
  return *known;
}

void PhaseGraphs::record(Recorded& into,
                         const Call& call,
                         const Batch& inputs,
                         const Compute& compute) {
  into.shapes = {copied(inputs.real), copied(inputs.labels)};
  std::unique_ptr<DeviceGraph> graph =
      pool(call.pool).record([&] { into.result.hold(compute(into.shapes)); });
  into.gradients.clear();
  for (const auto& [name, parameter] : call.parameters) into.gradients.push_back(parameter.grad());
  into.graph = std::move(graph);
  debug("phase {}: recorded as a graph", call.name);
}

PhaseComputed PhaseGraphs::compute(const Call& call, const Batch& inputs, const Compute& compute) {
  const Way how = way(call.name, inputs);
  Recorded& known = entry(call.name, inputs);
  if (how == Way::kPlain) {
    ++known.plain_runs;
    return compute(inputs);
  }
  if (how == Way::kRecord) {
    try {
      record(known, call, inputs, compute);
    } catch (const c10::Error& error) {
      if (wanted_ == Graphs::kOn && tells_of_lacking_memory(error)) throw;
      refuse(call.name, reason_in(error));
      return compute(inputs);
    }
  }
  known.shapes.real.copy_(inputs.real);
  if (inputs.labels.defined()) known.shapes.labels.copy_(inputs.labels);
  known.graph->replay();
  for (size_t i = 0; i < call.parameters.size(); ++i) {
    at::Tensor parameter = call.parameters[i].second;
    parameter.mutable_grad() = known.gradients[i];
  }
  return known.result.copy();
}

GradientVerdict PhaseGraphs::step(const std::string& name,
                                  const NamedTensors& parameters,
                                  const Step& step) {
  const auto found = recorded_.find(name);
  if (found == recorded_.end() || found->second->graph == nullptr || found->second->step_refused)
    return step();
  Recorded& known = *found->second;
  if (known.step == nullptr) {
    try {
      known.step = pool("steps").record([&] { known.verdict.hold(step()); });
      known.stepped = addresses(parameters);
    } catch (const c10::Error& error) {
      if (wanted_ == Graphs::kOn && tells_of_lacking_memory(error)) throw;
      known.step_refused = true;
      refuse(name + "'s step", reason_in(error));
      return step();
    }
  }
  if (known.stepped != addresses(parameters)) return step();
  known.step->replay();
  return known.verdict.copy();
}

void PhaseGraphs::refuse(const std::string& name, const std::string& why) {
  recorded_.erase(name);
  if (!refused_.emplace(name, why).second) return;
  if (wanted_ == Graphs::kOn) {
    fail(Exit::kUsage,
         "--graphs on: phase {} cannot be recorded as a graph: {}; use --graphs auto",
         name,
         why);
  }
  info("phase {} runs without a graph: {}", name, why);
}

}  // namespace gantrain
