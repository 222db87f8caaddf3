// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/value.h"

namespace gantrain {

// Verbs that compute. `request` is what the thin program made of the command line.

// {"model": path, "seeds": [..] | "z": path, "outdir": .., "grid": .., "format": "png"|"npy",
// "cuda": bool}
int generate(const Json& request);

// {"input": path, "output": path, "recipe": name or ""}: a model file of foreign weights.
int import_model(const Json& request);

// A run's config.json: parameter counts, dtypes, memory and time, on standard output.
int describe(const Json& config);

}  // namespace gantrain
