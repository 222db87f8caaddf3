// SPDX-License-Identifier: Apache-2.0
#include "distributed/gradient_sync.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <unordered_set>

#include "core/torch.h"
#include "util/text.h"
#include "util/wording.h"

namespace gantrain {

namespace {

// What the autograd graph can hold of a group.
struct HeldGroup final : torch::CustomClassHolder {
  explicit HeldGroup(std::shared_ptr<Group> g) : group(std::move(g)) {}
  std::shared_ptr<Group> group;
};

struct RankSum final : torch::autograd::Function<RankSum> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const std::shared_ptr<Group>& group) {
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<HeldGroup>(group));
    at::Tensor sum = x.detach().clone(at::MemoryFormat::Contiguous);
    group->sum_(sum, "sum in a loss");
    return sum;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto held =
        c10::static_intrusive_pointer_cast<HeldGroup>(context->saved_data["group"].toCapsule());
    return {RankSum::apply(gradients[0], held->group), at::Tensor()};
  }
};

using torch::autograd::variable_list;

// (loss, parameter) -> loss; its derivative by the parameter is zero.
struct ZeroGradient : torch::autograd::Function<ZeroGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& loss,
                            const at::Tensor& parameter) {
    context->save_for_backward({parameter});
    return loss.clone();
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    return {gradients.front(), torch::zeros_like(context->get_saved_variables().front())};
  }
};

// With --find-unused auto and a recipe that does not promise that all parameters take part, the
// host searches the graph and unused parameters get zeros. The reducer's own search, which
// --find-unused on asks for, keeps its answer in a map on the device and waits for it.
bool fills_in(const DistOptions& options, const SyncPromise& promise) {
  return options.find_unused == FindUnused::kAuto && !promise.all_used && !options.static_graph;
}

ReducerSettings settings_of(const DistOptions& options, const SyncPromise& promise) {
  constexpr double kMiB = 1024.0 * 1024.0;
  ReducerSettings s;
  s.static_graph = options.static_graph;
  s.find_unused = !s.static_graph && options.find_unused == FindUnused::kOn;
  s.skip_unused = s.find_unused && promise.some_frozen;
  s.views = options.gradient_as_bucket_view;
  s.first_bucket_bytes = static_cast<int64_t>(options.first_bucket_mb * kMiB);
  s.bucket_bytes = static_cast<int64_t>(options.bucket_mb * kMiB);
  s.compress = options.compress;
  return s;
}

std::string describe(const ReducerSettings& s, bool fills_in, int64_t buckets) {
  const char* search = s.static_graph  ? "static graph"
                       : fills_in      ? "find-unused on"
                       : s.skip_unused ? "find-unused on, unused buckets left out"
                       : s.find_unused ? "find-unused on"
                                       : "find-unused off";
  return fmt::format("{}, {}", search, counted(static_cast<int64_t>(buckets), "bucket"));
}

// One reducer, from its making to the check after each backward pass.
class Reduction {
 public:
  Reduction(const ReducerSettings& settings, std::shared_ptr<Group> group, NamedTensors parameters)
      : settings_(settings), group_(std::move(group)), parameters_(std::move(parameters)) {
    // The gradients of the last layer get ready first.
    std::reverse(parameters_.begin(), parameters_.end());
    if (!settings_.static_graph) make();
  }

  // The reducer learns a static graph by counting the calls of its hooks. It is made only for the
  // last micro-batch, so that it does not count the backward passes of the others.
  void begin_last() {
    learns_ = !reducer_;
    if (!reducer_) make();
  }

  void arm(const std::vector<at::Tensor>& outputs) {
    reducer_->arm(settings_.find_unused ? outputs : std::vector<at::Tensor>{});
  }

  // If the reducer still waits for a parameter, the gradients are not reduced and must not be used.
  void finish(const std::string& player) {
    if (learns_) reducer_->reduce_late();
    try {
      reducer_->check_finished();
    } catch (const c10::Error& e) {
      throw std::logic_error(fmt::format(
          "gradients of {} were not all reduced: {} took no part in the loss; use --find-unused on "
          "({})",
          player,
          outsiders(),
          sentence(e.what_without_backtrace())));
    }
  }

  int64_t buckets() const { return buckets_; }
  const NamedTensors& parameters() const { return parameters_; }
  // Whether at least one parameter is being trained now.
  bool trains() const {
    return std::any_of(parameters_.begin(), parameters_.end(), [](const auto& item) {
      return item.second.requires_grad();
    });
  }

 private:
  void make() {
    reducer_ = BucketReducer::make(settings_, *group_, parameters_);
    buckets_ = reducer_->buckets();
  }

  static std::string sentence(const std::string& text) { return text.substr(0, text.find(". ")); }

  // "main.0.weight and 3 others".
  std::string outsiders() const {
    std::vector<std::string> names;
    for (const auto& [name, parameter] : parameters_) {
      if (!parameter.grad().defined()) names.push_back(name);
    }
    if (names.empty()) return "some parameter";
    const size_t others = names.size() - 1;
    return others == 0 ? names.back() : fmt::format("{} and {} more", names.back(), others);
  }

