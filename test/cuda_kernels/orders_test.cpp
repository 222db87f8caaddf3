// SPDX-License-Identifier: Apache-2.0
// Threads of a GPU run in any order between two barriers. Here the host runs them in several, over
// shared memory that holds nothing of use before: a kernel whose bits depend on the order has a
// race.
#include "augment/wavelets.h"
#include "host_launching.h"
#include "neighbours.h"
#include "ops/affine_warp/affine_warp.h"
#include "ops/drawn_matrices/drawn_matrices.h"
#include "ops/draws/draws.h"
#include "ops/filtered_lrelu/filtered_lrelu.h"
#include "ops/modulation/modulation.h"
#include "ops/norms/norms.h"
#include "random_cases.h"
#include "support/catch.h"
#include "util/hash.h"

using namespace gantrain;
using at::Tensor;

namespace {

// The order of host_order (ops/gpu/launch.h), while it lives.
struct InOrder {
  explicit InOrder(unsigned order) { cuda_kernels::host_order = order; }
  ~InOrder() { cuda_kernels::host_order = 0; }
};

// Calls add(name, tensors) with the results and derivatives of every operator that has a kernel.
template <class Add>
void compute_all(at::ScalarType type, at::MemoryFormat format, const Add& add) {
  const WithCudaKernels kernels;
  torch::manual_seed(5);
  const auto maps = [&](at::IntArrayRef sizes) {
    return at::randn(sizes).to(type, false, false, format);
  };
  const auto derive =
      [&](const std::string& name, const Tensors& inputs, const TensorFunction& op) {
        Tensors along;
        const Tensor y = op(inputs);
        for (const Tensor& x : inputs) along.push_back(at::randn(x.sizes()));
        const Differentiated d = differentiate(op, inputs, at::randn(y.sizes()), along);
        add(name, Tensors{d.y});
        add(name + " first", d.first);
        add(name + " second", d.second);
      };
  const DrawKey key = make_draw_key(7, 11, 0, at::kCPU);
  for (const auto kind : {Distribution::kNormal, Distribution::kUniform, Distribution::kBits})
    add("draw",
        Tensors{device_kernels(at::kCPU).draw(
            {key.numbers, 0, hash64("order"), {3, 2, 5}, 1000, kind})});
  const DrawnMatrices zooms{.steps = {{{MatrixKind::kZoom, 1, .4}, 1, 2}},
                            .key = key,
                            .samples = {0, 2, 300},
                            .width = 20,
                            .height = 24};
  const Matrices zoomed = drawn_matrices(at::scalar_tensor(.5, at::kDouble), zooms);
  add("drawn_matrices", Tensors{zoomed.each, zoomed.margins});
  constexpr int64_t kSamples = 2;
  for (const int64_t channels : {3, 40}) {
    const Tensor x = maps({kSamples, channels, 20, 24}), bias = at::randn({channels}).to(type);
    BiasAct lrelu{Activation::kLrelu, 1, 0.2, {}, 1.1};
    derive("bias_act", {x, bias}, [&](const Tensors& in) { return bias_act(in[0], in[1], lrelu); });
    derive("modulated_act",
           {x, at::rand({kSamples, channels}), at::randn({}), at::randn({channels})},
           [&](const Tensors& in) {
             ModulatedAct terms;
             terms.d = in[1];
             terms.noise = at::ones({kSamples, 1, 20, 24});
             terms.strength = in[2];
             terms.bias = in[3];
             return modulated_act(in[0], terms, lrelu);
           });
    derive(
        "modulated_act_for",
        {x, at::rand({kSamples, channels}), at::randn({kSamples, channels}), at::randn({}), bias},
        [&](const Tensors& in) {
          ModulatedAct terms;
          terms.d = in[1];
          terms.noise = at::ones({kSamples, 1, 20, 24});
          terms.strength = in[3];
          terms.bias = in[4];
          const StyledMaps maps =
              modulated_act_for(in[0], terms, lrelu, NextConv{in[2], at::kFloat, true});
          return at::cat({maps.x, maps.scaled}, 1);
        });
    derive("modulated_act_beside", {x, maps(x.sizes()), bias}, [&](const Tensors& in) {
      return modulated_act_beside(in[1], in[0], {.bias = in[2]}, lrelu);
    });
    const Tensor four = at::tensor({1., 3., 3., 1.}) / 8, twelve = at::rand({12});
    for (const Tensor& row : {four, twelve}) {
      const Tensor filter = at::outer(row, row);
      for (const auto& [up, down] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{1, 2}}) {
        const UpFirDn how{.up = {up, up}, .down = {down, down}, .padding = {6, 5, 6, 5}};
        derive(fmt::format("upfirdn2d {} up {} down {}", row.size(0), up, down),
               {x},
               [&](const Tensors& in) { return upfirdn2d(in[0], filter, how); });
      }
    }
    derive("upfirdn2d_beside", {x}, [&](const Tensors& in) {
      const UpFirDn how{.down = {2, 2}, .padding = {1, 1, 1, 1}};
      const Filtered found = upfirdn2d_beside(in[0], at::outer(four, four), how);
      return at::cat({found.x.flatten(), found.filtered.flatten()});
    });
    FilteredLrelu filtered;
    filtered.up_filter = filtered.down_filter = at::rand({12}) / 6;
    filtered.up = filtered.down = 2;
    filtered.padding = {10, 11, 10, 11};
    filtered.clamp = 0.9;
    const auto filtered_lrelu_of = [&](const Tensors& in) {
      return filtered_lrelu(in[0], in[1], filtered);
    };
    derive("filtered_lrelu", {x, bias}, filtered_lrelu_of);
    const Tensor sample = x.narrow(0, 0, 1).narrow(2, 0, 12);
    filtered.padding = {11, 10, 11, 10};
    derive("filtered_lrelu in strips", {sample, bias}, filtered_lrelu_of);
    filtered.up_filter = at::rand({24}) / 6;
    filtered.up = 4;
    filtered.padding = {6, 9, 6, 9};
    derive("filtered_lrelu in strips, up by 4", {sample, bias}, filtered_lrelu_of);
    derive("pixel_norm", {x}, [](const Tensors& in) { return pixel_norm(in[0]); });
    derive("adain", {x, at::randn({kSamples, 2 * channels}).to(type)}, [](const Tensors& in) {
      return adain(in[0], in[1]);
    });
    derive("minibatch_std", {maps({4, channels, 20, 24})}, [](const Tensors& in) {
      return minibatch_std(in[0], 2);
    });
    const AffineWarp warp{
        sym6_lowpass(),
        at::tensor({.9, -.4, 2., .3, 1.1, -3., 0., 0., 1.}, at::kDouble).expand({kSamples, 9}),
        at::tensor({9., 3., 0., 12.}, at::kDouble)};
    derive("affine_warp", {x.to(at::kFloat)}, [&](const Tensors& in) {
      return affine_warp(in[0], warp);
    });
    derive("square_sums", {at::randn({16, channels, 3, 3})}, [](const Tensors& in) {
      return square_sums(in[0]);
    });
  }
}

}  // namespace

