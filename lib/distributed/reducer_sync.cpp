// SPDX-License-Identifier: Apache-2.0
#include "distributed/reducer_sync.h"

#include <algorithm>

#include "core/torch.h"
#include "distributed/reducer.h"
#include "distributed/unused_parameters.h"
#include "util/text.h"

namespace gantrain {

namespace {

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
  return fmt::format("{}, {} bucket{}", search, buckets, buckets == 1 ? "" : "s");
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
    reducer_ = std::make_unique<BucketReducer>(settings_, *group_, parameters_);
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

}  // namespace

std::unique_ptr<GradientSync> make_dynamic_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts,
                                                SyncPromise promise) {
  NamedTensors all;
  for (const SyncPart& part : parts)
    all.insert(all.end(), part.parameters.begin(), part.parameters.end());
  return std::make_unique<DynamicSync>(settings_of(options, promise),
                                       fills_in(options, promise),
                                       std::move(group),
                                       player,
                                       std::move(all));
}

std::unique_ptr<GradientSync> make_wrapper_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts,
                                                SyncPromise promise) {
  return std::make_unique<WrapperSync>(
      settings_of(options, promise), fills_in(options, promise), group, player, std::move(parts));
}

}  // namespace gantrain
