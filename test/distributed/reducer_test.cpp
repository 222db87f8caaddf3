// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "distributed/gradient_sync.h"
#include "support/catch.h"
#include "support/spawn_ranks.h"
#include "support/tensor_checks.h"

using namespace gantrain;

namespace {

std::shared_ptr<Group> two_ranks(const Rendezvous& r) {
  return Group::join(r, BackendKind::kGloo, at::kCPU, 20);
}

NamedTensors parameters() {
  return {{"a", torch::ones({256}, torch::requires_grad())},
          {"b", torch::ones({256}, torch::requires_grad())},
          {"c", torch::ones({256}, torch::requires_grad())}};
}

at::Tensor loss_of(const NamedTensors& all, double factor) {
  at::Tensor sum = torch::zeros({});
  for (const auto& [name, p] : all) sum = sum + factor * p.sum();
  return sum;
}

size_t hooks_on(const at::Tensor& parameter) {
  return torch::autograd::impl::grad_accumulator(parameter)->post_hooks().size();
}

}  // namespace

TEST_CASE("BucketsAreCutAtTheirCapsInTheOrderGiven") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = two_ranks(r);
          ReducerSettings s;
          if (BucketReducer::make(s, *group, parameters())->buckets() != 1) return 1;
          s.first_bucket_bytes = s.bucket_bytes = 1024;
          if (BucketReducer::make(s, *group, parameters())->buckets() != 3) return 2;
          s.bucket_bytes = 1 << 20;  // the first alone is small
          return BucketReducer::make(s, *group, parameters())->buckets() == 2 ? 0 : 3;
        }) == 0);
}

TEST_CASE("ABackwardAfterAnArmedReducerWasDestroyedIsClean") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = two_ranks(r);
          NamedTensors all = parameters();
          const auto mine = static_cast<double>(r.ranks.rank + 1);
          auto reducer = BucketReducer::make({}, *group, all);
          reducer->arm({});
          all[0].second.sum().backward();  // the reducer waits for the others
          const bool unfinished = [&] {
            try {
              reducer->check_finished();
            } catch (const c10::Error&) {
              return true;
            }
            return false;
          }();
          if (!unfinished || hooks_on(all[0].second) != 1) return 1;
          reducer.reset();
          for (auto& [name, p] : all) p.mutable_grad() = at::Tensor();
          const Traffic before = group->traffic();
          loss_of(all, mine).backward();
          if (hooks_on(all[0].second) != 0) return 2;
          if (group->traffic().collectives != before.collectives) return 3;
          if (all[2].second.grad()[0].item<float>() != static_cast<float>(mine)) return 4;
          // And a new one reduces.
          const auto next = BucketReducer::make({}, *group, all);
          for (auto& [name, p] : all) p.mutable_grad() = at::Tensor();
          next->arm({});
          loss_of(all, mine).backward();
          next->check_finished();
          return all[2].second.grad()[0].item<float>() == 1.5F ? 0 : 5;
        }) == 0);
}

TEST_CASE("UnusedBucketsAreLeftOutWhereRanksAgreeOnThem") {
  CHECK(failed_ranks(2, [](const Rendezvous& r) {
          const auto group = two_ranks(r);
          for (const bool skip : {false, true}) {
            NamedTensors all = parameters();
            ReducerSettings s;
            s.find_unused = true;
            s.skip_unused = skip;
            s.first_bucket_bytes = s.bucket_bytes = 1024;  // a bucket for each
            const auto reducer = BucketReducer::make(s, *group, all);
            for (int repeat = 0; repeat < 3; ++repeat) {
              for (auto& [name, p] : all) p.mutable_grad() = at::Tensor();
              const Traffic before = group->traffic();
              const at::Tensor loss = all[static_cast<size_t>(repeat)].second.sum();
              reducer->arm({loss});
              loss.backward();
              reducer->check_finished();
              const int64_t bytes = group->traffic().bytes - before.bytes;
              const int64_t bitmap = 3 * 4;
              if (bytes != (skip ? 1024 : 3 * 1024) + bitmap) return 1;
              for (size_t i = 0; i < 3; ++i) {
                if (all[i].second.grad().defined() != (i == static_cast<size_t>(repeat))) return 2;
              }
            }
          }
          return 0;
        }) == 0);
}
