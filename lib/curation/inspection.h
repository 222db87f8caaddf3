// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/value.h"
#include "curation/requests.h"
#include "image/image.h"

namespace gantrain {

// A file that is no readable picture.
struct BadFile {
  std::string file;
  std::string reason;  // with the file's name
};

// Pictures that are the same: the first one's name, then its copies'.
using CopyGroup = std::vector<std::string>;

// A class of the data.
struct ClassCount {
  std::string name;
  int64_t pictures = 0;  // readable ones
};

// One number of labels that are vectors.
struct AttributeCount {
  std::string name;
  double least = 0, mean = 0, most = 0;  // of what the data gives
  int64_t missing = 0;                   // pictures that do not have it
  bool yes_or_no = true;                 // zeros and ones: a class that a picture has or not
};

// What a data set holds.
struct Inspection {
  std::string path;
  std::string kind;      // "CIFAR-10", "12 shards"; "" for a plain folder or archive
  int64_t pictures = 0;  // readable ones
  int64_t others = 0;    // files that are neither pictures nor hold labels
  std::string ignored;   // what they are: "10 .gif ignored: ..."; "" where there are none
  int64_t bytes = 0;     // of the files of the readable pictures
  std::vector<BadFile> bad;
  std::map<std::string, int64_t> formats;  // "JPEG" -> pictures
  std::map<std::string, int64_t> forms;    // "RGB", "grey", "palette", ... -> pictures
  std::map<std::pair<int64_t, int64_t>, int64_t> sizes;  // width, height as it is seen -> pictures
  std::vector<ClassCount> classes;                       // none without labels
  std::vector<AttributeCount> attributes = {};           // where labels are vectors
  int64_t unlabelled = 0;                                // pictures whose vectors are made up
  std::vector<CopyGroup> copies;                         // byte for byte the same file
  std::vector<CopyGroup> look_alikes;                    // compressed again or resized
  std::map<int64_t, int64_t> depths, channels;           // 8 or 16 bits, 1 to 16 -> pictures
  bool stopped = false;  // before the end: the rest is not filled in
};

// Decodes every picture of a data set on all cores, and writes the sheet and the list of bad files
// that the request asks for. Memory grows by about 1 KB a picture. Throws UserError(kInput) where
// the data cannot be opened or has no pictures, UserError(kDisk) where a file cannot be written.
Inspection inspect_data(const InspectRequest& request, const WorkCallbacks& callbacks);

// What to start training with on a data set.
struct Advice {
  std::string preset;  // for a GPU
  Size resolution;
  int64_t batch = 0;  // that the preset takes on one GPU
  double gamma = 0;   // 0.0002 x pixels / batch, as the preset has it then
  std::string here;   // a preset for this machine, where it has no GPU; else `preset`
  Size resolution_here;
  bool labels = false;                    // the data has classes
  std::vector<std::string> reasons = {};  // whole lines
  std::string more = "";                  // what else the command takes: " --set data.labels=..."
};

// Advises a resolution that nine of ten pictures have without being enlarged; gamma follows the
// rule of StyleGAN2-ADA's code.
Advice advise(const Inspection& inspection, bool gpu);

// Returns the command that trains so; it leaves out bad files where there are any.
std::string train_command(const Inspection& inspection, const Advice& advice);

// Returns what `data inspect` prints. Of groups of copies only the first ones, unless `all`.
std::string inspection_text(const Inspection& inspection, const Advice& advice, bool all);

// Returns the same as one object.
Json inspection_json(const Inspection& inspection, const Advice& advice);

// How a file stores its picture, which training may not see: without data.depth and data.channels
// all becomes 8 bits, and grey or RGB but for stacks.
struct PictureForm {
  // "PNG", "JPEG", "WebP", "npy", "TIFF"; "raw" for records of pixels
  std::string format = "raw";
  int64_t bits = 8;  // a channel
  bool grey = false;
  bool palette = false;
  bool alpha = false;
  bool cmyk = false;
  int64_t stack = 0;  // channels of a stack; 0 for other pictures
};

// Reads the header of a picture that image_info() accepts.
PictureForm form_of(std::string_view bytes);

// What a picture looks like from afar: the mean colour of each cell of a grid. Copies that were
// compressed again or resized have nearly the same one.
struct Look {
  static constexpr int64_t kSide = 16;              // cells
  std::array<uint8_t, kSide* kSide* 3> cells = {};  // [row, column, RGB]
  std::array<float, 4> quarters = {};               // mean luma of each quarter, 0..255
  float contrast = 0;  // standard deviation of the cells within their channel
  float aspect = 1;    // width / height
};

// Alpha is laid over white.
Look look_of(const Image& image);

// Whether no cell differs much and all together hardly, the less the lower the contrast.
bool look_alike(const Look& a, const Look& b);

// Finds look-alikes among many pictures. A new one is compared with those of earlier groups whose
// quarters are about as bright, by a hash table; so the time grows about as their number.
class LookAlikes {
 public:
  // Returns the number of an earlier picture that looks the same, or nothing.
  std::optional<int64_t> add(int64_t picture, const Look& look);

 private:
  struct First {
    int64_t picture = 0;
    Look look;
  };
  std::vector<First> firsts_;                                    // the first picture of each group
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_cell_;  // positions in firsts_
};

}  // namespace gantrain
