// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "config/value.h"
#include "draw/painter.h"
#include "draw/requests.h"
#include "gan/generator.h"

namespace gantrain {

// Directions in the w of a style-based generator in which its pictures change, found without
// labels.
struct Directions {
  at::Tensor vectors;           // [K, w_dim] float32, of unit length
  at::Tensor lengths;           // [K] float32: how far a strength of 1 goes
  at::Tensor values;            // [K] float32, falling: the eigenvalues; may be undefined
  at::Tensor mean;              // [w_dim] float32: the mean of w; only of GANSpace
  std::vector<int64_t> layers;  // whose w they move; none: all
  Json about = Json::object();  // how they were found; "model": sha256_of() the generator's state
};

// Principal axes of a symmetric matrix [d, d] without negative eigenvalues, in float64.
struct PrincipalAxes {
  at::Tensor vectors;  // [K, d], of unit length; the largest component is positive
  at::Tensor values;   // [K], the largest first
  double total = 0;    // sum of all d eigenvalues
};

// Returns the first `count` axes, or as many as the matrix has rank: where an eigenvalue is below
// 1e-12 of the largest, its vector is arbitrary. The largest component is that of the vector as
// float32, and of equal ones the first.
PrincipalAxes principal_axes(const at::Tensor& matrix, int64_t count);

// Returns A^T A [d, d] in float64, where A is the weights [out, d], one below the other, with rows
// of unit length, as the authors of SeFa have them in factorize_weight() of
// github.com/genforce/sefa; their paper's equations have A as it is. Rows of zeros stay.
at::Tensor gram_of_unit_rows(const std::vector<at::Tensor>& weights);

// Mean and covariance, in float64, of rows [N, d] that come in batches (Chan et al. 1979).
class RunningCovariance {
 public:
  void add(const at::Tensor& rows);
  const at::Tensor& mean() const { return mean_; }  // [d]
  at::Tensor covariance() const;                    // [d, d], of N - 1; N is at least 2

 private:
  int64_t count_ = 0;
  at::Tensor mean_, scatter_;
};

// Finds the directions of a request. `level`: pixels of the stage that is drawn, 0: all; `labels`:
// what samples are given in turn, classes int64 [M] or vectors [M, L]; or undefined.
// SeFa (Shen and Zhou 2021, sec. 3.2): eigenvectors of A^T A of the layers' affine weights.
// GANSpace (Haerkoenen et al. 2020, sec. 2.1): principal components of the w of seeds 0, 1, ...
// Throws UserError that names the flag or says why there is no direction.
Directions find_directions(Generator& generator,
                           const EditRequest& request,
                           int64_t level,
                           const at::Tensor& labels);

// Writes the arrays "directions", "lengths", "values", "mean" and the text "about" to a .npz, and
// the same as JSON. Throw UserError(kDisk).
void save_directions(const std::filesystem::path& npz, const Directions& directions);
Json to_json(const Directions& directions);

// Reads such a .npz; all but "directions" may be missing. Throws UserError(kInput) that names the
// file and what is wrong with it.
Directions load_directions(const std::filesystem::path& npz);

// Returns "31.0%, 20.5%, ...": the shares of the first eigenvalues in the sum of all.
std::string shares_text(const Directions& directions);

// What a strength of 1 along direction k adds to w: [num_ws, w_dim] float64, zeros in other layers.
at::Tensor step_of(const Directions& directions,
                   int64_t k,
                   const std::vector<int64_t>& layers,
                   int64_t num_ws);

// Reads the directions of a command. Warns where they were found in another model. Throws UserError
// that names what the model or the file does not have.
std::vector<DirectionEdit> load_edits(Generator& generator,
                                      const DirectionRequest& request,
                                      const std::string& model);

}  // namespace gantrain
