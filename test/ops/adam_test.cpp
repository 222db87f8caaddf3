// SPDX-License-Identifier: Apache-2.0
#include "ops/adam/adam.h"

#include "core/torch.h"
#include "support/catch.h"
#include "support/tensor_checks.h"

using namespace gantrain;

TEST_CASE("AdamIsThePapersAlgorithm") {
  const AdamSettings s{0.01, 0.5, 0.9, 1e-8};
  std::vector<at::Tensor> p = {torch::randn({5}, at::kDouble)},
                          m = {torch::zeros({5}, at::kDouble)},
                          v = {torch::zeros({5}, at::kDouble)}, steps = {torch::zeros({})};
  at::Tensor x = p[0].clone(), first = m[0].clone(), second = v[0].clone();
  for (int t = 1; t <= 4; ++t) {
    std::vector<at::Tensor> g = {torch::randn({5}, at::kDouble)};
    first = s.beta1 * first + (1 - s.beta1) * g[0];
    second = s.beta2 * second + (1 - s.beta2) * g[0].square();
    const at::Tensor m_hat = first / (1 - std::pow(s.beta1, t)),
                     v_hat = second / (1 - std::pow(s.beta2, t));
    x = x - s.lr * m_hat / (v_hat.sqrt() + s.eps);
    adam_step_(p, g, m, v, steps, s);
    CHECK(scaled_error(p[0], x) < 1e-12);
  }
  CHECK(steps[0].item<float>() == 4);
}

namespace {

// Parameters, moments and counts of networks of different sizes and layouts.
struct State {
  std::vector<at::Tensor> p, m, v, steps;

  explicit State(at::ScalarType type) {
    torch::manual_seed(3);
    for (const at::Tensor& t :
         {torch::randn({40, 33, 3, 3}),
          torch::randn({1}),
          torch::randn({24, 16, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast),
          torch::randn({70001})}) {
      p.push_back(t.to(type));
      m.push_back(torch::zeros_like(p.back()));
      v.push_back(torch::zeros_like(p.back()));
      steps.push_back(torch::zeros({}));
    }
  }
  void step(const AdamSettings& settings, int64_t number, const at::Tensor& found = {}) {
    torch::manual_seed(static_cast<uint64_t>(number));
    std::vector<at::Tensor> g;
    for (const at::Tensor& t : p) g.push_back((torch::randn(t.sizes()) * 1e-3).to(t.scalar_type()));
    adam_step_(p, g, m, v, steps, settings, found);
  }
  std::vector<at::Tensor> all() const {
    std::vector<at::Tensor> tensors;
    for (const auto* list : {&p, &m, &v, &steps})
      for (const at::Tensor& t : *list) tensors.push_back(t.clone());
    return tensors;
  }
};

const AdamSettings kSettings{0.002, 0.0, 0.99, 1e-8};

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!torch::equal(a[i], b[i])) return false;
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("Float32FollowsFloat64StepByStep") {
  for (const double beta1 : {0.0, 0.9}) {
    CAPTURE(beta1);
    AdamSettings s = kSettings;
    s.beta1 = beta1;
    State mine(at::kFloat), exact(at::kDouble);
    for (int64_t i = 0; i < 20; ++i) {
      mine.step(s, i);
      exact.step(s, i);
    }
    for (size_t i = 0; i < mine.p.size(); ++i) {
      CHECK((mine.p[i] - exact.p[i]).abs().max().item<double>() < 2e-6);
      CHECK(scaled_error(mine.m[i].to(at::kDouble), exact.m[i]) < 1e-6);
      CHECK(scaled_error(mine.v[i].to(at::kDouble), exact.v[i]) < 1e-6);
      CHECK(mine.steps[i].item<float>() == 20);
    }
  }
}

TEST_CASE("NoBitOfAStepDependsOnTheNumberOfThreads") {
  const int before = at::get_num_threads();
  std::vector<at::Tensor> one;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    State state(at::kFloat);
    for (int64_t i = 0; i < 3; ++i) state.step(kSettings, i);
    lerp_(state.m, state.p, 0.3);
    if (threads == 1) one = state.all();
    CHECK(equal(state.all(), one));
  }
  at::set_num_threads(before);
}

TEST_CASE("AStepWhoseGradientsAreFoundBadLeavesAllAsItWas") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    State state(type);
    state.step(kSettings, 0, torch::zeros({1}));
    const std::vector<at::Tensor> before = state.all();
    state.step(kSettings, 1, torch::ones({1}));
    CHECK(equal(state.all(), before));
    state.step(kSettings, 2, torch::zeros({}));
    CHECK(state.steps[0].item<float>() == 2);
    CHECK_FALSE(torch::equal(state.p[0], before[0]));
  }
}

