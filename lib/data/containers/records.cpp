// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "data/containers/formats.h"
#include "util/error.h"

namespace gantrain {

namespace {

class RecordSource final : public Source {
 public:
  // Throws UserError(kInput) where a run reaches beyond its part.
  explicit RecordSource(Records records) : records_(std::move(records)) {
    kind_ = records_.kind;
    labels_ = std::move(records_.labels);
    int64_t count = 0;
    for (const RecordRun& run : records_.runs) {
      const int64_t last = run.first + (run.count - 1) * run.stride;
      if (run.count > 0 && last + records_.form.bytes() > run.part.size) {
        fail(Exit::kInput, "{}: ends too early, the file was probably cut off", run.part.name);
      }
      begins_.push_back(count);
      count += run.count;
    }
    const size_t digits = fmt::formatted_size("{}", std::max<int64_t>(count - 1, 0));
    for (int64_t i = 0; i < count; ++i) files_.push_back(fmt::format("{:0{}}", i, digits));
  }

  bool is_picture(size_t) const override { return true; }
  bool holds_pixels() const override { return true; }

  std::string name(size_t file) const override {
    const auto [run, record] = place(file);
    return fmt::format("{}: picture {}", run.part.name, record);
  }

  std::optional<FilePart> part(size_t file) const override {
    const auto [run, record] = place(file);
    return run.part.part(run.first + record * run.stride, records_.form.bytes(), name(file));
  }

  void decode(size_t file, const NeededSize&, std::string& content, Image& image) const override {
    read(file, content);
    const RecordForm& form = records_.form;
    const ImageInfo info = form.info();
    image.width = info.width;
    image.height = info.height;
    image.channels = info.channels;
    image.pixels.assign(static_cast<size_t>(image.width * image.height * image.channels), 0);
    for (int64_t c = 0; c < form.channels; ++c) {
      for (int64_t y = 0; y < form.height; ++y) {
        const char* in = content.data() + (c * form.height + y) * form.width;
        uint8_t* out = image.pixels.data() + c +
                       ((y + form.border) * image.width + form.border) * form.channels;
        for (int64_t x = 0; x < form.width; ++x) {
          out[x * form.channels] = static_cast<uint8_t>(in[x]);
        }
      }
    }
  }

  // Pixels cannot be wrong, but the file may have become shorter.
  ImageInfo look(size_t file, bool headers_only) const override {
    std::string content;
    if (!headers_only) read(file, content);
    return records_.form.info();
  }

 private:
  struct Place {
    const RecordRun& run;
    int64_t record = 0;  // in the run
  };

  Place place(size_t file) const {
    const auto number = static_cast<int64_t>(file);
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), number);
    const auto run = static_cast<size_t>(behind - begins_.begin() - 1);
    return {records_.runs[run], number - begins_[run]};
  }

  Records records_;
  std::vector<int64_t> begins_;  // number of the first record of each run
};

}  // namespace

std::unique_ptr<Source> open_records(Records records) {
  return std::make_unique<RecordSource>(std::move(records));
}

FilePart part_of(const Source& source, size_t file) {
  std::optional<FilePart> part = source.part(file);
  if (!part) {
    fail(Exit::kInput, "{}: is packed in an archive; unpack it first", source.name(file));
  }
  return *part;
}

}  // namespace gantrain
