// SPDX-License-Identifier: Apache-2.0
// The only file that names c10d::Reducer. scripts/cmake/Reducer.cmake tries its constructor at
// configure time; where it does not fit, reducer_absent.cpp is compiled instead.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "core/torch.h"
#include "distributed/gradient_sync.h"

namespace gantrain {

namespace {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

// The mean of a bucket over ranks in half precision. With a hook the Reducer leaves the division to
// it.
class CompressHook final : public c10d::CppCommHookInterface<ProcessGroup> {
 public:
  CompressHook(ProcessGroup group, Compress how)
      : CppCommHookInterface(std::move(group)), how_(how) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor full = bucket.getBufferRef();
    std::vector<at::Tensor> small = {compressed_share(full, how_, state_->getSize())};
    const auto sent = state_->allreduce(small)->getFuture();
    return sent->then(
        [full, small](c10::ivalue::Future& future) {
          if (future.hasError()) std::rethrow_exception(future.exception_ptr());
          full.copy_(small[0]);
          return c10::IValue(full);
        },
        c10::TensorType::get());
  }

 private:
  Compress how_;
};

class TorchReducer final : public BucketReducer {
 public:
  TorchReducer(const ReducerSettings& s, const Group& group, const NamedTensors& parameters) {
    std::vector<at::Tensor> tensors;
    std::unordered_map<size_t, std::string> names;
    for (const auto& [name, tensor] : parameters) {
      names[tensors.size()] = name;
      tensors.push_back(tensor);
    }
    const auto first = static_cast<size_t>(s.first_bucket_bytes);
    const auto others = static_cast<size_t>(s.bucket_bytes);
    const std::vector<bool> sparse(tensors.size(), false);
    const auto buckets =
        std::get<0>(c10d::compute_bucket_assignment_by_size(tensors, {first, others}, sparse));
    const auto process_group = ProcessGroup::reclaim_copy(group.process_group());
    buckets_ = static_cast<int64_t>(buckets.size());
    reducer_ = std::make_unique<c10d::Reducer>(tensors,
                                               buckets,
                                               process_group,
                                               sparse,
                                               s.bucket_bytes,
                                               s.find_unused,
                                               s.views,
                                               names,
                                               s.first_bucket_bytes,
                                               s.skip_unused,
                                               /*use_python_reducer=*/false,
                                               std::vector<int64_t>{});
    if (s.static_graph) reducer_->set_static_graph();
    if (s.compress != Compress::kNone)
      reducer_->register_comm_hook(std::make_unique<CompressHook>(process_group, s.compress));
  }

  void arm(const std::vector<at::Tensor>& outputs) override {
    reducer_->prepare_for_backward(outputs);
  }
  void reduce_late() override { reducer_->delay_all_reduce(); }
  void check_finished() override { reducer_->check_finalized(); }
  void rebuild_buckets() override { reducer_->rebuild_buckets(); }
  int64_t buckets() const override { return buckets_; }

 private:
  std::unique_ptr<c10d::Reducer> reducer_;
  int64_t buckets_ = 0;
};

}  // namespace

std::unique_ptr<BucketReducer> BucketReducer::make(const ReducerSettings& settings,
                                                   const Group& group,
                                                   const NamedTensors& parameters) {
  return std::make_unique<TorchReducer>(settings, group, parameters);
}

}  // namespace gantrain
