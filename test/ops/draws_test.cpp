// SPDX-License-Identifier: Apache-2.0
#include "ops/draws/draws.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "core/device.h"
#include "core/random.h"
#include "core/torch.h"
#include "ops/device_kernels.h"
#include "support/catch.h"
#include "support/wait_counter.h"
#include "util/hash.h"

using namespace gantrain;
using at::Tensor;

namespace {

// What a draw depends on, drawn at random: 64-bit seeds, odd lengths, strided samples.
struct Drawn {
  uint64_t seed;
  int64_t iteration, phase;
  std::string purpose;
  Samples samples;
  std::vector<int64_t> shape;

  DrawKey key() const { return make_draw_key(seed, iteration, phase, at::kCPU); }
  Stream stream() const {
    return Stream(seed, purpose, static_cast<uint64_t>(iteration), static_cast<uint64_t>(phase));
  }
  DrawNumbers numbers(Distribution distribution) const {
    return {key().numbers,
            phase,
            hash64(purpose),
            samples,
            c10::multiply_integers(shape),
            distribution};
  }
};

std::vector<Drawn> cases(int count) {
  std::mt19937_64 random(1);
  const auto to = [&](int64_t end) { return static_cast<int64_t>(random() % (end + 1)); };
  const std::vector<std::string> purposes = {
      "z", "z/mixed", "labels", "noise/64", "", "a purpose of more than sixteen letters"};
  std::vector<Drawn> all;
  for (int i = 0; i < count; ++i) {
    Drawn d;
    d.seed = i % 3 == 0 ? random() : static_cast<uint64_t>(to(1000));
    d.iteration = i % 2 == 0 ? to(100) : to(int64_t{1} << 40);
    d.phase = to(5);
    d.purpose = purposes[random() % purposes.size()];
    d.samples = {i % 5 == 0 ? (int64_t{1} << 33) + to(100) : to(100), 1 + to(7), to(4)};
    for (int64_t axes = to(2); axes >= 0; --axes) d.shape.push_back(1 + to(12));
    if (i % 7 == 0) d.shape.clear();
    all.push_back(std::move(d));
  }
  return all;
}

// Classes as a host draws them.
std::vector<int64_t> classes_of(const Drawn& d, const std::vector<int64_t>& first_above) {
  const Stream stream = d.stream();
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < d.samples.count; ++i) {
    const auto sample = static_cast<uint64_t>(d.samples.first + i * d.samples.stride);
    const auto picture =
        static_cast<int64_t>(stream.below(static_cast<uint64_t>(first_above.back()), sample));
    const auto at = std::upper_bound(first_above.begin(), first_above.end(), picture);
    classes.push_back(at - first_above.begin());
  }
  return classes;
}

int64_t cutoff_of(const Drawn& d, double probability, int64_t layers) {
  const Stream stream = d.stream();
  if (layers < 2 || stream.uniform(0, 0) >= probability) return layers;
  return 1 + static_cast<int64_t>(stream.below(static_cast<uint64_t>(layers - 1), 0, 1));
}

// All draws of one key.
std::vector<Tensor> draws_of(const DrawKey& key) {
  const Tensor first_above = torch::tensor({3, 7, 12}, at::kLong);
  return {normal(key, "z", {1, 2, 3}, {5}),
          uniform(key, "noise", {0, 1, 2}, {2, 3}),
          drawn_classes(key, "labels", {0, 1, 9}, first_above, 12),
          drawn_cutoff(key, "mixing", 0.9, 8)};
}

}  // namespace

TEST_CASE("DrawsAreTheStreamsNumbers") {
  for (const Drawn& d : cases(200)) {
    INFO("seed " << d.seed << ", iteration " << d.iteration << ", purpose " << d.purpose);
    const Tensor n = normal(d.key(), d.purpose, d.samples, d.shape);
    CHECK(n.scalar_type() == at::kFloat);
    CHECK(at::equal(n, normal(d.stream(), d.samples, d.shape)));
    CHECK(at::equal(uniform(d.key(), d.purpose, d.samples, d.shape),
                    uniform(d.stream(), d.samples, d.shape)));
  }
}

