// SPDX-License-Identifier: Apache-2.0
// Foreign pickles: the machine that reads them, and the tensors in what it has read.
#include "core/pickle.h"

#include <ATen/Tensor.h>

#include "core/archive.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::string_view content = text_of_input(data, size);
  const std::string name = "some file";
  PickleRules rules;
  rules.source = name;
  rules.globals = torch_globals();
  rules.persistent_ids = size % 2 == 0;
  rules.max_operations = 100'000;
  Pickle pickle;
  if (!accepts(name, [&] { pickle = parse_pickle(content, rules); })) return 0;
  require(pickle.end <= size, "a pickle that ends behind its file");
  TorchTensors tensors(name, static_cast<int64_t>(size));
  for (const PickleValue& value : pickle.values) {
    (void)value.describe();
    if (is_torch_tensor(value)) accepts(name, [&] { (void)tensors.read(value, "a tensor"); });
  }
  accepts(name, [&] { (void)read_legacy_storage(content, name); });
  accepts(name, [&] { (void)read_legacy_dict(content, name); });
  return 0;
}
