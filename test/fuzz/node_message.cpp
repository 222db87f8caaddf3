// SPDX-License-Identifier: Apache-2.0
// What the launchers of two nodes tell each other, one line of it.
#include "fuzz/fuzz_input.h"
#include "launch/nodes/node_link.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const auto message = decode(text_of_input(data, size));
  if (!message) return 0;
  const std::string line = encode(*message);
  require(line.find('\n') == line.size() - 1, "a message of several lines");
  const auto again = decode(line);
  require(again.has_value(), "a message that is not understood again");
  require(encode(*again) == line, "a message that changes on its way");
  return 0;
}
