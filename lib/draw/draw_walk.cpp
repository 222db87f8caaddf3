// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "core/torch.h"
#include "draw/classes.h"
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

constexpr int64_t kMostUnasked = 64;  // tracks, where no class was asked for

// Tracks side by side, each through its own keys and in its own class, all in step.
class Tracks {
 public:
  Tracks(Painter& painter, const InterpolateRequest& request, const ClassChoice& choice)
      : painter_(painter),
        seeds_(request.seeds),
        columns_(request.tracks.columns),
        styles_(request.space == WalkSpace::kW ||
                (request.space == WalkSpace::kAuto && painter.generator().num_ws() > 0)),
        rows_(columns_ * request.tracks.rows, choice, kMostUnasked) {
    walk_.keys = seeds_.size() / (columns_ * request.tracks.rows);
    walk_.frames = request.frames;
    walk_.loop = request.loop;
  }

  // The row and the class of each track.
  const LabelledRows& rows() const { return rows_; }

  const Walk& walk() const { return walk_; }

  Image frame(int64_t number) {
    const Step step = step_of(walk_, number);
    // A loop ends just before its first frame, any other walk with its last one.
    const int64_t whole = frame_count(walk_) - (walk_.loop ? 0 : 1);
    painter_.move_to(static_cast<double>(number) /
                     static_cast<double>(std::max<int64_t>(whole, 1)));
    // New noise in each frame where noise is random.
    const auto noise_seed = static_cast<uint64_t>(number);
    std::vector<at::Tensor> pictures;
    forget_keys_but(step);
    for (int64_t i = 0; i < rows_.size(); ++i) {
      const at::Tensor a = key(i, step.from), b = key(i, step.to);
      const at::Tensor picture =
          styles_ ? painter_.picture_of_styles(linear(a, b, step.t), noise_seed)
                  : painter_.picture(spherical(a, b, step.t), noise_seed, rows_[i].label);
      pictures.push_back(to_bytes(picture));
    }
    return tile(torch::stack(pictures), columns_);
  }

 private:
  // The latent of track i at a key.
  at::Tensor key(int64_t i, int64_t number) {
    at::Tensor& known = keys_[{i, number}];
    if (known.defined()) return known;
    const auto [row, label] = rows_[i];
    const int64_t seed = seeds_[row * walk_.keys + number];
    known = latents_of_seeds({seed}, painter_.generator().z_dim())[0];
    if (styles_) known = painter_.map(known, label);
    return known;
  }

  // However many keys there are, only those of the present step are in memory.
  void forget_keys_but(const Step& step) {
    std::erase_if(keys_, [&](const auto& key) {
      return key.first.second != step.from && key.first.second != step.to;
    });
  }

  Painter& painter_;
  SeedList seeds_;
  int64_t columns_;
  bool styles_;  // in w, in straight lines; else in z, on great circles
  Walk walk_;
  LabelledRows rows_;
  std::map<std::pair<int64_t, int64_t>, at::Tensor> keys_;  // by track and number of the key
};

}  // namespace

void draw_walk(Generator& generator, const InterpolateRequest& request, const ClassTable& table) {
  Painter painter(generator, request.how);
  if (request.space == WalkSpace::kW) require_styles(generator, "--space w", painter.model());
  Tracks tracks(painter, request, choose_classes(generator, request.how, table));
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
  const std::string classes = class_line(tracks.rows(), table);
  info("{} frame{}{} in {}",
       count,
       count == 1 ? "" : "s",
       classes.empty() ? "" : fmt::format(" ({})", classes),
       file.empty() ? outdir : file);
}

}  // namespace gantrain
