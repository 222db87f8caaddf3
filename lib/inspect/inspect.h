// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "config/config.h"
#include "gan/recipe.h"
#include "inspect/machine.h"

namespace gantrain {

// What lies in a file, or what a run folder holds.
struct FileContent {
  std::string kind;              // "model", "state", "run", "picture", ...
  Json facts = Json::object();   // in the order in which they are shown
  Json config = Json::object();  // keys with their values: of the run, or of the network
  // By names that models and states share: "G_ema/...", "G/...", "D/...", "D.opt/exp_avg/...". For
  // a run these are the tensors of its newest model.
  std::map<std::string, at::Tensor> tensors;
  std::string next;  // a command that says more, or ""
};

// Reads what the project writes and imports: models (.safetensors), states (.pt), network pickles,
// arrays (.npy), pictures, configurations and other JSON, JSON lines, event files, text, run
// folders. Archives, videos and folders of pictures are told apart but not read. Throws
// UserError(kInput) that names the file and what is wrong with it. A model file that does not say
// its recipe is recognised by its tensors.
FileContent read_content(const std::filesystem::path& path, const RecipeTable& recipes);

// Describes each tensor: {"name", "dtype", "shape", "norm", "min", "max", "non_finite"}. Norm and
// bounds are of the finite values; null where there are none.
Json tensor_rows(const std::map<std::string, at::Tensor>& tensors);

// Sums these rows up by the part of the name before "/": {"part": {"tensors", "values",
// "non_finite"}}.
Json part_rows(const Json& rows);
// Prints such rows and their sums as two tables to standard output; nothing where there are none.
void print_tensors(const Json& rows, const Json& parts);

// Compares two files: {"config": {key: [a, b]}, "missing": {"a": [names], "b": [names]}, "shape":
// {name: [a, b]}, "values": {name: {"max_abs", "relative"}}}. A key or tensor that both have alike
// is left out, but for "values", which counts the equal ones in "equal". "relative" is the norm of
// the difference by that of A's tensor; a difference that is not a number is null.
Json difference_of(const FileContent& a, const FileContent& b);
// Prints it, a line for each difference; "same_bytes", where it is there, in place of "equal".
void print_difference(Json difference);

// Prints parameter counts, dtypes, memory and time of the run to standard output, after a few
// iterations on this machine's CPU. Returns 0.
int describe(const DescribeRequest& run, const RecipeTable& recipes);

}  // namespace gantrain