  ReducerSettings settings_;
  std::shared_ptr<Group> group_;
  NamedTensors parameters_;
  std::unique_ptr<BucketReducer> reducer_;
  int64_t buckets_ = 0;
  bool learns_ = false;
};

// Dynamic mode has one reducer for the whole network. It is armed with the final loss just before
// the backward pass, so a recipe may call the network as often as it likes and through any member.
class DynamicSync final : public GradientSync {
 public:
  DynamicSync(const ReducerSettings& settings,
              bool fills_in,
              std::shared_ptr<Group> group,
              std::string player,
              NamedTensors parameters)
      : player_(std::move(player)),
        settings_(settings),
        fills_in_(fills_in),
        reduction_(settings, std::move(group), std::move(parameters)) {}

  void begin(bool last) override {
    last_ = last;
    if (last) reduction_.begin_last();
  }

  at::Tensor expect_backward(const at::Tensor& loss) override {
    if (!last_) return loss;
    reduction_.arm({loss});
    if (!fills_in_) return loss;
    return with_zero_gradients(loss, unused_parameters(loss, reduction_.parameters()));
  }

  void finish() override { reduction_.finish(player_); }
  int64_t buckets() const override { return reduction_.buckets(); }
  std::string description() const override { return describe(settings_, fills_in_, buckets()); }

 private:
  std::string player_;
  ReducerSettings settings_;
  bool fills_in_;
  Reduction reduction_;
  bool last_ = false;
};

// Whether a call of the part `called` may run through `part`: one of them is the other one or lies
// inside it.
bool touches(const std::string& called, const std::string& part) {
  const auto inside = [](const std::string& inner, const std::string& outer) {
    return outer.empty() || inner == outer || starts_with(inner, outer + ".");
  };
  return inside(called, part) || inside(part, called);
}

// Wrapper mode has one reducer for each part with parameters. It is armed with the outputs of the
// part's forward passes, as DistributedDataParallel does it. At least one part must have
// parameters.
class WrapperSync final : public GradientSync {
 public:
  WrapperSync(const ReducerSettings& settings,
              bool fills_in,
              const std::shared_ptr<Group>& group,
              std::string player,
              std::vector<SyncPart> parts)
      : player_(std::move(player)), settings_(settings), fills_in_(fills_in) {
    for (SyncPart& part : parts) {
      names_.push_back(part.name);
      if (part.parameters.empty()) continue;
      parts_.push_back({part.name,
                        std::make_unique<Reduction>(settings, group, std::move(part.parameters)),
                        {}});
    }
  }

  void begin(bool last) override {
    last_ = last;
    for (Part& part : parts_) {
      part.outputs.clear();
      if (last) part.reduction->begin_last();
    }
  }

  void forwarded(const std::string& called, const at::Tensor& output) override {
    if (std::none_of(names_.begin(), names_.end(), [&](const std::string& name) {
          return touches(called, name);
        })) {
      throw std::logic_error("wrapper mode: " + full_name(called) + " is in none of its parts");
    }
    if (!last_ || !output.requires_grad()) return;
    for (Part& part : parts_) {
      if (!touches(called, part.name) || !part.reduction->trains()) continue;
      part.outputs.push_back(output);
      // The search begins at the outputs of all calls so far, because a parameter that only an
      // earlier call used takes part in the loss too.
      part.reduction->arm(part.outputs);
    }
  }

  at::Tensor expect_backward(const at::Tensor& loss) override {
    if (!last_) return loss;
    at::Tensor whole = loss;
    for (Part& part : parts_) {
      if (!part.reduction->trains()) continue;
      if (part.outputs.empty()) {
        throw std::logic_error("wrapper mode: " + full_name(part.name) +
                               " was not called through its handle before backward");
      }
      // A loss that is a penalty alone does not depend on the bias of the last layer, and the
      // reducer would wait for that parameter. With 0 times the outputs, every parameter takes
      // part.
      for (const at::Tensor& output : part.outputs) whole = whole + 0 * output.sum();
    }
    if (!fills_in_) return whole;
    NamedTensors unused;
    for (const Part& part : parts_) {
      if (!part.reduction->trains()) continue;
      for (auto& item : unused_parameters(whole, part.reduction->parameters()))
        unused.push_back(std::move(item));
    }
    return with_zero_gradients(whole, unused);
  }

  void finish() override {
    for (Part& part : parts_) {
      if (!part.outputs.empty()) part.reduction->finish(full_name(part.name));
      part.outputs.clear();
    }
  }

  int64_t buckets() const override {
    int64_t all = 0;
    for (const Part& part : parts_) all += part.reduction->buckets();
    return all;
  }

  std::string description() const override { return describe(settings_, fills_in_, buckets()); }

 private:
  struct Part {
    std::string name;
    std::unique_ptr<Reduction> reduction;
    std::vector<at::Tensor> outputs;  // of the part's calls in this micro-batch
  };

  std::string full_name(const std::string& part) const {
    return part.empty() ? player_ : player_ + "." + part;
  }

