// SPDX-License-Identifier: Apache-2.0
#include "draw/draw.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "core/tensor_files.h"
#include "core/tensors.h"
#include "core/torch.h"
#include "draw/frames.h"
#include "draw/painter.h"
#include "report/console.h"
#include "report/grid.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"
#include "util/system.h"
#include "util/wording.h"

namespace gantrain {

PictureFolder::PictureFolder(const std::filesystem::path& folder,
                             PictureFormat format,
                             int64_t depth)
    : folder_(folder), format_(format), depth_(depth) {
  make_writable_folder(folder_);
}

void PictureFolder::write(const std::string& name, const at::Tensor& picture) const {
  if (format_ == PictureFormat::kNpy) {
    save_npy(folder_ / (name + ".npy"), picture);
    return;
  }
  const Image image = to_image(to_depth(picture, depth_));
  if (format_ == PictureFormat::kStack) {
    write_file(folder_ / (name + ".npy"), encode_npy(image));
  } else if (image.channels <= kMostColors) {
    write_file(folder_ / (name + ".png"), encode_png(image));
  } else {
    for (int64_t c = 0; c < image.channels; ++c) {
      write_file(folder_ / fmt::format("{}.c{}.png", name, c),
                 encode_png(only_channels(view_of(image), {c})));
    }
  }
}

namespace {

// The latents of a request. Those of seeds are made when they are asked for: there may be millions.
class Latents {
 public:
  Latents(const GenerateRequest& request, Generator& generator)
      : seeds_(request.seeds), z_dim_(generator.z_dim()), styles_(!request.w.empty()) {
    if (!seeds_.empty()) return;
    of_file_ = styles_ ? styles_of_file(request.w, generator.num_ws(), generator.w_dim())
                       : latents_of_file(request.z, z_dim_);
  }

  int64_t size() const { return seeds_.empty() ? of_file_.size(0) : seeds_.size(); }
  bool styles() const { return styles_; }  // they are w, not z
  // Of one picture: its latent, the key of its noise, and the name of its file.
  at::Tensor operator[](int64_t i) const {
    return seeds_.empty() ? of_file_[i] : latents_of_seeds({seeds_[i]}, z_dim_)[0];
  }
  uint64_t noise_seed(int64_t i) const {
    return static_cast<uint64_t>(seeds_.empty() ? i : seeds_[i]);
  }
  std::string name(int64_t i) const {
    const char* what = styles_ ? "w" : "z";
    return fmt::format("{}{:04}", seeds_.empty() ? what : "seed", noise_seed(i));
  }

 private:
  SeedList seeds_;
  int64_t z_dim_;
  bool styles_;
  at::Tensor of_file_;  // [N, ...] float32
};

std::string in_brackets(const std::string& text) {
  return text.empty() ? "" : fmt::format(" ({})", text);
}

// What a grid holds of a picture [C, H, W]: the channels that are shown, in the model's depth.
at::Tensor cell_of(const at::Tensor& picture, const ModelRequest& how) {
  const std::vector<int64_t> shown = read_channels("--channels", how.channels, picture.size(0));
  return shown_channels(to_depth(picture, how.depth), shown);
}

constexpr int64_t kMostPictures = 1024;  // pictures, where no class was asked for
constexpr int64_t kWidestClass = 32;     // pictures of one class side by side in a grid

// A grid of pictures in the order of `rows`. Each of several classes begins a line of its own,
// unless the classes only take turns.
Image grid_of(const std::vector<at::Tensor>& pictures, const LabelledRows& rows, int64_t latents) {
  const auto count = static_cast<int64_t>(pictures.size());
  if (count == latents) {
    const auto square = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    return tile(torch::stack(pictures), square);
  }
  const int64_t columns = std::min(latents, kWidestClass);
  std::vector<at::Tensor> cells;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0 && rows[i].label != rows[i - 1].label) {
      while (static_cast<int64_t>(cells.size()) % columns != 0)
        cells.push_back(torch::zeros_like(pictures.front()));
    }
    cells.push_back(pictures[static_cast<size_t>(i)]);
  }
  return tile(torch::stack(cells), columns);
}

