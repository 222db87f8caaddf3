// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gantrain {

// Loads the trainer library (LibTorch and all that computes) that lies beside the program or in
// ../lib of it, once, and with `cuda` first the CUDA libraries, which must be there before the
// first LibTorch call. Returns a function of its by name. Throws UserError(kEnvironment).
void* trainer_function(const char* name, bool cuda);

// Whether the CUDA library was built and lies beside the trainer library.
bool has_cuda_library();

// Names of the trainer library's functions.
inline constexpr const char* kPrepare = "gantrain_prepare";     // void(const char* config_json)
inline constexpr const char* kRankMain = "gantrain_rank_main";  // RankMain (lib/launch/rank.h)
inline constexpr const char* kVerbMain =
    "gantrain_verb_main";  // int(const char* verb, const char* json)

// Calls a verb that computes: generate, interpolate, import, describe, doctor, bench ddp.
int call_trainer(const char* verb, const std::string& json, bool cuda);

}  // namespace gantrain