TEST_CASE("ComposedDrawsAreTheCpus") {
  for (const Drawn& d : cases(200)) {
    INFO("seed " << d.seed << ", iteration " << d.iteration << ", purpose " << d.purpose);
    for (const auto exact : {Distribution::kBits, Distribution::kUniform})
      CHECK(at::equal(composed_draw(d.numbers(exact)), cpu_draw(d.numbers(exact))));
    const Tensor mine = composed_draw(d.numbers(Distribution::kNormal));
    const Tensor cpus = cpu_draw(d.numbers(Distribution::kNormal));
    CHECK(mine.sizes() == cpus.sizes());
    CHECK(at::allclose(mine, cpus, /*rtol=*/2e-7, /*atol=*/1e-9));
  }
}

TEST_CASE("TheNumberOfThreadsChangesNoBit") {
  const int before = at::get_num_threads();
  Drawn d{5, 6, 7, "z", {3, 2, 5}, {4099}};
  at::set_num_threads(1);
  const Tensor alone = normal(d.key(), d.purpose, d.samples, d.shape);
  at::set_num_threads(3);
  CHECK(at::equal(normal(d.key(), d.purpose, d.samples, d.shape), alone));
  at::set_num_threads(before);
}

TEST_CASE("ClassesAndCutsAreTheStreamsWhereverTheyAreDrawn") {
  std::mt19937_64 random(2);
  for (const Drawn& d : cases(200)) {
    std::vector<int64_t> first_above(1 + random() % 20);
    const bool many = random() % 4 == 0;  // more pictures than 32 bits count
    for (int64_t& of_class : first_above)
      of_class = static_cast<int64_t>(random() % (many ? uint64_t{1} << 45 : 50));
    first_above.front() += 1;
    std::partial_sum(first_above.begin(), first_above.end(), first_above.begin());
    const std::vector<int64_t> classes = classes_of(d, first_above);
    const double probability = static_cast<double>(random() % 11) / 10;
    const auto layers = static_cast<int64_t>(random() % 20);
    const auto check = [&] {
      const Tensor drawn = drawn_classes(
          d.key(), d.purpose, d.samples, torch::tensor(first_above, at::kLong), first_above.back());
      CHECK(at::equal(drawn, torch::tensor(classes, at::kLong)));
      const Tensor cutoff = drawn_cutoff(d.key(), d.purpose, probability, layers);
      CHECK(cutoff.dim() == 0);
      CHECK(cutoff.item<int64_t>() == cutoff_of(d, probability, layers));
    };
    check();
    const AssumeReadsWait on_a_device;
    check();
  }
}

TEST_CASE("ACutIsAnyLayerButTheFirstAndMixesAsOftenAsAsked") {
  int mixed = 0;
  std::vector<int> times(9);
  for (int64_t i = 0; i < 2000; ++i) {
    const Tensor cut = drawn_cutoff(make_draw_key(1, i, 0, at::kCPU), "mixing", 0.5, 8);
    ++times.at(static_cast<size_t>(cut.item<int64_t>()));
    mixed += cut.item<int64_t>() < 8 ? 1 : 0;
  }
  CHECK(mixed / 2000.0 == Approx(0.5).margin(0.05));
  CHECK(times[0] == 0);
  for (size_t layer = 1; layer < 8; ++layer) CHECK(times[layer] > 80);
}

TEST_CASE("AKeyMovedInPlaceDrawsTheNextIteration") {
  const bool device = GENERATE(false, true);
  const auto check = [] {
    const DrawKey key = make_draw_key(uint64_t{1} << 63, 4, 2, at::kCPU);
    const std::vector<Tensor> before = draws_of(key);
    const void* place = key.numbers.data_ptr();
    set_iteration_(key, 5);
    CHECK(key.numbers.data_ptr() == place);
    const std::vector<Tensor> after = draws_of(key);
    const std::vector<Tensor> fresh = draws_of(make_draw_key(uint64_t{1} << 63, 5, 2, at::kCPU));
    CHECK_FALSE(at::equal(before[0], after[0]));
    for (size_t i = 0; i < fresh.size(); ++i) CHECK(at::equal(after[i], fresh[i]));
    CHECK_FALSE(at::equal(draws_of(key.of_phase(3))[0], after[0]));
  };
  if (!device) return check();
  const AssumeReadsWait on_a_device;
  check();
}

TEST_CASE("NoDrawWaitsForItsDevice") {
  const WaitCounter waits;
  const AssumeReadsWait on_a_device;
  const DrawKey key = make_draw_key(3, 4, 5, at::kCPU);
  set_iteration_(key, 6);
  draws_of(key);
  for (const auto all : {Distribution::kNormal, Distribution::kUniform, Distribution::kBits})
    composed_draw({key.numbers, 1, hash64("z"), {0, 1, 4}, 7, all});
  CHECK(waits.count() == 0);
}
