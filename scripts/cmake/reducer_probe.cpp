// SPDX-License-Identifier: Apache-2.0
// Compiles if c10d::Reducer is as lib/distributed/reducer.cpp uses it.
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>

namespace {

using Reducer = c10d::Reducer;
using Tensors = std::vector<at::Tensor>;

static_assert(std::is_constructible_v<Reducer,
                                      Tensors,
                                      std::vector<std::vector<size_t>>,
                                      c10::intrusive_ptr<c10d::ProcessGroup>,
                                      std::vector<bool>,
                                      int64_t,
                                      bool,
                                      bool,
                                      std::unordered_map<size_t, std::string>,
                                      int64_t,
                                      bool,
                                      bool,
                                      std::vector<int64_t>>);

[[maybe_unused]] void use(Reducer& reducer, const Tensors& tensors) {
  reducer.prepare_for_backward(tensors);
  reducer.check_finalized();
  reducer.rebuild_buckets();
  reducer.delay_all_reduce();
  reducer.set_static_graph();
  reducer.register_comm_hook(std::unique_ptr<c10d::CommHookInterface>());
  c10d::compute_bucket_assignment_by_size(tensors, std::vector<size_t>{1}, std::vector<bool>{false});
}

}  // namespace
