// SPDX-License-Identifier: Apache-2.0
#include "draw/frame_sink.h"

#include <optional>

#include "draw/mp4.h"
#include "draw/walk.h"
#include "image/animation.h"
#include "util/error.h"
#include "util/file.h"
#include "util/program.h"
#include "util/text.h"

namespace gantrain {

namespace fs = std::filesystem;

namespace {

class WebpSink final : public FrameSink {
 public:
  WebpSink(const fs::path& file, const FilmOptions& options) : file_(file), options_(options) {}

  void add(const Image& frame) override {
    if (!animation_) begin(frame);
    animation_->add(frame);
  }
  void finish() override { write_file(file_, animation_.value().finish()); }

 private:
  void begin(const Image& frame) {
    if (frame.width > kMaxWebpSide || frame.height > kMaxWebpSide) {
      fail(Exit::kUsage,
           "-o {}: frames of {} x {} pixels; WebP holds {} a side: use .mp4, --outdir or a smaller "
           "--grid",
           file_.string(),
           frame.width,
           frame.height,
           kMaxWebpSide);
    }
    AnimationOptions webp;
    webp.fps = options_.fps;
    webp.quality = options_.quality;
    animation_.emplace(frame.width, frame.height, webp);
  }

  fs::path file_;
  FilmOptions options_;
  std::optional<WebpAnimation> animation_;  // from the first frame on
};

class Mp4Sink final : public FrameSink {
 public:
  Mp4Sink(const fs::path& file, double fps) : file_(file), fps_(fps) {}

  void add(const Image& frame) override {
    if (!encoder_)
      encoder_.emplace(find_program("ffmpeg"), Mp4Encoder::Format{frame.width, frame.height, fps_});
    encoder_->add(frame);
  }
  void finish() override { write_file(file_, encoder_.value().finish()); }

 private:
  fs::path file_;
  double fps_;
  std::optional<Mp4Encoder> encoder_;
};

class FolderSink final : public FrameSink {
 public:
  FolderSink(const fs::path& folder, int64_t count) : folder_(folder), count_(count) {
    make_writable_folder(folder_);
  }

  void add(const Image& frame) override {
    write_file(folder_ / (frame_name(next_++, count_) + ".png"), encode_png(frame));
  }
  void finish() override {}

 private:
  fs::path folder_;
  int64_t count_;
  int64_t next_ = 0;
};

}  // namespace

std::unique_ptr<FrameSink> film_sink(const fs::path& file, const FilmOptions& options) {
  if (ends_with(lower(file.string()), ".mp4")) return std::make_unique<Mp4Sink>(file, options.fps);
  return std::make_unique<WebpSink>(file, options);
}

std::unique_ptr<FrameSink> folder_sink(const fs::path& folder, int64_t count) {
  return std::make_unique<FolderSink>(folder, count);
}

}  // namespace gantrain
