// SPDX-License-Identifier: Apache-2.0
// The only file that names c10d::Reducer. scripts/cmake/Reducer.cmake tries its constructor at
// configure time; where it does not fit, reducer_absent.cpp is compiled instead.
#include "distributed/reducer.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "core/torch.h"
#include "distributed/compress.h"

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

}  // namespace

struct BucketReducer::Impl {
  std::unique_ptr<c10d::Reducer> reducer;
  int64_t buckets = 0;
  bool static_graph = false;
};

BucketReducer::BucketReducer(const ReducerSettings& s,
                             const Group& group,
                             const NamedTensors& parameters)
    : impl_(std::make_unique<Impl>()) {
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
  impl_->buckets = static_cast<int64_t>(buckets.size());
  impl_->static_graph = s.static_graph;
  impl_->reducer = std::make_unique<c10d::Reducer>(tensors,
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
  if (s.static_graph) impl_->reducer->set_static_graph();
  if (s.compress != Compress::kNone)
    impl_->reducer->register_comm_hook(std::make_unique<CompressHook>(process_group, s.compress));
}

BucketReducer::~BucketReducer() = default;

void BucketReducer::arm(const std::vector<at::Tensor>& outputs) {
  impl_->reducer->prepare_for_backward(outputs);
}

void BucketReducer::reduce_late() { impl_->reducer->delay_all_reduce(); }

void BucketReducer::check_finished() { impl_->reducer->check_finalized(); }

void BucketReducer::rebuild_buckets() { impl_->reducer->rebuild_buckets(); }

int64_t BucketReducer::buckets() const { return impl_->buckets; }

bool BucketReducer::static_graph() const { return impl_->static_graph; }

}  // namespace gantrain
