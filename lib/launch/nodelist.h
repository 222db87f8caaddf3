// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gantrain {

// The names of the hosts of a Slurm node list, in Slurm's order. "rack[1-2]n[08-10],login" means
// all combinations of its brackets, of which the last one changes fastest; numbers keep the zeros
// in front that the low end of their range has. A host that stands twice in the list comes twice.
// Throws UserError(kEnvironment) if the text is not such a list or means more than 65536 hosts.
std::vector<std::string> parse_nodelist(std::string_view text);

// The number of tasks of each node, read from SLURM_STEP_TASKS_PER_NODE: "2(x2),1" is {2, 2, 1}.
// Throws UserError(kEnvironment) if the text is not such a list.
std::vector<int64_t> parse_tasks_per_node(std::string_view text);

}  // namespace gantrain
