// SPDX-License-Identifier: Apache-2.0
#include "metrics/equivariance.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/tensor_checks.h"
#include "util/error.h"

using namespace gantrain;
using at::Tensor;

namespace {

double error(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

void check(const MovedPictures& mine, const TensorFile& file, const std::string& name) {
  CAPTURE(name);
  CHECK(error(mine.pictures, file.tensors.at(name + "/z")) < 2e-5);
  CHECK(torch::equal(mine.mask, file.tensors.at(name + "/mask")));
}

}  // namespace

TEST_CASE("MovedPicturesAreTheReferences") {
  const TensorFile file = fixture("sg3_eq");
  const auto cases = nlohmann::json::parse(file.metadata.at("cases"));
  const Tensor& x = file.tensors.at("in/x");
  const auto size = static_cast<double>(x.size(3));
  const auto name = [](const char* kind, size_t i) { return kind + std::to_string(i); };
  for (size_t i = 0; i < cases["int"].size(); ++i) {
    const auto& t = cases["int"][i];
    check(shifted_by_pixels(
              x, std::llround(t[0].get<double>() * size), std::llround(t[1].get<double>() * size)),
          file,
          name("int", i));
  }
  for (size_t i = 0; i < cases["frac"].size(); ++i) {
    const auto& t = cases["frac"][i];
    check(shifted(x, t[0].get<double>() * size, t[1].get<double>() * size), file, name("frac", i));
  }
  for (size_t i = 0; i < cases["angles"].size(); ++i) {
    const double angle = cases["angles"][i];
    CHECK(error(rotation_filter(angle, 4), file.tensors.at(name("rot", i) + "/filter")) < 2e-5);
    CHECK(error(rotation_filter(-angle, 1), file.tensors.at(name("pseudo", i) + "/filter")) < 2e-5);
    check(rotated(x, angle), file, name("rot", i));
    check(pseudo_rotated(x, angle), file, name("pseudo", i));
  }
}

// Shifts that move everything out leave nothing to compare.
TEST_CASE("ShiftsBeyondThePictureAreZero") {
  const Tensor x = torch::ones({1, 1, 4, 4});
  for (const MovedPictures& moved : {shifted_by_pixels(x, 4, 0), shifted_by_pixels(x, -9, 2)}) {
    CHECK(moved.pictures.abs().max().item<double>() == 0);
    CHECK(moved.mask.sum().item<double>() == 0);
  }
}
