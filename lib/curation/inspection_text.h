// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/value.h"
#include "curation/inspection.h"

namespace gantrain {

// What to start training with on a data set.
struct Advice {
  std::string preset;  // for a GPU
  Size resolution;
  int64_t batch = 0;  // that the preset takes on one GPU
  double gamma = 0;   // 0.0002 x pixels / batch, as the preset has it then
  std::string here;   // a preset for this machine, where it has no GPU; else `preset`
  Size resolution_here;
  bool labels = false;                    // the data has classes
  std::vector<std::string> reasons = {};  // whole lines
};

// Advises from the sizes, number and classes of the pictures. The resolution is one that nine of
// ten pictures have without being enlarged. Gamma follows the rule of StyleGAN2-ADA's code.
Advice advise(const Inspection& inspection, bool gpu);

// Returns the command that trains so.
std::string train_command(const Inspection& inspection, const Advice& advice);

// Returns what `data inspect` prints: lines with counts, sizes, forms, classes, copies, all bad
// files and the advice. Of groups of copies only the first ones are listed, unless `all`.
std::string inspection_text(const Inspection& inspection, const Advice& advice, bool all);

// Returns the same as one object.
Json inspection_json(const Inspection& inspection, const Advice& advice);

}  // namespace gantrain
