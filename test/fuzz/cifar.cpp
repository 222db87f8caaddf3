// SPDX-License-Identifier: Apache-2.0
// CIFAR's files: an input as a single binary batch, and as the Python version of a batch beside a
// file of names.
#include "data/containers/formats.h"
#include "fuzz/container.h"

namespace {

using namespace gantrain;

void read_records(const Source& source, std::string_view name) {
  std::string bytes;
  Image image;
  for (size_t i = 0; i < std::min<size_t>(source.files().size(), 16); ++i)
    accepts(name, [&] { source.decode(i, {}, bytes, image); });
  const Labels labels = source.labels();
  require(labels.of.empty() || labels.of.size() == source.files().size(), "labels are missing");
  for (const int64_t label : labels.of)
    require(label >= 0 && label < labels.classes, "a label outside the classes");
}

void read_folder(const MemoryFolder& folder) {
  const auto files = open_folder(folder.path());
  if (const auto cifar = cifar_in(*files)) read_records(*cifar, folder.path());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = text_of_input(data, size);
  const MemoryFile file(bytes);
  accepts(file.path(), [&] {
    if (const auto batch = cifar_batch(whole_file(file.path()))) read_records(*batch, file.path());
  });
  const MemoryFolder folder;
  folder.write("data_batch_1", bytes);
  folder.write("batches.meta", bytes);
  accepts(folder.path(), [&] { read_folder(folder); });
  return 0;
}
