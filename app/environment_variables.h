// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

struct EnvironmentVariable {
  const char* names;  // with commas between; SECTION and KEY stand for those of a key
  const char* meaning;
};

// What the program reads from its environment, for help and the manual page.
inline constexpr EnvironmentVariable kEnvironmentVariables[] = {
    {"GANTRAIN_PRESET", "The preset where no flag names one."},
    {"GANTRAIN_SECTION__KEY",
     "Any configuration key: GANTRAIN_TRAIN__BATCH=64 is train.batch=64. A flag wins."},
    {"GANTRAIN_CACHE_DIR", "Where statistics of data sets are kept instead of ~/.cache/gantrain."},
    {"GANTRAIN_TORCH_LIB",
     "The folder of PyTorch's or LibTorch's libraries, where the program does not find them by "
     "itself."},
    {"NO_COLOR", "No colours on a terminal."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that may be used; it is honoured and never rewritten."},
    {"RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT",
     "Set by torchrun and similar launchers: the program is then one rank."},
};

}  // namespace gantrain
