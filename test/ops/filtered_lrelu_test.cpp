// SPDX-License-Identifier: Apache-2.0
#include "ops/filtered_lrelu/filtered_lrelu.h"

#include "ops/cases.h"
#include "support/catch.h"
#include "support/gradient_checks.h"

using namespace gantrain;

namespace {

FilteredLrelu how_of(OperatorCase& c) {
  FilteredLrelu how;
  how.up_filter = c["fu"];
  how.down_filter = c["fd"];
  if (c.what["flip_filter"].get<bool>()) {
    // The operator convolves; a correlation is a convolution with the filter turned round.
    how.up_filter = how.up_filter.flip({0});
    how.down_filter = how.down_filter.flip({0, 1});
  }
  how.up = c.what["up"];
  how.down = c.what["down"];
  for (size_t i = 0; i < 4; ++i) how.padding[i] = c.what["padding"][i];
  if (c.what["gain"].is_number()) how.gain = c.what["gain"];
  how.slope = c.what["slope"];
  if (!c.what["clamp"].is_null()) how.clamp = c.what["clamp"];
  return how;
}

// Without a filter too, and with sizes and pads that are no multiples of anything.
std::vector<FilteredLrelu> odd_steps() {
  const auto f = [](std::vector<int64_t> size) { return torch::rand(size) + 0.1; };
  return {
      {f({12}), f({12}), 2, 2, {9, 8, 9, 8}},
      {f({24}), f({12}), 4, 2, {-6, -9, 15, 14}, 1, 0.1, 3},
      {f({12}), f({12, 12}), 2, 2, {9, 8, 10, 9}, 1.4, 0.3, 5},
      {f({5}), f({4, 3}), 2, 3, {4, 5, -2, 7}, 1.3, 0.1},
      {f({3, 4}), f({6}), 3, 1, {1, 2, 3, 0}, 0.7, 0.2, 1},
      {at::Tensor(), f({6}), 1, 2, {2, 3, 3, 2}},
      {f({12}), at::Tensor(), 2, 1, {5, 6, 6, 5}, 2, 0, 2},
      {at::Tensor(), at::Tensor(), 1, 1, {1, 0, -1, 2}, 1, 1, 0.7},
      {f({12}), f({12}), 2, 2, {9, 8, 9, 8}, 1, 1},
  };
}

// Inputs in float64 for which no number of the higher rate is at a bend of the activation.
Tensors inputs_away_from_bends(const FilteredLrelu& how) {
  constexpr double kAway = 2e-3;
  FilteredLrelu linear = how;
  linear.down_filter = at::Tensor();
  linear.down = 1;
  linear.slope = 1;
  linear.clamp = std::numeric_limits<double>::infinity();
  while (true) {
    const Tensors in = {torch::randn({1, 2, 12, 13}, at::kDouble), torch::randn({2}, at::kDouble)};
    const at::Tensor v = filtered_lrelu(in[0], in[1], linear);
    const at::Tensor size = at::leaky_relu(v, how.slope).abs();
    // What is 0 has met no pixel.
    const at::Tensor near =
        (v.abs() < kAway).logical_and(v != 0).logical_or((size - how.clamp).abs() < kAway);
    if (!near.any().item<bool>()) return in;
  }
}

struct Derived {
  at::Tensor y, dx, db, ddy;
};

// The result, its derivatives by x and b times dy, and the derivative of those, times vx and vb.
Derived derived(const Tensors& in, const FilteredLrelu& how) {
  const at::Tensor x = in[0].detach().requires_grad_(true), b = in[1].detach().requires_grad_(true);
  const at::Tensor y = filtered_lrelu(x, b, how);
  torch::manual_seed(3);
  const auto like = [&](const at::Tensor& t) {
    return torch::randn(t.sizes()).to(t.scalar_type());
  };
  const at::Tensor dy = like(y).requires_grad_(true);
  const Tensors d = torch::autograd::grad({y}, {x, b}, {dy}, true, /*create_graph=*/true);
  const Tensors second = torch::autograd::grad(d, {dy}, {like(x), like(b)});
  return {y.detach(), d[0].detach(), d[1].detach(), second[0]};
}

double worst_error(const Derived& a, const Derived& reference) {
  double worst = 0;
  for (const auto& [found, wanted] : {std::pair{a.y, reference.y},
                                      {a.dx, reference.dx},
                                      {a.db, reference.db},
                                      {a.ddy, reference.ddy}})
    worst = std::max(worst, scaled_error(found, wanted));
  return worst;
}

}  // namespace

TEST_CASE("FilteredLreluMatchesReference") {
  for_each_case("sg3_ops_filtered_lrelu", {}, [](OperatorCase& c) {
    const FilteredLrelu how = how_of(c);
    const at::Tensor x = c.leaf("x"), b = c.leaf("b"), dy = c.leaf("dy");
    const at::Tensor y = filtered_lrelu(x, b, how);
    c.check("y", y);
    Tensors inputs = {x}, v = {c["vx"]};
    if (b.defined()) inputs.push_back(b), v.push_back(c["vb"]);
    const Tensors d = torch::autograd::grad({y}, inputs, {dy}, true, /*create_graph=*/true);
    c.check("dx", d[0]);
    if (b.defined()) c.check("db", d[1]);
    c.check("ddy", torch::autograd::grad(d, {dy}, v)[0]);
  });
}

