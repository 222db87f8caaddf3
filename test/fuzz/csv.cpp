// SPDX-License-Identifier: Apache-2.0
// Labels in CSV files.
#include "data/labels/labels.h"
#include "fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gantrain;
  const std::vector<std::string> pictures = {"00000/img00000000.png", "a b.png", "\xc3\xa4.jpg"};
  accepts("some file", [&] {
    const auto rows = read_csv(text_of_input(data, size), "some file");
    const auto columns = label_columns(rows);
    if (!columns) return;
    const Labels labels = labels_of_rows(rows, *columns, "some file", pictures);
    require(labels.of.empty() || labels.of.size() == pictures.size(), "a picture without a label");
    for (const int64_t label : labels.of)
      require(label >= 0 && label < labels.classes, "a label outside the classes");
  });
  return 0;
}
