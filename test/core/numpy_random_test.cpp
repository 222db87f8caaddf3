// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include "core/random.h"
#include "core/tensor_files.h"
#include "support/catch.h"
#include "support/paths.h"

namespace gantrain {
namespace {

std::vector<double> stored(const std::string& key) {
  static const TensorFile file = load_safetensors(fixtures_folder() + "/numpy_randn.safetensors");
  const at::Tensor values = file.tensors.at(key).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

void check_equal(const std::vector<double>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() >= wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    INFO("element " << i);
    REQUIRE(std::abs(got[i] - wanted[i]) <= 1e-15 * std::abs(wanted[i]));
  }
}

TEST_CASE("NumpyRandnMatchesReference") {
  check_equal(NumpyRandom(0).randn(512), stored("seed0/randn512"));
  check_equal(NumpyRandom(1).randn(512), stored("seed1/randn512"));
  check_equal(NumpyRandom(3).randn(65), stored("seed3/randn65"));
  check_equal(NumpyRandom(85).randn(512), stored("seed85/randn512"));
  check_equal(NumpyRandom(12345).randn(512), stored("seed12345/randn512"));
  check_equal(NumpyRandom(4294967295u).randn(8), stored("seed4294967295/randn8"));
}

TEST_CASE("NumpyRandnOfRowsIsOneStream") {
  const std::vector<double> all = NumpyRandom(0).randn(4 * 512);
  std::vector<double> firsts;
  for (size_t row = 0; row < 4; ++row) {
    for (size_t i = 0; i < 8; ++i) firsts.push_back(all[row * 512 + i]);
  }
  check_equal(firsts, stored("seed0/randn_4x512_rowmajor_first8"));
}

TEST_CASE("NumpyKeepsTheSecondOfAPairForTheNextCall") {
  NumpyRandom random(7);
  std::vector<double> draws = random.randn(3);
  for (const double value : random.randn(2)) draws.push_back(value);
  check_equal(draws, stored("seed7/randn3_then_randn2"));
}

TEST_CASE("NumpyUniformsMatchReference") {
  NumpyRandom random(7);
  std::vector<double> draws;
  for (int i = 0; i < 10; ++i) draws.push_back(random.random_sample());
  check_equal(draws, stored("seed7/rand10"));
}

}  // namespace
}  // namespace gantrain
