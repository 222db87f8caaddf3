// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/value.h"

namespace gantrain {

// Verbs that compute. `request` is what the thin program made of the command line.

// {"model": path, "seeds": [..] | "z": path, "outdir": .., "grid": .., "format": "png"|"npy",
// "cuda": bool}
int generate(const Json& request);

// {"facts": what the thin program saw, "ddp_table": bool, "json": bool}
int doctor(const Json& request);

// A run's config.json: parameter counts, dtypes, memory and time, on standard output.
int describe(const Json& config);

}  // namespace gantrain
