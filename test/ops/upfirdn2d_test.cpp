// SPDX-License-Identifier: Apache-2.0
#include "ops/upfirdn2d/upfirdn2d.h"

#include "ops/cases.h"
#include "support/catch.h"
#include "support/gradient_checks.h"

using namespace gantrain;

namespace {

at::Tensor run(const std::string& op,
               const at::Tensor& x,
               const at::Tensor& f,
               const UpFirDn& how) {
  if (op == "filter2d") return filter2d(x, f, how);
  if (op == "upsample2d") return upsample2d(x, f, how);
  if (op == "downsample2d") return downsample2d(x, f, how);
  return upfirdn2d(x, f, how);
}

// Asymmetric pads, crops, both ranks of filters, unequal axes.
std::vector<std::pair<at::Tensor, UpFirDn>> odd_cases() {
  const auto f = [](std::vector<int64_t> size) { return torch::randn(size, at::kDouble); };
  return {
      {f({4, 4}), {{2, 2}, {1, 1}, {2, 1, 2, 1}, false, 4}},
      {f({4, 4}), {{1, 1}, {2, 2}, {1, 1, 1, 1}, true, 1}},
      {f({3, 5}), {{3, 2}, {2, 3}, {4, -1, -2, 5}, false, 0.7}},
      {f({2, 1}), {{1, 4}, {3, 1}, {0, 3, 1, 0}, true, 1}},
      {f({5}), {{2, 3}, {3, 2}, {-1, 6, 4, 2}, false, 2}},
      {f({12}), {{2, 2}, {1, 1}, {6, 5, 6, 5}, true, 4}},
      {f({1}), {{1, 1}, {2, 2}, {-1, -1, -2, 0}, false, 1}},
      {at::Tensor(), {{2, 1}, {1, 1}, {1, -2, 0, 1}, false, 3}},
      {f({6, 6}), {{4, 4}, {2, 2}, {5, 5, 7, 1}, false, 1}},
      {f({3, 3}), {{2, 2}, {4, 4}, {1, 9, 3, 2}, true, 1}},
  };
}

}  // namespace

TEST_CASE("UpFirDnMatchesReference") {
  for_each_case("ops_upfirdn2d",
                {"upfirdn2d", "filter2d", "upsample2d", "downsample2d"},
                [](OperatorCase& c) {
                  UpFirDn how;
                  if (c.what.contains("up")) how.up = scale_of(c.what["up"]);
                  if (c.what.contains("down")) how.down = scale_of(c.what["down"]);
                  how.padding = padding_of(c.what["padding"]);
                  how.flip_filter = c.what["flip_filter"];
                  how.gain = c.what["gain"];
                  const at::Tensor x = c.leaf("x");
                  const at::Tensor y = run(c.what["op"], x, c["f"], how);
                  c.check("y", y);
                  c.check_gradients(y, {{"x", x}});
                });
}

TEST_CASE("SetupFilterMatchesReference") {
  for_each_case("ops_setup_filter", {"setup_filter"}, [](OperatorCase& c) {
    FilterSetup how;
    how.normalise = c.what["normalize"];
    how.flip = c.what["flip_filter"];
    how.gain = c.what["gain"];
    if (!c.what["separable"].is_null()) how.separable = c.what["separable"].get<bool>() ? 1 : 0;
    REQUIRE(c["f"].defined() != c.what["f_is_none"].get<bool>());
    c.check("out", setup_filter(c["f"], how));
  });
}

TEST_CASE("AFilterFromTapsSumsToOne") {
  const at::Tensor f = setup_filter({1, 3, 3, 1});
  CHECK(f.sizes() == at::IntArrayRef({4, 4}));
  CHECK(f.scalar_type() == at::kFloat);
  CHECK(f[1][2].item<float>() == 9 / 64.f);
  CHECK(setup_filter({1, 2, 3, 4, 4, 3, 2, 1}).sizes() == at::IntArrayRef({8}));
}

TEST_CASE("UpFirDnsDerivativesMatchDifferences") {
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (const auto& [f, how] : odd_cases()) {
      const auto y = [f = f, how = how](const Tensors& in) { return upfirdn2d(in[0], f, how); };
      CAPTURE(f.defined() ? f.sizes() : at::IntArrayRef(), how.up.x, how.down.x, how.padding.x0);
      const Tensors x = {torch::randn({2, 1, 7, 9}, at::kDouble)};
      CHECK(gradient_error(y, x) < kGradientTolerance);
      CHECK(second_gradient_error(y, x) < kGradientTolerance);
    }
  }
}

