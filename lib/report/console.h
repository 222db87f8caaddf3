// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// Where a run stands. kimg: thousands of real images shown to the discriminator.
struct Progress {
  double kimg = 0;
  double total_kimg = 0;       // 0: no end known
  double seconds = 0;          // since this process began to train
  double kimg_per_second = 0;  // recent; 0: Console works it out of the last ticks
  int64_t tick = 0;
  std::vector<std::pair<std::string, double>> losses = {};  // in the order shown: {"G", 1.31}
  double cpu_mem_gb = 0;
  double gpu_mem_gb = 0;  // 0: no GPU
};

// What standard error is: a terminal that can redraw a line, or anything else.
struct Terminal {
  bool live = false;
  int64_t width = 0;  // columns; 0: ask at every redraw
};
// live if standard error is a terminal, TERM is set and not "dumb". No colour is ever used.
Terminal detect_terminal();
// Columns by ioctl, else COLUMNS, else 80.
int64_t terminal_width();

// " kimg 12.4/50  25% |#######------| 0.61 kimg/s  eta 1m02s  G 1.31 D 0.88  mem 0.4 GB", at most
// width - 1 columns: what does not fit is left out, memory first, then bar, losses, speed, eta.
std::string render_bar(const Progress& progress, int64_t width);

// "tick 50  kimg 200.0/25000  time 3m21s  eta 6h54m  sec/kimg 1.00  G 1.31  D 0.88  mem 1.2 GB"
std::string render_tick(const Progress& progress);

// Speed over the last ticks, so that neither a slow start nor one slow metric bends the estimate.
class Speed {
 public:
  void add(const Progress& tick);
  bool empty() const { return points_.empty(); }
  // From the oldest of those ticks to now; 0 while none lies before now.
  double kimg_per_second(const Progress& now) const;

 private:
  struct Point {
    double kimg = 0;
    double seconds = 0;
  };
  std::deque<Point> points_;
};

// The live display of rank 0. On a terminal one line, redrawn in place; elsewhere whole lines
// through the log, at most one a minute. Time is Progress::seconds.
class Console {
 public:
  explicit Console(const Terminal& terminal = detect_terminal()) : terminal_(terminal) {}
  ~Console();  // clears the bar

  // Between ticks, as often as one likes: redraws the bar at most ten times a second; elsewhere
  // nothing.
  void update(Progress progress);
  // At the end of a tick. Elsewhere: the first is always shown.
  void tick(Progress progress);
  // Clears the bar; elsewhere: shows the last tick, if it was not shown yet.
  void finish();

 private:
  void observe(Progress& progress);
  void draw(const Progress& progress);
  void print(const Progress& progress);

  Terminal terminal_;
  Speed speed_;
  double drawn_at_ = -1;    // seconds
  double printed_at_ = -1;  // seconds
  std::optional<Progress> unprinted_;
};

}  // namespace gantrain