// Cells of that grid.
int64_t cells_of(int64_t pictures, int64_t latents) {
  const auto full = [](int64_t cells, int64_t columns) {
    return (cells + columns - 1) / columns * columns;
  };
  if (pictures == latents)
    return full(pictures,
                static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(pictures)))));
  return pictures / latents * full(latents, std::min(latents, kWidestClass));
}

constexpr int64_t kMostGridBytes = int64_t{1} << 31;  // of its pixels; a PNG ends at twice that

void check_grid(const std::string& what,
                int64_t cells,
                const at::Tensor& cell,
                const std::string& mend = "") {
  const int64_t bytes = static_cast<int64_t>(cell.nbytes());
  if (cells <= kMostGridBytes / bytes) return;
  fail(Exit::kUsage,
       "{}: a grid of {} pictures of {} x {} pixels; at most {} fit; draw fewer at a time{}",
       what,
       cells,
       cell.size(2),
       cell.size(1),
       kMostGridBytes / bytes,
       mend);
}

constexpr int64_t kMostBlocks = 16;  // classes, where none was asked for

void check_layers(const std::vector<int64_t>& layers, const Painter& painter, int64_t num_ws) {
  for (const int64_t layer : layers) {
    if (layer < num_ws) continue;
    fail(Exit::kUsage,
         "--mix: layer {}: {} has {}, 0 to {}",
         layer,
         painter.model(),
         counted(num_ws, "layer"),
         num_ws - 1);
  }
}

// The seeds' own latents and pictures in one class, and what comes of mixing them.
class Mixer {
 public:
  Mixer(Painter& painter, const std::vector<int64_t>& layers, std::optional<int64_t> label)
      : painter_(painter), layers_(torch::tensor(layers, at::kLong)), label_(label) {}

  // [C, H, W]: seed's own picture.
  at::Tensor own(int64_t seed) { return of(seed).picture; }

  at::Tensor mixed(int64_t row, int64_t column) {
    at::Tensor ws = of(row).ws.clone();
    ws.index_copy_(0, layers_, of(column).ws.index_select(0, layers_));
    return painter_.picture_of_styles(ws, static_cast<uint64_t>(row));
  }

 private:
  struct Own {
    at::Tensor ws;  // [num_ws, w_dim]
    at::Tensor picture;
  };

  const Own& of(int64_t seed) {
    Own& own = own_[seed];
    if (!own.ws.defined()) {
      const int64_t z_dim = painter_.generator().z_dim();
      own.ws = painter_.map(latents_of_seeds({seed}, z_dim)[0], label_);
      own.picture = painter_.picture_of_styles(own.ws, static_cast<uint64_t>(seed));
    }
    return own;
  }

  Painter& painter_;
  at::Tensor layers_;
  std::optional<int64_t> label_;
  std::map<int64_t, Own> own_;
};

constexpr int64_t kMostTracks = 64;  // tracks, where no class was asked for