TEST_CASE("NoKernelsBitsDependOnTheOrderOfItsThreads") {
  for (const auto type : {at::kFloat, at::kHalf}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      std::vector<std::pair<std::string, Tensors>> expected;
      compute_all(type, format, [&](const std::string& name, const Tensors& found) {
        expected.emplace_back(name, found);
      });
      for (const unsigned order : {1U, 2U, 3U}) {
        const InOrder visits(order);
        size_t next = 0;
        compute_all(type, format, [&](const std::string& name, const Tensors& found) {
          CAPTURE(type, format, order, name);
          REQUIRE(expected.at(next).first == name);
          const Tensors& before = expected[next++].second;
          REQUIRE(found.size() == before.size());
          for (size_t i = 0; i < found.size(); ++i)
            CHECK(at::equal(found[i].nan_to_num(), before[i].nan_to_num()));
        });
        CHECK(next == expected.size());
      }
    }
  }
}

// What host_launching.cpp notes: a launch goes to the calling thread's device, so that one without
// a guard of its tensors' device would run on another GPU than they are on.
TEST_CASE("EveryKernelOfTheTableIsLaunchedOnItsTensorsDevice") {
  HostLaunches& noted = host_launches();
  noted = {};
  compute_all(at::kFloat, at::MemoryFormat::Contiguous, [](const std::string&, const Tensors&) {});
  CHECK(noted.guarded > 100);
  CHECK(noted.unguarded == 0);
  cuda_bias_act(at::ones({2, 3}), {}, {Activation::kLinear, 1, 0, 2, kInfinity});
  CHECK(noted.unguarded == 1);
}

TEST_CASE("ACudaLibraryOfAnotherBuildIsRefused") {
  const std::string own = gantrain_cuda_interface();
  CHECK(own == device_interface(GANTRAIN_DEVICE_HEADERS));
  check_device_interface(own);
  for (std::string other : {std::string(), own + "0", "0" + own.substr(1) + "x"})
    CHECK_THROWS_WITH(check_device_interface(other),
                      Catch::Contains("of another build") && Catch::Contains(own));
}

TEST_CASE("AMissingBarrierShows") {
  using cuda_kernels::Neighbours;
  for (const bool barrier : {true, false}) {
    std::vector<std::vector<int64_t>> found;
    for (const unsigned order : {0U, 1U, 2U}) {
      const InOrder visits(order);
      found.emplace_back(Neighbours::kThreads);
      cuda_kernels::launch(Neighbours{barrier, found.back().data()}, 1, nullptr);
    }
    CHECK((found[0] == found[1] && found[0] == found[2]) == barrier);
  }
}
