// SPDX-License-Identifier: Apache-2.0
#include "launch/where/environment.h"
#include "support/catch.h"
#include "util/error.h"
#include "util/text.h"

namespace gantrain {

TEST_CASE("NodeListsExpandAsScontrolDoes") {
  // Expectations: `scontrol show hostnames` of Slurm 22.05.
  const std::vector<std::pair<std::string, std::string>> table{
      {"node1", "node1"},
      {"node[1-2]", "node1 node2"},
      {"n[008-011]", "n008 n009 n010 n011"},
      {"n[9-11]", "n9 n10 n11"},
      {"n[8-011]", "n8 n9 n10 n11"},
      {"rack[1-2]n[08-10]", "rack1n08 rack1n09 rack1n10 rack2n08 rack2n09 rack2n10"},
      {"n[1-2]-[3-4]", "n1-3 n1-4 n2-3 n2-4"},
      {"[1-2]", "1 2"},
      {"10.0.0.[1-3]", "10.0.0.1 10.0.0.2 10.0.0.3"},
      {"host-1-2", "host-1-2"},
      {"n[1-3,2]", "n1 n2 n3 n2"},
      {"a1,b[2,4-5] login", "a1 b2 b4 b5 login"},
      {"n1,", "n1"},
  };
  for (const auto& [text, hosts] : table) {
    INFO(text);
    CHECK(join(parse_nodelist(text), " ") == hosts);
  }
}

TEST_CASE("BrokenNodeListsAreRefused") {
  for (const char* text : {"",
                           "gpu-[001-002]-ib0",
                           "n[a-b]",
                           "n[3-1]",
                           "n[]",
                           "n[1",
                           "n1]",
                           "n[1-70000]",
                           "n[1-300][1-300]",
                           "n[1-60000,1-60000]",
                           "n[1-]",
                           "n[-2]",
                           "n[ 1]"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_nodelist(text), UserError);
  }
}

TEST_CASE("TasksPerNodeExpandRepetitions") {
  CHECK(parse_tasks_per_node("2") == std::vector<int64_t>{2});
  CHECK(parse_tasks_per_node("2(x2),1") == std::vector<int64_t>{2, 2, 1});
  CHECK(parse_tasks_per_node("4(x3)") == std::vector<int64_t>{4, 4, 4});
  for (const char* text : {"", "2(x2", "x", "2(xa)", "-1"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_tasks_per_node(text), UserError);
  }
}

}  // namespace gantrain