TEST_CASE("FilteredLrelusDerivativesMatchDifferences") {
  torch::manual_seed(2);
  for (const KernelSet set : {KernelSet::kAuto, KernelSet::kRef}) {
    const WithKernels with(set);
    for (const FilteredLrelu& how : odd_steps()) {
      const auto y = [&](const Tensors& in) { return filtered_lrelu(in[0], in[1], how); };
      CAPTURE(how.up, how.down, how.padding);
      const Tensors in = inputs_away_from_bends(how);
      CHECK(gradient_error(y, in) < kGradientTolerance);
      CHECK(second_gradient_error(y, in) < kGradientTolerance);
    }
  }
}

TEST_CASE("BothSetsOfFilteredLreluAgree") {
  torch::manual_seed(1);
  for (const FilteredLrelu& how : odd_steps()) {
    for (const int64_t channels : {3, 16, 37}) {
      for (const int64_t width : {14, 75}) {
        CAPTURE(how.up, how.down, how.padding, channels, width);
        const at::Tensor x = torch::randn({2, channels, 15, width}), b = torch::randn({channels});
        Derived reference;
        {
          const WithKernels with(KernelSet::kRef);
          reference = derived({x.to(at::kDouble), b.to(at::kDouble)}, how);
        }
        CHECK(worst_error(derived({x, b}, how), reference) < 5e-6);
        const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
        const Derived found = derived({last, b}, how);
        CHECK(worst_error(found, reference) < 5e-6);
        CHECK(found.y.is_contiguous(at::MemoryFormat::ChannelsLast));
        const at::Tensor gaps = at::stack({x, x}, -1).select(-1, 1);
        CHECK(worst_error(derived({gaps, b}, how), reference) < 5e-6);
        const torch::NoGradGuard no_graph;
        CHECK(scaled_error(filtered_lrelu(x, b, how), reference.y) < 5e-6);
      }
    }
  }
}

TEST_CASE("FilteredLreluHasTheSameBitsOnAnyNumberOfThreads") {
  const int before = at::get_num_threads();
  for (const FilteredLrelu& how : odd_steps()) {
    const Tensors in = {torch::randn({2, 5, 70, 75}), torch::randn({5})};
    at::set_num_threads(1);
    const Derived one = derived(in, how);
    at::set_num_threads(3);
    const Derived three = derived(in, how);
    CHECK(three.y.equal(one.y));
    CHECK(three.dx.equal(one.dx));
    CHECK(three.ddy.equal(one.ddy));
  }
  at::set_num_threads(before);
}

TEST_CASE("FilteredLreluOfAnEmptyBatchIsEmpty") {
  const FilteredLrelu how = odd_steps()[0];
  CHECK(filtered_lrelu(torch::ones({0, 3, 12, 13}), {}, how).sizes() ==
        at::IntArrayRef({0, 3, 10, 11}));
}

TEST_CASE("FilteredLreluKeepsItsInputsType") {
  for (const FilteredLrelu& how : odd_steps()) {
    const at::Tensor x = torch::randn({2, 3, 12, 13}), b = torch::randn({3});
    for (const auto& [type, tolerance] :
         {std::pair{at::kHalf, 6e-4}, std::pair{at::kBFloat16, 5e-3}}) {
      // Sums are those of float32: only the result is rounded.
      const at::Tensor reference =
          filtered_lrelu(x.to(type).to(at::kFloat), b.to(type).to(at::kFloat), how);
      const at::Tensor leaf = x.to(type).requires_grad_(true);
      const at::Tensor y = filtered_lrelu(leaf, b.to(type), how);
      CHECK(y.scalar_type() == type);
      CHECK(scaled_error(y.detach(), reference) < tolerance);
      y.sum().backward();
      CHECK(leaf.grad().scalar_type() == type);
    }
  }
}

TEST_CASE("FilteredLreluNamesWhatDoesNotFit") {
  const at::Tensor x = torch::ones({1, 2, 4, 4}), f = torch::ones({12}) / 12;
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const c10::Error& e) {
      return std::string(e.what_without_backtrace());
    }
    return std::string();
  };
  using Catch::Contains;
  CHECK_THAT(message([&] { filtered_lrelu(x[0], {}, {}); }), Contains("[2, 4, 4]"));
  CHECK_THAT(message([&] { filtered_lrelu(x, torch::ones({3}), {}); }), Contains("bias [3]"));
  CHECK_THAT(message([&] { filtered_lrelu(x, torch::ones({2}, at::kDouble), {}); }),
             Contains("Double"));
  CHECK_THAT(message([&] { filtered_lrelu(x, {}, {f, f, 2, 2}); }), Contains("8 pixels along x"));
  CHECK_THAT(message([&] {
               filtered_lrelu(x, {}, {f, f, 2, 2, {8, 8, 0, 0}});
             }),
             Contains("8 pixels along y"));
  CHECK_THAT(message([&] {
               filtered_lrelu(x, {}, {f.reshape({1, 3, 4}), {}});
             }),
             Contains("up_filter") && Contains("[1, 3, 4]"));
  CHECK_THAT(message([&] { filtered_lrelu(x, {}, {{}, {}, 1, 0}); }), Contains("1 and 0"));
  CHECK_THAT(message([&] { filtered_lrelu(x, {}, {{}, {}, 1, 1, {}, 0}); }), Contains("gain"));
}
