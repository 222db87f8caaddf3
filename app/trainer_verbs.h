// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/value.h"

namespace gantrain {

// Verbs that compute. `request` is what the thin program made of the command line.

// What both verbs that draw have (app/drawing_flags.h): {"model": path, "cuda": bool}, and where
// given "class": K, "trunc": psi, "trunc_cutoff": N, "noise_mode": "const"|"random"|"none",
// "level": R, "alpha": A.
//
// Then "seeds": [..] | "z": path | "w": path | "mix": {"rows": [..], "columns": [..],
// "layers": [..]}, "outdir": .. and/or "grid": .., "format": "png"|"npy".
int generate(const Json& request);

// {"input": path, "output": path, "recipe": name or ""}: a model file of foreign weights.
int import_model(const Json& request);
// Then "seeds": [..], whose number "columns" x "rows" (tracks side by side) divides, "frames",
// "loop": bool, "space": "z"|"w"|"auto", "fps", "quality", "file": NAME.webp|NAME.mp4 and/or
// "outdir".
int interpolate(const Json& request);
// {"facts": what the thin program saw, "ddp_table": bool, "json": bool}
int doctor(const Json& request);
// {"nets": [{"name": .., "about": .., "peer": [arguments of the peer's script] or null,
// "configs": {"2": configuration for two ranks, ..}}, ..], "rounds", "steps", "pairs",
// "python": .., "script": path, "json": bool}
int bench_ddp(const Json& request);

// A run's config.json: parameter counts, dtypes, memory and time, on standard output.
int describe(const Json& config);

}  // namespace gantrain
