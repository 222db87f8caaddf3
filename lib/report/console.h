// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gantrain {

// A number to watch. One that was measured at other kimg than those of the line says so.
struct Watched {
  std::string name;
  double value = 0;
  std::optional<double> kimg = {};  // where it was measured; nothing: where the run stands
};

// Where a run stands. kimg: thousands of real images shown to the discriminator.
struct Progress {
  double kimg = 0;
  double total_kimg = 0;       // 0: the end is not known
  double seconds = 0;          // since this process began to train
  double kimg_per_second = 0;  // recent; 0: Console computes it from the last ticks
  int64_t tick = 0;
  std::vector<std::pair<std::string, double>> losses = {};  // in the order shown: {"G", 1.31}
  double cpu_mem_gb = 0;
  double gpu_mem_gb = 0;  // 0: no GPU
  // What else there is to watch, in the order shown: {"ada p", 0.31}, {"swd", 12.8, 8}.
  std::vector<Watched> watched = {};
};

// What standard error is: a terminal on which a line can be redrawn, or anything else.
struct Terminal {
  bool live = false;
  int64_t width = 0;  // columns; 0: ask at every redraw
};
// Returns a live terminal if standard error is a terminal and TERM is set and not "dumb".
Terminal detect_terminal();
// Returns the columns by ioctl, else by COLUMNS, else 80.
int64_t terminal_width();

// Returns a progress bar of at most width - 1 columns:
// " kimg 12.4/50  25% |#######------| 610 images/s  eta 1m02s  G 1.31 D 0.88  ada p 0.31  mem 0.4
// GB". What does not fit is left out: first memory, then what else is watched, the bar, losses,
// speed, eta; so is the eta while the speed is not known.
std::string render_bar(const Progress& progress, int64_t width);
// Returns the same with the done part of the bar in green.
std::string paint_bar(const std::string& bar);

// Returns the line of a tick:
// "tick 50  kimg 200.0/25000  time 3m21s  eta 6h54m  sec/kimg 1.00  G 1.31  D 0.88  swd 12.83
// (kimg 160)  mem 1.2 GB".
std::string render_tick(const Progress& progress);

// Computes the speed over the last ticks, so that neither a slow start nor one slow metric distorts
// the estimate.
class Speed {
 public:
  void add(const Progress& tick);
  bool empty() const { return points_.empty(); }
  // Returns the speed from the oldest of these ticks to now; 0 while no tick lies before now.
  double kimg_per_second(const Progress& now) const;

 private:
  struct Point {
    double kimg = 0;
    double seconds = 0;
  };
  std::deque<Point> points_;
};

// The live display of rank 0. On a terminal it is one line, redrawn in place. Elsewhere it writes
// whole lines through the log, at most one a minute. Time is Progress::seconds.
class Console {
 public:
  explicit Console(const Terminal& terminal = detect_terminal()) : terminal_(terminal) {}
  ~Console();  // clears the bar

  // Redraws the bar, at most ten times a second; does nothing without a terminal. It may be called
  // between ticks as often as one likes.
  void update(Progress progress);
  // Shows a tick. Without a terminal the first tick is always shown. Returns its line, which a
  // terminal does not show, for a log file.
  std::string tick(Progress progress);
  // Clears the bar. Without a terminal it shows the last tick if that was not shown yet.
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

// What a run does before its first iteration, in one line on a terminal, which Console then takes
// over: " starting 3s  opening data". Elsewhere it shows nothing.
class StartLine {
 public:
  // `began` is monotonic_seconds() when the command began. A line that is not `wanted` (-q, ranks
  // other than 0) shows nothing.
  StartLine(double began, bool wanted);
  ~StartLine();  // clears the line, unless end() was called
  StartLine(const StartLine&) = delete;
  StartLine& operator=(const StartLine&) = delete;

  void show(const std::string& phase);
  // The first iteration is done: the line is Console's from now on.
  void end() { live_ = false; }

 private:
  double began_;
  bool live_;
};

// Shows how far work on many pictures, or other things, has come: on a terminal one line that is
// redrawn, elsewhere a whole line each minute.
class WorkProgress {
 public:
  // `what` begins the line: "packing". `unit` is what is counted.
  explicit WorkProgress(std::string what, std::string unit = "pictures");
  ~WorkProgress();  // clears the line
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  // `done` of `all` are finished. It may be called as often as one likes.
  void show(int64_t done, int64_t all);

 private:
  std::string line(int64_t done, int64_t all, double seconds) const;

  std::string what_, unit_;
  Terminal terminal_ = detect_terminal();
  double start_;        // monotonic seconds
  double shown_at_;     // monotonic seconds
  int64_t first_ = -1;  // done before the first call: by an earlier command
};

}  // namespace gantrain
