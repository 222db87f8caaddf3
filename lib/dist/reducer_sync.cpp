// SPDX-License-Identifier: Apache-2.0
// The only file that names c10d::Reducer, whose constructor differs between LibTorch releases.
#include "dist/reducer_sync.h"

#include <torch/torch.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "util/error.h"

namespace gantrain {

namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// One reducer and how many buckets it has.
struct Reducing {
  std::unique_ptr<c10d::Reducer> reducer;
  int64_t buckets = 0;
};

Reducing make_reducer(const DistOptions& options,
                      bool find_unused,
                      const Group& group,
                      NamedTensors parameters) {
  // The last layer's gradients are ready first.
  std::reverse(parameters.begin(), parameters.end());
  std::vector<at::Tensor> tensors;
  std::unordered_map<size_t, std::string> parameter_names;
  for (const auto& [name, tensor] : parameters) {
    parameter_names[tensors.size()] = name;
    tensors.push_back(tensor);
  }
  const auto first_cap = static_cast<size_t>(options.first_bucket_mb * kMiB);
  const auto cap = static_cast<size_t>(options.bucket_mb * kMiB);
  const std::vector<bool> sparse(tensors.size(), false);
  auto [buckets, limits] =
      c10d::compute_bucket_assignment_by_size(tensors, {first_cap, cap}, sparse);
  auto process_group = c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(group.process_group());
  const auto count = static_cast<int64_t>(buckets.size());
  auto reducer = std::make_unique<c10d::Reducer>(tensors,
                                                 buckets,
                                                 process_group,
                                                 sparse,
                                                 static_cast<int64_t>(cap),
                                                 find_unused,
                                                 options.gradient_as_bucket_view,
                                                 parameter_names,
                                                 static_cast<int64_t>(first_cap),
                                                 /*skip_all_reduce_unused_params=*/false,
                                                 /*use_python_reducer=*/false,
                                                 std::vector<int64_t>{});
  return {std::move(reducer), count};
}

// A backward that leaves the reducer waiting for a parameter would be an unreduced step.
void check_complete(c10d::Reducer& reducer, const std::string& player) {
  try {
    reducer.check_finalized();
  } catch (const c10::Error& e) {
    throw std::logic_error(
        "gradients of " + player +
        " were not all reduced: some parameter took no part in the loss; use --find-unused on. " +
        e.what_without_backtrace());
  }
}

class DynamicSync final : public GradientSync {
 public:
  DynamicSync(const DistOptions& options,
              std::shared_ptr<Group> group,
              std::string player,
              const std::vector<SyncPart>& parts)
      : group_(std::move(group)),
        player_(std::move(player)),
        find_unused_(options.find_unused != FindUnused::kOff) {
    NamedTensors all;
    for (const SyncPart& part : parts)
      all.insert(all.end(), part.parameters.begin(), part.parameters.end());
    reducing_ = make_reducer(options, find_unused_, *group_, std::move(all));
  }

  void begin(bool last) override { last_ = last; }

  at::Tensor expect_backward(const at::Tensor& loss) override {
    if (last_)
      reducing_.reducer->prepare_for_backward(find_unused_ ? std::vector<at::Tensor>{loss}
                                                           : std::vector<at::Tensor>{});
    return loss;
  }

  void finish() override { check_complete(*reducing_.reducer, player_); }
  int64_t buckets() const override { return reducing_.buckets; }

 private:
  std::shared_ptr<Group> group_;
  std::string player_;
  bool find_unused_;
  bool last_ = false;
  Reducing reducing_;
};

class WrapperSync final : public GradientSync {
 public:
  WrapperSync(const DistOptions& options,
              std::shared_ptr<Group> group,
              std::string player,
              std::vector<SyncPart> parts)
      : group_(std::move(group)),
        player_(std::move(player)),
        find_unused_(options.find_unused == FindUnused::kOn) {
    for (SyncPart& part : parts) {
      if (part.parameters.empty()) continue;
      armed_.push_back({part.name,
                        make_reducer(options, find_unused_, *group_, std::move(part.parameters)),
                        {}});
    }
  }

  void begin(bool last) override {
    last_ = last;
    for (Armed& part : armed_) part.outputs.clear();
  }

  void forwarded(const std::string& name, const at::Tensor& output) override {
    if (!last_ || !output.requires_grad()) return;
    for (Armed& part : armed_) {
      if (part.name != name) continue;
      part.outputs.push_back(output);
      // All outputs so far: a parameter that only an earlier call used is not unused.
      part.reducing.reducer->prepare_for_backward(find_unused_ ? part.outputs
                                                               : std::vector<at::Tensor>{});
      return;
    }
  }

  at::Tensor expect_backward(const at::Tensor& loss) override {
    if (!last_) return loss;
    at::Tensor whole = loss;
    for (Armed& part : armed_) {
      if (part.outputs.empty()) {
        throw std::logic_error("wrapper mode: " + player_ +
                               (part.name.empty() ? "" : "." + part.name) +
                               " was not called through its handle before backward");
      }
      // A loss made of a penalty alone leaves the last layer's bias out: DDP's own wrapper breaks
      // there.
      for (const at::Tensor& output : part.outputs) whole = whole + 0 * output.sum();
    }
    return whole;
  }

  void finish() override {
    for (Armed& part : armed_) {
      check_complete(*part.reducing.reducer, player_);
      part.outputs.clear();
    }
  }

  int64_t buckets() const override {
    int64_t all = 0;
    for (const Armed& part : armed_) all += part.reducing.buckets;
    return all;
  }

 private:
  struct Armed {
    std::string name;
    Reducing reducing;
    std::vector<at::Tensor> outputs;  // of this micro-batch
  };
  std::shared_ptr<Group> group_;
  std::string player_;
  bool find_unused_;
  bool last_ = false;
  std::vector<Armed> armed_;
};

}  // namespace

std::unique_ptr<GradientSync> make_dynamic_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts) {
  return std::make_unique<DynamicSync>(options, std::move(group), player, parts);
}

std::unique_ptr<GradientSync> make_wrapper_sync(const DistOptions& options,
                                                std::shared_ptr<Group> group,
                                                const std::string& player,
                                                std::vector<SyncPart> parts) {
  return std::make_unique<WrapperSync>(options, std::move(group), player, std::move(parts));
}

}  // namespace gantrain
