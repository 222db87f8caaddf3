// SPDX-License-Identifier: Apache-2.0
#include <webp/decode.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "image/codec.h"
#include "image/image.h"
#include "util/error.h"

namespace gantrain {

namespace {

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

size_t little_number(std::string_view bytes, size_t at) {
  size_t number = 0;
  for (size_t i = 4; i > 0; --i) number = number << 8 | data_of(bytes)[at + i - 1];
  return number;
}

// The content of the chunk EXIF, where the header's flag says that there is one (WebP container
// specification). Chunks: name, length, content, and a byte more where the length is odd. A file
// that was cut off is refused, since the chunk stands behind the pixels.
std::string_view exif_of_webp(std::string_view bytes, const std::string& name) {
  constexpr size_t kHeader = 30;
  constexpr uint8_t kFlag = 0x08;
  if (bytes.size() < kHeader || bytes.substr(12, 4) != "VP8X") return "";
  if ((data_of(bytes)[20] & kFlag) == 0) return "";
  if (little_number(bytes, 4) + 8 > bytes.size())
    fail(Exit::kInput, "{}: broken WebP: {}", name, reason_of(VP8_STATUS_NOT_ENOUGH_DATA));
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const size_t length = little_number(bytes, at + 4);
    if (bytes.substr(at, 4) == "EXIF") return bytes.substr(at + 8, length);
    at += 8 + length + length % 2;
  }
  return "";
}

WebPConfig config_of(const AnimationOptions& options) {
  WebPConfig config;
  if (!WebPConfigInit(&config)) throw std::runtime_error("WebpAnimation: libwebp's version");
  config.quality = static_cast<float>(options.quality);
  if (options.quality >= 100) {
    config.lossless = 1;
    config.exact = 1;     // colours under transparent pixels, too
    config.quality = 75;  // of a lossless file: effort
  }
  return config;
}

// A picture in libwebp's own form.
class Picture {
 public:
  explicit Picture(const Image& image) {
    if (!WebPPictureInit(&picture_)) throw std::runtime_error("WebpAnimation: libwebp's version");
    picture_.use_argb = 1;
    picture_.width = static_cast<int>(image.width);
    picture_.height = static_cast<int>(image.height);
    const int stride = static_cast<int>(image.width * image.channels);
    const auto import = image.channels == 4 ? WebPPictureImportRGBA : WebPPictureImportRGB;
    if (!import(&picture_, image.pixels.data(), stride)) throw std::bad_alloc();
  }
  ~Picture() { WebPPictureFree(&picture_); }
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  WebPPicture* get() { return &picture_; }

 private:
  WebPPicture picture_ = {};
};

// The picture as it is stored.
ImageInfo stored_info(std::string_view bytes, const std::string& name) {
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

}  // namespace

ImageInfo info_of_webp(std::string_view bytes, const std::string& name) {
  const ImageInfo stored = stored_info(bytes, name);
  return turned(stored, exif_orientation(exif_of_webp(bytes, name)));
}

void decode_webp(std::string_view bytes, const std::string& name, Image& image) {
  const ImageInfo info = stored_info(bytes, name);
  const int orientation = exif_orientation(exif_of_webp(bytes, name));
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
  image = oriented(std::move(image), orientation);
}

std::string encode_webp(const Image& image, int quality) {
  check_image(image);
  if (image.depth == 16) return encode_webp(in_depth(image, 8), quality);
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

struct WebpAnimation::Encoder {
  int64_t width;
  int64_t height;
  double fps;
  WebPConfig config;
  std::unique_ptr<WebPAnimEncoder, decltype(&WebPAnimEncoderDelete)> webp{nullptr,
                                                                          WebPAnimEncoderDelete};
  int64_t frames = 0;

  int milliseconds() const {
    return static_cast<int>(std::llround(static_cast<double>(frames) * 1000 / fps));
  }
  [[noreturn]] void fail_encoding() const {
    throw std::runtime_error(std::string("WebpAnimation: ") + WebPAnimEncoderGetError(webp.get()));
  }
};

WebpAnimation::WebpAnimation(int64_t width, int64_t height, const AnimationOptions& options)
    : encoder_(new Encoder{width, height, options.fps, config_of(options)}) {
  if (width < 1 || height < 1 || width > kMaxWebpSide || height > kMaxWebpSide ||
      !(options.fps > 0) || options.fps > 1000)
    throw std::invalid_argument("WebpAnimation: size or speed");
  WebPAnimEncoderOptions webp;
  if (!WebPAnimEncoderOptionsInit(&webp)) throw std::runtime_error("WebpAnimation: version");
  webp.anim_params.loop_count = options.loops;
  encoder_->webp.reset(
      WebPAnimEncoderNew(static_cast<int>(width), static_cast<int>(height), &webp));
  if (encoder_->webp == nullptr) throw std::bad_alloc();
}

WebpAnimation::~WebpAnimation() = default;

void WebpAnimation::add(const Image& frame) {
  check_image(frame);
  if (frame.depth == 16) return add(in_depth(frame, 8));
  if (frame.channels < 3) return add(with_channels(frame, frame.channels + 2));
  Encoder& e = *encoder_;
  if (frame.width != e.width || frame.height != e.height)
    throw std::invalid_argument("WebpAnimation: a frame of another size");
  Picture picture(frame);
  if (!WebPAnimEncoderAdd(e.webp.get(), picture.get(), e.milliseconds(), &e.config))
    e.fail_encoding();
  ++e.frames;
}

std::string WebpAnimation::finish() {
  Encoder& e = *encoder_;
  // The end of the last frame.
  if (!WebPAnimEncoderAdd(e.webp.get(), nullptr, e.milliseconds(), nullptr)) e.fail_encoding();
  WebPData data;
  WebPDataInit(&data);
  if (!WebPAnimEncoderAssemble(e.webp.get(), &data)) e.fail_encoding();
  std::string bytes(reinterpret_cast<const char*>(data.bytes), data.size);
  WebPDataClear(&data);
  return bytes;
}

}  // namespace gantrain