TEST_CASE("AutogradSeesThatAParameterMoved") {
  State state(at::kFloat);
  const auto version = state.p[0]._version();
  state.step(kSettings, 0);
  CHECK(state.p[0]._version() > version);
}

TEST_CASE("LerpMovesByTheWeight") {
  std::vector<at::Tensor> a = {torch::zeros({3}), torch::ones({2, 2})};
  lerp_(a, {torch::ones({3}), torch::full({2, 2}, 5.0)}, 0.25);
  CHECK(a[0][0].item<float>() == 0.25f);
  CHECK(a[1][1][1].item<float>() == 2.0f);
}

TEST_CASE("LerpMovesTensorsOfAnyTypeAndLayout") {
  const at::Tensor value = torch::randn({4, 6, 3, 3});
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const at::MemoryFormat format :
         {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      std::vector<at::Tensor> a = {torch::ones({4, 6, 3, 3}, type)};
      lerp_(a, {value.to(type).contiguous(format)}, 0.75);
      CHECK(torch::allclose(a[0], (1 + (value - 1) * 0.75).to(type), 1e-6, 1e-6));
    }
  }
}

namespace {

// How often each number was visited, with so many threads.
std::vector<at::Tensor> visits(const std::vector<at::Tensor>& tensors, int threads) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  std::vector<at::Tensor> counts;
  for (const at::Tensor& t : tensors) counts.push_back(torch::zeros({t.numel()}, at::kInt));
  FlatPieces(tensors).for_each([&](const FlatPiece& piece) {
    int* count = counts[piece.tensor].mutable_data_ptr<int>() + piece.offset;
    for (int64_t i = 0; i < piece.count; ++i) ++count[i];
  });
  at::set_num_threads(before);
  return counts;
}

}  // namespace

TEST_CASE("EveryNumberIsInOnePiece") {
  const std::vector<at::Tensor> tensors = {torch::zeros({3}),
                                           torch::zeros({0}),
                                           torch::zeros({1 << 17}),
                                           torch::zeros({}),
                                           torch::zeros({257, 129}),
                                           torch::zeros({0, 4})};
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    for (const at::Tensor& count : visits(tensors, threads)) CHECK(count.eq(1).all().item<bool>());
  }
  CHECK(FlatPieces({}).size() == 0);
  FlatPieces({}).for_each([](const FlatPiece&) { FAIL(); });
}

TEST_CASE("OnlyFloat32WithoutGapsIsFlat") {
  const at::Tensor plain = torch::zeros({2, 3, 4, 5});
  CHECK(are_flat({plain, plain.transpose(0, 1)}));
  CHECK_FALSE(are_flat({plain, plain.to(at::kDouble)}));
  CHECK_FALSE(are_flat({plain.slice(3, 0, 4)}));
  CHECK_FALSE(are_flat({torch::zeros({1}).expand({4})}));
}

TEST_CASE("LayoutsAreEqualWhereNumbersLieInTheSameOrder") {
  const at::Tensor plain = torch::zeros({2, 3, 4, 5});
  const at::Tensor last = plain.contiguous(at::MemoryFormat::ChannelsLast);
  CHECK(have_equal_layout({plain, last}, {plain.clone(), last.clone()}));
  CHECK_FALSE(have_equal_layout({plain}, {last}));
  CHECK_FALSE(have_equal_layout({plain}, {plain.reshape({6, 20})}));
  CHECK_FALSE(have_equal_layout({plain}, {}));
  // Strides of dimensions of size one mean nothing.
  CHECK(have_equal_layout({torch::zeros({8, 1, 1, 1})},
                          {torch::empty_strided({8, 1, 1, 1}, {1, 8, 8, 8})}));
}

namespace {

std::vector<at::Tensor> gradients() {
  torch::manual_seed(1);
  return {
      torch::randn({300, 257}), torch::randn({5}) * 1e3, torch::zeros({0}), torch::randn({70000})};
}

}  // namespace

TEST_CASE("OneNumberThatIsNotFiniteIsFoundInWhicheverTensor") {
  CHECK(all_finite(gradients()) == true);
  for (const double bad : {NAN, -INFINITY}) {
    for (const size_t tensor : {0, 1, 3}) {
      CAPTURE(bad, tensor);
      std::vector<at::Tensor> all = gradients();
      all[tensor].view(-1)[-1] = bad;
      CHECK(all_finite(all) == false);
    }
  }
}

TEST_CASE("NumbersThatItCannotReadAreNotJudged") {
  CHECK_FALSE(all_finite({torch::ones({3}), torch::ones({3}, at::kDouble)}));
  CHECK(all_finite({}) == true);
}
