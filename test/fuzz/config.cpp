// SPDX-License-Identifier: Apache-2.0
// A configuration file, one half of the input, and GANTRAIN_* variables, lines of the other half.
#include "config/config.h"

#include "data/options.h"
#include "fuzz/fuzz_input.h"
#include "launch/options.h"

namespace {

using namespace gantrain;

Config empty_config() {
  Schema schema;
  add_keys<DataOptions>(schema);
  add_keys<LaunchOptions>(schema);
  return Config(schema);
}

void set_variables(Config& config, InputReader& lines) {
  std::map<std::string, std::string> variables;
  while (!lines.empty()) {
    InputReader line(lines.until('\n'));
    const std::string name(line.until('='));
    variables["GANTRAIN_" + name] = line.rest();
  }
  set_from_environment(config, variables);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  InputReader input(text_of_input(data, size));
  const std::string file(input.until('\0'));
  Config config = empty_config();
  accepts("", [&] { config.set_tree(parse_json(file, "some file", Exit::kUsage), "some file"); });
  InputReader lines(input.until('\0'));  // which no variable can hold
  accepts("GANTRAIN_", [&] { set_variables(config, lines); });
  // Whatever was taken is in range, can be read, and is the same after a round trip.
  (void)config.read<DataOptions>();
  (void)config.read<LaunchOptions>();
  Config again = empty_config();
  again.set_tree(parse_json(config.to_json().dump(), "config.json", Exit::kInput), "config.json");
  require(differences(config, again).empty(), "config.json does not hold the configuration");
  return 0;
}