// Tracks side by side, each through its own keys and in its own class, all in step.
class Tracks {
 public:
  Tracks(Painter& painter, const InterpolateRequest& request, const ClassChoice& choice)
      : painter_(painter),
        seeds_(request.seeds),
        how_(request.how),
        columns_(request.tracks.columns),
        styles_(request.space == WalkSpace::kW ||
                (request.space == WalkSpace::kAuto && painter.generator().num_ws() > 0)),
        walk_{.keys = seeds_.size() / (columns_ * request.tracks.rows),
              .frames = request.frames,
              .loop = request.loop},
        per_seed_(choice.in_turn && !choice.file.empty() &&
                  static_cast<int64_t>(choice.labels.size()) == seeds_.size()),
        labels_(choice.vectors),
        rows_(columns_ * request.tracks.rows,
              per_seed_ ? ClassChoice() : choice,
              kMostTracks,
              counted(seeds_.size(), "seed")) {
    painter.use(choice.vectors);
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
          : per_seed_
              ? painter_.picture_of(spherical(a, b, step.t),
                                    noise_seed,
                                    linear(label_at(i, step.from), label_at(i, step.to), step.t))
              : painter_.picture(spherical(a, b, step.t), noise_seed, rows_[i].label);
      pictures.push_back(cell_of(picture, how_));
    }
    return tile(torch::stack(pictures), columns_);
  }

 private:
  // The latent of track i at a key.
  at::Tensor key(int64_t i, int64_t number) {
    at::Tensor& known = keys_[{i, number}];
    if (known.defined()) return known;
    auto [row, label] = rows_[i];
    const int64_t seed = seeds_[row * walk_.keys + number];
    if (per_seed_) label = row * walk_.keys + number;
    known = latents_of_seeds({seed}, painter_.generator().z_dim())[0];
    if (styles_) known = painter_.map(known, label);
    return known;
  }

  // The label of the seed at a key, [1, L].
  at::Tensor label_at(int64_t i, int64_t number) const {
    return labels_.narrow(0, rows_[i].row * walk_.keys + number, 1);
  }

  // However many keys there are, only those of the present step are in memory.
  void forget_keys_but(const Step& step) {
    std::erase_if(keys_, [&](const auto& key) {
      return key.first.second != step.from && key.first.second != step.to;
    });
  }

  Painter& painter_;
  SeedList seeds_;
  const ModelRequest& how_;
  int64_t columns_;
  bool styles_;  // in w, in straight lines; else in z, on great circles
  Walk walk_;
  bool per_seed_;      // --label FILE has a row a seed: labels change along the path
  at::Tensor labels_;  // its rows
  LabelledRows rows_;
  std::map<std::pair<int64_t, int64_t>, at::Tensor> keys_;  // by track and number of the key
};

constexpr std::array<int, 3> kWaiting = {SIGINT, SIGTERM, SIGHUP};

// What a handler can reach. Blocking the signals in this thread would not do: LibTorch's threads,
// started earlier, would take them.
volatile std::sig_atomic_t arrived = 0;

void note_arrival(int signal) { arrived = signal; }

}  // namespace

void draw_pictures(Generator& generator, const GenerateRequest& request, const ClassTable& table) {
  const bool styles = !request.w.empty();
  Painter painter(generator, request.how, styles);
  if (styles) require_styles(generator, "--w " + request.w, painter.model());
  const ClassChoice choice = choose_classes(generator, request.how, table, styles);
  painter.use(choice.vectors);
  const Latents latents(request, generator);
  const LabelledRows rows(latents.size(), choice, kMostPictures);
  std::optional<PictureFolder> folder;
  if (!request.outdir.empty()) folder.emplace(request.outdir, request.format, request.how.depth);
  std::vector<at::Tensor> all;
  Job job(rows.size(), "pictures");
  for (int64_t i = 0; i < rows.size(); ++i) {
    const auto [row, label] = rows[i];
    const uint64_t noise_seed = latents.noise_seed(row);
    const at::Tensor image = latents.styles() ? painter.picture_of_styles(latents[row], noise_seed)
                                              : painter.picture(latents[row], noise_seed, label);
    if (i == 0) read_channels("--channels", request.how.channels, image.size(0));
    if (!request.grid.empty()) all.push_back(cell_of(image, request.how));
    if (i == 0 && !all.empty())
      check_grid("-o " + request.grid,
                 cells_of(rows.size(), latents.size()),
                 all.front(),
                 ", or one file a picture: --outdir");
    if (folder) folder->write(latents.name(row) + class_suffix(label, choice), image);
    job.step();
  }
  if (!request.grid.empty())
    write_file(request.grid, encode_png(grid_of(all, rows, latents.size())));
  info("{}{} in {}",
       counted(static_cast<int64_t>(rows.size()), "picture"),
       in_brackets(class_line(rows, table)),
       request.outdir.empty() ? request.grid : request.outdir);
}

