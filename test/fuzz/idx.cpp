// SPDX-License-Identifier: Apache-2.0
// idx files: pictures, and behind the mark "labels" the file of their labels.
#include "data/containers/formats.h"
#include "fuzz/container.h"

namespace {

using namespace gantrain;

void look_at_records(const Source& source, std::string_view name) {
  std::string bytes;
  Image image;
  for (size_t i = 0; i < std::min<size_t>(source.files().size(), 16); ++i) {
    accepts(name, [&] { source.decode(i, {}, bytes, image); });
    require(image.pixels.size() == static_cast<size_t>(image.width * image.height * image.channels),
            "pixels do not fill the picture");
  }
  const Labels labels = source.labels();
  require(labels.of.empty() || labels.of.size() == source.files().size(), "labels are missing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes = text_of_input(data, size);
  const size_t mark = std::min(bytes.find("labels"), size);
  const MemoryFile images(bytes.substr(0, mark));
  const MemoryFile labels(bytes.substr(std::min(mark + 6, size)));
  (void)is_idx(bytes);
  accepts("/proc/self/fd/", [&] {
    look_at_records(*open_idx(whole_file(images.path()), std::nullopt, {}), images.path());
    const FilePart numbers = whole_file(labels.path());
    look_at_records(*open_idx(whole_file(images.path()), numbers, {}), images.path());
  });
  return 0;
}