  std::string player_;
  ReducerSettings settings_;
  bool fills_in_;
  std::vector<std::string> names_;  // of all parts
  std::vector<Part> parts_;         // the parts that have parameters
  bool last_ = false;
};

class NoSync final : public GradientSync {};

// After the backward pass, copies all gradients into one flat buffer and reduces it at once. This
// needs no hooks and no Reducer.
class FlatSync final : public GradientSync {
 public:
  FlatSync(const DistOptions& options, std::shared_ptr<Group> group, const NamedTensors& parameters)
      : group_(std::move(group)),
        compress_(options.compress),
        views_(options.gradient_as_bucket_view) {
    for (const auto& [name, parameter] : parameters) parameters_.push_back(parameter);
  }

  void finish() override {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> flat;
    std::vector<bool> took_part;
    for (at::Tensor& p : parameters_) {
      took_part.push_back(p.grad().defined());
      if (!took_part.back()) p.mutable_grad() = torch::zeros_like(p);
      flat.push_back(p.grad().reshape(-1));
    }
    // Kept, so that a recorded optimizer step finds the gradients at the same addresses.
    if (all_.defined()) {
      torch::cat_out(all_, flat);
    } else {
      all_ = torch::cat(flat);
    }
    // The gradients are divided before they are added up, as the Reducer does it, so that every
    // mode gives the same bits.
    at::Tensor sent = compressed_share(all_, compress_, group_->world());
    group_->sum_(sent, kGradients);
    all_.copy_(sent);
    int64_t at = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      at::Tensor& p = parameters_[i];
      const at::Tensor mean = all_.narrow(0, at, p.numel()).view(p.sizes());
      if (views_ || !took_part[i]) {
        p.mutable_grad() = mean;
      } else {
        p.mutable_grad().copy_(mean);
      }
      at += p.numel();
    }
  }

  int64_t buckets() const override { return 1; }
  std::string description() const override { return "one flat all-reduce"; }

 private:
  std::shared_ptr<Group> group_;
  Compress compress_;
  bool views_;
  std::vector<at::Tensor> parameters_;
  at::Tensor all_;  // the gradients, one after the other
};

void check_parameters(const std::string& player, const std::vector<SyncPart>& parts) {
  for (const SyncPart& part : parts) {
    for (const auto& [name, parameter] : part.parameters) {
      if (!parameter.requires_grad())
        throw std::logic_error("gradient sync of " + player + ": " + name + " needs no gradient");
    }
  }
}

}  // namespace

std::function<at::Tensor(const at::Tensor&)> rank_sum(std::shared_ptr<Group> group) {
  return [group = std::move(group)](const at::Tensor& x) { return RankSum::apply(x, group); };
}

at::Tensor compressed_share(const at::Tensor& gradient, Compress how, int64_t ranks) {
  const at::Tensor share = gradient / static_cast<double>(ranks);
  switch (how) {
    case Compress::kNone:
      return share;
    case Compress::kFp16:
      return share.to(at::kHalf);
    case Compress::kBf16:
      return share.to(at::kBFloat16);
  }
  throw std::logic_error("no such compression");
}

NamedTensors unused_parameters(const at::Tensor& loss, const NamedTensors& parameters) {
  std::unordered_set<const torch::autograd::Node*> seen;
  std::unordered_set<const at::TensorImpl*> reached;
  std::vector<torch::autograd::Node*> open;
  if (loss.grad_fn()) open.push_back(loss.grad_fn().get());
  while (!open.empty()) {
    torch::autograd::Node* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node))
      reached.insert(leaf->variable.unsafeGetTensorImpl());
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.function) open.push_back(edge.function.get());
    }
  }
  NamedTensors unused;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.requires_grad() && reached.count(parameter.unsafeGetTensorImpl()) == 0)
      unused.emplace_back(name, parameter);
  }
  return unused;
}

at::Tensor with_zero_gradients(const at::Tensor& loss, const NamedTensors& parameters) {
  at::Tensor whole = loss;
  for (const auto& [name, parameter] : parameters) whole = ZeroGradient::apply(whole, parameter);
  return whole;
}

std::unique_ptr<GradientSync> GradientSync::create(const DistOptions& options,
                                                   std::shared_ptr<Group> group,
                                                   const std::string& player,
                                                   std::vector<SyncPart> parts,
                                                   SyncPromise promise) {
  check_parameters(player, parts);
  NamedTensors all;
  for (const SyncPart& part : parts)
    all.insert(all.end(), part.parameters.begin(), part.parameters.end());
  if (group->world() == 1 || all.empty()) return std::make_unique<NoSync>();
  const ReducerSettings settings = settings_of(options, promise);
  const bool fills = fills_in(options, promise);
  switch (options.ddp_mode) {
    case DdpMode::kFlat:
      return std::make_unique<FlatSync>(options, std::move(group), all);
    case DdpMode::kDynamic:
      return std::make_unique<DynamicSync>(
          settings, fills, std::move(group), player, std::move(all));
    case DdpMode::kWrapper:
      return std::make_unique<WrapperSync>(settings, fills, group, player, std::move(parts));
  }
  throw std::logic_error("no such ddp mode");
}

}  // namespace gantrain
