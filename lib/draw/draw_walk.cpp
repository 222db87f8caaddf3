// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include "draw/draw.h"
#include "draw/frame_sink.h"
#include "draw/job.h"
#include "draw/latents.h"
#include "draw/painter.h"
#include "draw/walk.h"
#include "report/grid.h"
#include "util/log.h"

namespace gantrain {

namespace {

// Tracks side by side, each through its own keys, all in step.
class Tracks {
 public:
  Tracks(Painter& painter, const InterpolateRequest& request)
      : painter_(painter),
        columns_(request.tracks.columns),
        styles_(request.space == WalkSpace::kW ||
                (request.space == WalkSpace::kAuto && painter.generator().num_ws() > 0)) {
    const at::Tensor z = latents_of_seeds(request.seeds, painter.generator().z_dim());
    walk_.keys = z.size(0) / (columns_ * request.tracks.rows);
    walk_.frames = request.frames;
    walk_.loop = request.loop;
    std::vector<at::Tensor> keys;
    for (int64_t i = 0; i < z.size(0); ++i) keys.push_back(styles_ ? painter.map(z[i]) : z[i]);
    const at::Tensor all = torch::stack(keys);
    keys_ = all.split(walk_.keys);
  }

  const Walk& walk() const { return walk_; }

  Image frame(int64_t number) {
    const Step step = step_of(walk_, number);
    // New noise in each frame where noise is random.
    const auto noise_seed = static_cast<uint64_t>(number);
    std::vector<at::Tensor> pictures;
    for (const at::Tensor& keys : keys_) {
      const at::Tensor &a = keys[step.from], &b = keys[step.to];
      pictures.push_back(to_bytes(styles_
                                      ? painter_.picture_of_styles(linear(a, b, step.t), noise_seed)
                                      : painter_.picture(spherical(a, b, step.t), noise_seed)));
    }
    return tile(torch::stack(pictures), columns_);
  }

 private:
  Painter& painter_;
  int64_t columns_;
  bool styles_;  // in w, in straight lines; else in z, on great circles
  Walk walk_;
  std::vector<at::Tensor> keys_;  // of each track: [keys, ...]
};

}  // namespace

void draw_walk(Generator& generator, const InterpolateRequest& request) {
  Painter painter(generator, request.how);
  if (request.space == WalkSpace::kW) require_styles(generator, "--space w", painter.model());
  Tracks tracks(painter, request);
  const int64_t count = frame_count(tracks.walk());
  const std::string &file = request.file, &outdir = request.outdir;
  std::vector<std::unique_ptr<FrameSink>> sinks;
  if (!file.empty())
    sinks.push_back(film_sink(file, {request.fps, static_cast<int>(request.quality)}));
  if (!outdir.empty()) sinks.push_back(folder_sink(outdir, count));
  Job job(count, "frames");
  for (int64_t i = 0; i < count; ++i) {
    const Image frame = tracks.frame(i);
    for (const auto& sink : sinks) sink->add(frame);
    job.step();
  }
  for (const auto& sink : sinks) sink->finish();
  info("{} frame{} in {}", count, count == 1 ? "" : "s", file.empty() ? outdir : file);
}

}  // namespace gantrain
