// SPDX-License-Identifier: Apache-2.0
#include "ops/drawn_matrices/drawn_matrices.h"

#include <ATen/record_function.h>

#include <set>

#include "augment/augment.h"
#include "core/device.h"
#include "core/torch.h"
#include "cuda_kernels/random_cases.h"
#include "host_launching.h"
#include "ops/kernels.h"
#include "support/catch.h"

using namespace gantrain;
using at::Tensor;

namespace {

enum class Route { kHost, kComposed, kKernels };

struct Call {
  double p;
  std::vector<int64_t> picture;  // [C, H, W]
  Samples samples;
  const char* pipe = "bgcfnc";
};

// What augment() makes of pictures, and its gradient.
std::array<Tensor, 2> augmented(Route route, const Call& call) {
  const auto waits = route == Route::kHost ? nullptr : std::make_unique<const AssumeReadsWait>();
  const WithCudaKernels table;
  const WithKernels kernels(route == Route::kKernels ? KernelSet::kAuto : KernelSet::kRef);
  torch::manual_seed(1);
  std::vector<int64_t> sizes = call.picture;
  sizes.insert(sizes.begin(), call.samples.count);
  const Tensor x = at::randn(sizes, at::kDouble).requires_grad_(true);
  StreamDraws draws(make_draw_key(3, 5, 7, at::kCPU), call.samples);
  const Tensor y =
      augment(x, at::scalar_tensor(call.p, at::kDouble), augment_pipe(call.pipe), draws);
  return {y.detach(), torch::autograd::grad({y}, {x}, {at::ones_like(y)})[0]};
}

// Operators that call no other and compute something, as a GPU's launches are.
class LaunchCounter {
 public:
  LaunchCounter() {
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&began, &ended).scopes({at::RecordScope::FUNCTION}));
    count = 0;
    inner = {0};
  }
  ~LaunchCounter() { at::removeCallback(handle_); }
  int64_t launches() const { return count + host_launches().guarded - before_; }

 private:
  static bool only_looks(const std::string& name) {
    static const std::set<std::string> views = {
        "aten::view",        "aten::select",      "aten::narrow",     "aten::slice",
        "aten::expand",      "aten::unsqueeze",   "aten::squeeze",    "aten::as_strided",
        "aten::reshape",     "aten::detach",      "detach",           "aten::transpose",
        "aten::permute",     "aten::t",           "aten::empty",      "aten::empty_strided",
        "aten::empty_like",  "aten::alias",       "aten::unbind",     "aten::resolve_conj",
        "aten::resolve_neg", "aten::result_type", "aten::contiguous", "aten::to",
        "aten::is_nonzero",  "aten::lift_fresh",  "aten::expand_as",  "aten::_unsafe_view"};
    return views.count(name) > 0;
  }
  static std::unique_ptr<at::ObserverContext> began(const at::RecordFunction&) {
    inner.push_back(0);
    return nullptr;
  }
  static void ended(const at::RecordFunction& f, at::ObserverContext*) {
    const int64_t within = inner.back();
    inner.pop_back();
    const bool launched = within == 0 && !only_looks(f.name());
    count += launched ? 1 : 0;
    inner.back() += within + (launched ? 1 : 0);
  }

  at::CallbackHandle handle_;
  int64_t before_ = host_launches().guarded;
  static inline std::vector<int64_t> inner;
  static inline int64_t count = 0;
};

int64_t launches_of(Route route, const Samples& samples) {
  const AssumeReadsWait waits;
  const WithCudaKernels table;
  const WithKernels kernels(route == Route::kKernels ? KernelSet::kAuto : KernelSet::kRef);
  const Tensor x = at::randn({samples.count, 3, 24, 24});
  StreamDraws draws(make_draw_key(3, 5, 7, at::kCPU), samples);
  const LaunchCounter counter;
  augment(x, at::scalar_tensor(.5, at::kDouble), augment_pipe("bgc"), draws);
  return counter.launches();
}

}  // namespace

TEST_CASE("MatricesDrawnInOneKernelAreThoseOfTheHostAndOfOperators") {
  const Samples few{5, 1, 3}, share{1, 3, 4}, many{0, 1, 300}, share_of_many{2, 3, 100};
  for (const Call& call : {Call{1e-9, {3, 24, 22}, few},
                           {.3, {3, 24, 22}, few},
                           {.9, {4, 24, 22}, few},
                           {1, {1, 22, 24}, share},
                           {1, {3, 3, 5}, many, "bgc"},
                           {.5, {3, 5, 3}, share_of_many, "bgc"}}) {
    CAPTURE(call.p, call.picture, call.samples.stride, call.samples.count);
    const auto found = augmented(Route::kKernels, call);
    for (const Route other : {Route::kHost, Route::kComposed}) {
      const auto expected = augmented(other, call);
      CHECK(share_of_error(found[0], expected[0]) < 1e-9);
      CHECK(share_of_error(found[1], expected[1]) < 1e-9);
    }
  }
}

TEST_CASE("AnAugmentationIsAFewLaunches") {
  for (const Samples& samples : {Samples{0, 1, 4}, Samples{1, 2, 4}}) {
    const int64_t composed = launches_of(Route::kComposed, samples);
    const int64_t kernels = launches_of(Route::kKernels, samples);
    UNSCOPED_INFO(composed << " by operators, " << kernels << " by kernels");
    CHECK(kernels <= 16);
    CHECK(composed > 300);
  }
}

TEST_CASE("DrawnMatricesRefuseMoreStepsThanTheyHaveRoomFor") {
  const WithCudaKernels table;
  DrawnMatrices how;
  how.key = make_draw_key(1, 0, 0, at::kCPU);
  how.samples = {0, 1, 1};
  how.steps.resize(DrawnMatrices::kMost + 1);
  CHECK_THROWS_AS(drawn_matrices(at::ones({}, at::kDouble), how), c10::Error);
}