void draw_mix(Generator& generator, const GenerateRequest& request, const ClassTable& table) {
  const auto& [rows, columns, layers] = request.mix.value();
  Painter painter(generator, request.how);
  require_styles(generator, "--mix", painter.model());
  check_layers(layers, painter, generator.num_ws());
  const ClassChoice choice = choose_classes(generator, request.how, table);
  painter.use(choice.vectors);
  const LabelledRows blocks(1, choice, kMostBlocks);
  std::optional<PictureFolder> folder;
  if (!request.outdir.empty()) folder.emplace(request.outdir, request.format, request.how.depth);

  const auto cells = static_cast<int64_t>((rows.size() + 1) * (columns.size() + 1)) - 1;
  const std::string file = !request.grid.empty()
                               ? request.grid
                               : (std::filesystem::path(request.outdir) / "grid.png").string();
  Job job(cells * blocks.size(), "pictures");
  std::vector<at::Tensor> grid;
  for (int64_t i = 0; i < blocks.size(); ++i) {
    const LabelledRow block = blocks[i];
    Mixer mixer(painter, layers, block.label);
    const auto draw = [&](int64_t row, int64_t column) {
      const at::Tensor picture = row == column ? mixer.own(row) : mixer.mixed(row, column);
      const std::string suffix = class_suffix(block.label, choice);
      if (folder) folder->write(fmt::format("{}-{}{}", row, column, suffix), picture);
      job.step();
      const at::Tensor cell = cell_of(picture, request.how);
      if (grid.empty()) check_grid(file, (cells + 1) * blocks.size(), cell);
      return cell;
    };
    const size_t corner = grid.size();
    for (const int64_t column : columns) grid.push_back(draw(column, column));
    grid.insert(grid.begin() + static_cast<int64_t>(corner), torch::zeros_like(grid[corner]));
    for (const int64_t row : rows) {
      grid.push_back(draw(row, row));
      for (const int64_t column : columns) grid.push_back(draw(row, column));
    }
  }
  write_file(file, encode_png(tile(torch::stack(grid), static_cast<int64_t>(columns.size()) + 1)));
  info("{} and {}{} in {}",
       counted(static_cast<int64_t>(rows.size()), "row"),
       counted(static_cast<int64_t>(columns.size()), "column"),
       in_brackets(class_line(blocks, table)),
       file);
}

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
  info("{}{} in {}",
       counted(count, "frame"),
       in_brackets(class_line(tracks.rows(), table)),
       file.empty() ? outdir : file);
}

Job::Job(int64_t count, const std::string& what)
    : count_(count), what_(what), live_(detect_terminal().live), drawn_at_(monotonic_seconds()) {
  for (size_t i = 0; i < kWaiting.size(); ++i) {
    sigaction(kWaiting[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction waits = {};
    waits.sa_handler = note_arrival;
    waits.sa_flags = SA_RESTART;
    sigaction(kWaiting[i], &waits, nullptr);
  }
}

Job::~Job() { let_signals_in(); }

void Job::step() { step_to(done_ + 1); }

void Job::step_to(int64_t done) {
  done_ = done;
  if (arrived != 0) let_signals_in();
  constexpr double kSeconds = 0.1;  // between two redraws
  const double now = monotonic_seconds();
  if (!live_ || now - drawn_at_ < kSeconds) return;
  drawn_at_ = now;
  set_live_line(fmt::format(" {}/{} {}", done_, count_, what_));
}

int Job::take_signal() {
  const int signal = arrived;
  arrived = 0;
  return signal;
}

void Job::let_signals_in() {
  if (live_) set_live_line("");
  for (size_t i = 0; i < kWaiting.size(); ++i) sigaction(kWaiting[i], &before_[i], nullptr);
  if (arrived != 0) raise(arrived);  // here it ends
}

}  // namespace gantrain
