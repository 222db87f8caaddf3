// SPDX-License-Identifier: Apache-2.0
// Slurm's lists of hosts and of tasks.
#include "fuzz/fuzz_input.h"
#include "launch/where/environment.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::string_view text = text_of_input(data, size);
  accepts("", [&] { require(parse_nodelist(text).size() <= 65536, "too many hosts"); });
  accepts("", [&] {
    const std::vector<int64_t> tasks = parse_tasks_per_node(text);
    require(tasks.size() <= 65536, "too many nodes");
    for (const int64_t count : tasks) require(count >= 0, "a node with fewer than no tasks");
  });
  return 0;
}
