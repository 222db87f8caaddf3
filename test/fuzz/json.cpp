// SPDX-License-Identifier: Apache-2.0
// JSON with comments, the form of presets and configuration files.
#include "config/config.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::string text(text_of_input(data, size));
  Json json;
  if (!accepts("some file", [&] { json = parse_json(text, "some file", Exit::kUsage); })) return 0;
  require(parse_json(json.dump(), "again", Exit::kUsage) == json, "JSON changed on the way");
  return 0;
}
