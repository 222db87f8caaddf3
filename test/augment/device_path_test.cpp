// SPDX-License-Identifier: Apache-2.0
// augment() as a device computes it whose reads wait, run on the CPU, against the CPU's own way.
#include <ATen/record_function.h>

#include <catch2/catch.hpp>

#include "augment/known_draws.h"
#include "core/device.h"
#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;

namespace {

constexpr std::array<const char*, 11> kPipes = {
    "blit", "geom", "color", "filter", "noise", "cutout", "bg", "bgc", "bgcf", "bgcfn", "bgcfnc"};

struct Result {
  at::Tensor y, dx;
};

Result augmented(const at::Tensor& x, double p, const AugmentOptions& o, const Samples& samples) {
  StreamDraws draws(make_draw_key(1, 3, 0, at::kCPU), samples);
  const at::Tensor leaf = x.detach().clone().requires_grad_(true);
  const at::Tensor y = augment(leaf, strength(p), o, draws) * 1;
  const at::Tensor dy = pictures(x.size(0), x.size(1), x.size(2), x.size(3)).cos().to(x);
  return {y.detach(), torch::autograd::grad({y}, {leaf}, {dy})[0]};
}

Result on_a_device(const at::Tensor& x, double p, const AugmentOptions& o, const Samples& samples) {
  const AssumeReadsWait reads_wait;
  return augmented(x, p, o, samples);
}

void check_alike(const at::Tensor& x, double p, const std::string& pipe, double tolerance) {
  const AugmentOptions o = augment_pipe(pipe);
  const Samples all{0, 1, x.size(0)};
  const Result host = augmented(x, p, o, all), device = on_a_device(x, p, o, all);
  CAPTURE(pipe, p, x.sizes());
  CHECK(scaled_error(device.y, host.y) < tolerance);
  CHECK(scaled_error(device.dx, host.dx) < tolerance);
  if (p == 0) CHECK(at::equal(device.y, x));
}

}  // namespace

TEST_CASE("ADevicesPathGivesTheCpusPicturesAndGradients") {
  const double p = GENERATE(0., .3, 1.);
  const int64_t channels = GENERATE(1, 2, 3, 4);
  const at::Tensor x = pictures(4, channels, 22, 26);
  for (const char* pipe : kPipes) check_alike(x, p, pipe, 1e-9);
}

TEST_CASE("ADevicesPathGivesTheCpusPicturesInSinglePrecision") {
  const double p = GENERATE(0., .3, 1.);
  const at::Tensor x = pictures(4, 3, 32, 32).to(at::kFloat);
  for (const char* pipe : {"bgc", "bgcfnc"}) check_alike(x, p, pipe, 1e-4);
}

TEST_CASE("OnADeviceTwoRanksDrawWhatOneDraws") {
  const at::Tensor x = pictures(6, 3, 24, 24);
  const AugmentOptions o = augment_pipe("bgcfnc");
  const at::Tensor whole = on_a_device(x, .5, o, {0, 1, 6}).y;
  for (const int64_t rank : {0, 1}) {
    const at::Tensor mine = on_a_device(x.slice(0, rank, {}, 2), .5, o, {rank, 2, 3}).y;
    CHECK(difference(mine, whole.slice(0, rank, {}, 2)) < 1e-12);
  }
}

TEST_CASE("OnADeviceWithoutTransformsTheImagesThemselvesAreReturned") {
  const AssumeReadsWait reads_wait;
  const at::Tensor x = pictures(2, 3, 8, 8);
  StoredDraws none({});  // and nothing is drawn
  CHECK(augment(x, strength(1), only({}), none).is_same(x));
}

TEST_CASE("AugmentationWaitsForNoDevice") {
  thread_local std::vector<std::string> waits;
  waits.clear();
  const auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction& call) -> std::unique_ptr<at::ObserverContext> {
        const std::string name = call.name();
        if (name == "aten::_local_scalar_dense" || name == "aten::is_nonzero" ||
            name == "aten::item")
          waits.push_back(name);
        return nullptr;
      }));
  const at::Tensor x = pictures(4, 3, 24, 24);
  augmented(x, .5, augment_pipe("bgcfnc"), {1, 2, 4});
  const std::vector<std::string> on_the_cpu = waits;
  on_a_device(x, .5, augment_pipe("bgcfnc"), {1, 2, 4});
  at::removeCallback(handle);
  CHECK(on_the_cpu.empty());
  CHECK(waits.empty());
}

TEST_CASE("ADeviceRefusesWhatACpuRefuses") {
  const AssumeReadsWait reads_wait;
  StreamDraws draws = stream_draws(2);
  CHECK_THROWS_AS(augment(pictures(2, 5, 24, 24), strength(1), augment_pipe("bgc"), draws),
                  UserError);
  CHECK_THROWS_AS(augment(pictures(2, 3, 21, 64), strength(.5), augment_pipe("bgcf"), draws),
                  UserError);
  StreamDraws of_three = stream_draws(3);
  CHECK_THROWS(augment(pictures(2, 3, 24, 24), strength(1), augment_pipe("bgc"), of_three));
}