TEST_CASE("BothSetsOfUpFirDnAgree") {
  for (const auto& [f, how] : odd_cases()) {
    for (const int64_t width : {5, 32, 67}) {
      const at::Tensor x = torch::randn({2, 3, 11, width}, at::kDouble);
      const WithKernels with(KernelSet::kRef);
      const at::Tensor reference = upfirdn2d(x, f, how);
      const WithKernels fast(KernelSet::kAuto);
      CHECK(scaled_error(upfirdn2d(x, f, how), reference) < 1e-13);
      CHECK(scaled_error(upfirdn2d(x.to(at::kFloat), f, how), reference) < 1e-6);
      const at::Tensor strided = x.contiguous(at::MemoryFormat::ChannelsLast);
      CHECK(scaled_error(upfirdn2d(strided, f, how), reference) < 1e-13);
      const at::Tensor gaps = at::stack({x, x}, -1).select(-1, 1).to(at::kFloat);
      CHECK(scaled_error(upfirdn2d(gaps, f, how), reference) < 1e-6);
      const at::Tensor last = upfirdn2d(strided.to(at::kFloat), f, how);
      CHECK(last.is_contiguous(at::MemoryFormat::ChannelsLast));
      CHECK(scaled_error(last, reference) < 1e-6);
    }
  }
}

TEST_CASE("TheKernelsAdjointIsItsTranspose") {
  for (const auto& [f, how] : odd_cases()) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const at::Tensor x = torch::randn({2, 5, 13, 37}).contiguous(format).requires_grad_(true);
      const at::Tensor y = upfirdn2d(x, f, how), dy = torch::randn_like(y);
      const at::Tensor dx = torch::autograd::grad({y}, {x}, {dy})[0];
      const double one = (y.detach().to(at::kDouble) * dy).sum().item<double>();
      const double other = (x.detach().to(at::kDouble) * dx).sum().item<double>();
      const double scale = (y.detach().to(at::kDouble) * dy).abs().sum().item<double>();
      CAPTURE(f.defined() ? f.sizes() : at::IntArrayRef(), how.up.x, how.down.x);
      CHECK(std::abs(one - other) < 1e-6 * scale);
    }
  }
}

TEST_CASE("AnEmptyBatchIsResampledToAnEmptyOne") {
  const at::Tensor f = setup_filter({1, 3, 3, 1});
  CHECK(upsample2d(torch::randn({0, 3, 4, 5}), f).sizes() == at::IntArrayRef({0, 3, 8, 10}));
}

TEST_CASE("UpFirDnHasTheSameBitsOnAnyNumberOfThreads") {
  const int before = at::get_num_threads();
  const at::Tensor x = torch::randn({3, 20, 33, 35}), f = setup_filter({1, 3, 3, 1});
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    at::set_num_threads(1);
    const at::Tensor one = upsample2d(x.contiguous(format), f);
    at::set_num_threads(3);
    CHECK(upsample2d(x.contiguous(format), f).equal(one));
  }
  at::set_num_threads(before);
}

TEST_CASE("UpSamplingAConstantKeepsItInside") {
  const at::Tensor f = setup_filter({1, 3, 3, 1});
  const at::Tensor up = upsample2d(torch::ones({1, 2, 8, 6}), f);
  CHECK(up.sizes() == at::IntArrayRef({1, 2, 16, 12}));
  const at::Tensor inside = up.slice(2, 2, -2).slice(3, 2, -2);
  CHECK(scaled_error(inside, torch::ones_like(inside)) < 1e-6);
  const at::Tensor down = downsample2d(up, f);
  CHECK(down.sizes() == at::IntArrayRef({1, 2, 8, 6}));
}

TEST_CASE("UpFirDnKeepsHalfTypes") {
  const at::Tensor f = setup_filter({1, 3, 3, 1}), x = torch::randn({2, 3, 8, 8});
  const at::Tensor reference = upsample2d(x, f);
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (const auto& [type, tolerance] :
         {std::pair{at::kHalf, 2e-3}, std::pair{at::kBFloat16, 2e-2}}) {
      const at::Tensor leaf = x.to(type).requires_grad_(true);
      const at::Tensor y = upsample2d(leaf, f);
      CHECK(y.scalar_type() == type);
      CHECK(scaled_error(y.detach(), reference) < tolerance);
      y.sum().backward();
      CHECK(leaf.grad().scalar_type() == type);
    }
  }
}

TEST_CASE("UpFirDnRefusesToLeaveNothing") {
  CHECK_THROWS(upfirdn2d(torch::ones({1, 1, 2, 2}), torch::ones({4, 4}), {}));
  CHECK_THROWS(upfirdn2d(torch::ones({2, 2}), torch::ones({4, 4}), {}));
}
