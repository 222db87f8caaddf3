// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gantrain {

// The benchmarks of `gantrain bench`: each reads the arguments after its name and lets the trainer
// library measure. They return the exit status and throw UserError(kUsage).
int bench_ddp_verb(const std::vector<std::string>& arguments);
int bench_step_verb(const std::vector<std::string>& arguments);
int bench_ops_verb(const std::vector<std::string>& arguments);
int bench_launch_verb(const std::vector<std::string>& arguments);
int bench_data_verb(const std::vector<std::string>& arguments);
int bench_save_verb(const std::vector<std::string>& arguments);

// Returns the interpreter that runs the peers' scripts: GANTRAIN_PYTHON, or python3.
std::string default_python();
// Returns the folder of the peers' scripts.
std::string peer_scripts();
// Returns the environment variables that this program sets for itself before it computes, which
// peers do without.
std::vector<std::string> own_variables();

}  // namespace gantrain
