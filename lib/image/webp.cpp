// SPDX-License-Identifier: Apache-2.0
#include <webp/decode.h>
#include <webp/encode.h>

#include <memory>
#include <stdexcept>

#include "image/codec.h"
#include "image/convert.h"
#include "util/error.h"

namespace gantrain {

namespace {

const uint8_t* data_of(std::string_view bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

const char* reason_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return "the file ends too early";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "a feature that libwebp does not know";
    default:
      return "damaged data";
  }
}

}  // namespace

ImageInfo webp_info(std::string_view bytes, const std::string& name) {
  WebPBitstreamFeatures features = {};
  const VP8StatusCode status = WebPGetFeatures(data_of(bytes), bytes.size(), &features);
  if (status != VP8_STATUS_OK) {
    fail(Exit::kInput, "{}: broken WebP: {}", name, reason_of(status));
  }
  if (features.has_animation) {
    fail(Exit::kInput, "{}: an animated WebP; extract its frames first", name);
  }
  const ImageInfo info = {
      .width = features.width, .height = features.height, .channels = features.has_alpha ? 4 : 3};
  check_size(info, name, "WebP");
  // The format itself has no such bound: one colour takes a few bytes at any size. Pictures of
  // anything else stay far from this one.
  check_packing(info, {bytes.size() + 4096, 4096}, name, "WebP");
  return info;
}

void decode_webp(std::string_view bytes, const std::string& name, Image& image) {
  const ImageInfo info = webp_info(bytes, name);
  set_size(image, info);
  WebPDecoderConfig config;
  WebPInitDecoderConfig(&config);
  config.output.colorspace = info.channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image.pixels.data();
  config.output.u.RGBA.stride = static_cast<int>(info.width * info.channels);
  config.output.u.RGBA.size = image.pixels.size();
  const VP8StatusCode status = WebPDecode(data_of(bytes), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) {
    fail(Exit::kInput, "{}: broken WebP: {}", name, reason_of(status));
  }
}

std::string encode_webp(const Image& image, int quality) {
  check_image(image);
  if (image.channels < 3) return encode_webp(with_channels(image, image.channels + 2), quality);
  const auto width = static_cast<int>(image.width);
  const auto height = static_cast<int>(image.height);
  const auto stride = static_cast<int>(image.width * image.channels);
  const auto q = static_cast<float>(quality);
  const uint8_t* pixels = image.pixels.data();
  const bool alpha = image.channels == 4;
  uint8_t* out = nullptr;
  size_t size = 0;
  if (quality >= 100) {
    size = alpha ? WebPEncodeLosslessRGBA(pixels, width, height, stride, &out)
                 : WebPEncodeLosslessRGB(pixels, width, height, stride, &out);
  } else {
    size = alpha ? WebPEncodeRGBA(pixels, width, height, stride, q, &out)
                 : WebPEncodeRGB(pixels, width, height, stride, q, &out);
  }
  const std::unique_ptr<uint8_t, decltype(&WebPFree)> owner(out, WebPFree);
  if (size == 0) throw std::runtime_error("encode_webp: failed (at most 16383 pixels a side)");
  return std::string(reinterpret_cast<const char*>(out), size);
}

}  // namespace gantrain
