// SPDX-License-Identifier: Apache-2.0
#include "explore/targets.h"

#include <filesystem>
#include <map>

#include "core/torch.h"
#include "data/prepare.h"
#include "image/planes.h"
#include "util/error.h"
#include "util/file.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_of(const std::vector<std::string>& files) {
  std::map<std::string, std::string> known;
  std::vector<std::string> names;
  for (const std::string& file : files) {
    const std::string name = fs::path(file).stem().string();
    const auto [at, fresh] = known.emplace(name, file);
    if (!fresh) {
      fail(Exit::kUsage,
           "{} and {}: what is found would be written to one file, {}.npz; project them into two "
           "folders",
           at->second,
           file,
           name);
    }
    names.push_back(name);
  }
  return names;
}

Image load_target(const std::string& file, Size size, int64_t channels) {
  if (fs::is_directory(file))
    fail(Exit::kInput, "{}: a folder; name its pictures: {}/*.png", file, file);
  DataOptions options;
  options.resolution = size;
  return prepare(decode_image(read_file(file), file), channels, options);
}

}  // namespace

at::Tensor planes_of(const ImageView& image) {
  at::Tensor planes = torch::empty({image.channels, image.height, image.width}, at::kByte);
  copy_planes(image, /*flipped=*/false, planes.data_ptr<uint8_t>());
  return planes;
}

Targets load_targets(const std::vector<std::string>& files, Size size, int64_t channels) {
  Targets targets{files, names_of(files), {}};
  std::vector<at::Tensor> pictures;
  for (const std::string& file : files) {
    const Image picture = load_target(file, size, channels);
    pictures.push_back(planes_of(view_of(picture)));
  }
  targets.pictures = torch::stack(pictures);
  return targets;
}

at::Tensor from_bytes(const at::Tensor& pictures) {
  return (pictures.to(at::kFloat) - 127.5) / 127.5;
}

at::Tensor psnr(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor error = (a.to(at::kDouble) - b.to(at::kDouble)).square().mean({1, 2, 3});
  constexpr double kPeak = 255;
  return 10 * torch::log10(kPeak * kPeak / error);
}

}  // namespace gantrain
