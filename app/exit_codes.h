// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gantrain {

struct ExitCode {
  const char* code;
  const char* meaning;
};

// What the program's exit codes mean, for help and the manual page.
inline constexpr ExitCode kExitCodes[] = {
    {"0", "done"},
    {"1", "internal error"},
    {"2", "usage or configuration"},
    {"3", "input that cannot be read (data, models, states)"},
    {"4", "environment (no GPU, rendezvous, port)"},
    {"5", "diverged"},
    {"6", "a rank died or hung (its reason is printed last)"},
    {"7", "out of memory"},
    {"8", "disk full or not writable"},
    {"75", "stopped early, resumable (signal, time limit, STOP)"},
    {"130", "Ctrl-C, saved, resumable"},
    {"128+n", "killed by signal n"},
};

}  // namespace gantrain
