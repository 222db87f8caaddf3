// SPDX-License-Identifier: Apache-2.0
#include "report/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "util/log.h"
#include "util/system.h"
#include "util/text.h"

namespace gantrain {

namespace {

constexpr double kRedraw = 0.1;     // seconds
constexpr double kPrint = 60;       // seconds
constexpr size_t kRecentTicks = 8;  // for the speed
constexpr int64_t kLeastBar = 10;   // cells
constexpr int64_t kMostBar = 30;
constexpr int64_t kWorkBar = 20;

// Three digits or so, and never more than nine characters.
std::string brief(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (size >= 1e5) return fmt::format("{:.1e}", value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 0.1 || size == 0) return fmt::format("{:.2f}", value);
  return fmt::format("{:.2g}", value);
}

// Done, of all: more digits where a run is so short that they are what moves.
std::string kimg_of(const Progress& p) {
  const int digits = p.total_kimg >= 10 || p.total_kimg <= 0 ? 1 : p.total_kimg >= 1 ? 2 : 3;
  const std::string done = fmt::format("kimg {:.{}f}", p.kimg, digits);
  return p.total_kimg > 0 ? done + "/" + shortest(p.total_kimg) : done;
}

double share_done(const Progress& p) { return std::clamp(p.kimg / p.total_kimg, 0.0, 1.0); }

// Rounded, but 100 only at the end.
int percent_done(const Progress& p) {
  const double share = share_done(p);
  return share >= 1 ? 100 : std::min(99, static_cast<int>(std::lround(100 * share)));
}

std::string eta_of(const Progress& p) {
  if (p.total_kimg <= 0 || p.kimg_per_second <= 0) return "";
  return "eta " + short_duration((p.total_kimg - p.kimg) / p.kimg_per_second);
}

std::string joined(const std::vector<std::pair<std::string, double>>& values,
                   std::string_view separator) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values) parts.push_back(name + " " + brief(value));
  return join(parts, separator);
}

std::string watched_of(const Progress& p) {
  std::vector<std::string> parts;
  for (const Watched& one : p.watched) {
    const bool earlier = one.kimg && *one.kimg != p.kimg;
    parts.push_back(one.name + " " + brief(one.value) +
                    (earlier ? " (kimg " + shortest(*one.kimg) + ")" : ""));
  }
  return join(parts, "  ");
}

std::string memory_of(const Progress& p) {
  std::string text = fmt::format("mem {:.1f} GB", p.cpu_mem_gb);
  if (p.gpu_mem_gb > 0) text += fmt::format("  gpu {:.1f} GB", p.gpu_mem_gb);
  return text;
}

std::string join_filled(std::vector<std::string> parts) {
  std::erase(parts, "");
  return join(parts, "  ");
}

// What a bar can show besides kimg; empty or 0 is left out.
struct BarParts {
  int64_t cells = 0;
  std::string speed, eta, losses, watched, memory;
};

std::string compose(const Progress& p, const BarParts& parts) {
  std::string head = " " + kimg_of(p);
  if (p.total_kimg > 0) head += fmt::format(" {:3}%", percent_done(p));
  const std::string tail =
      join_filled({parts.speed, parts.eta, parts.losses, parts.watched, parts.memory});
  if (parts.cells == 0) return join_filled({head, tail});
  const auto cells = static_cast<size_t>(parts.cells);
  const auto filled = static_cast<size_t>(share_done(p) * static_cast<double>(parts.cells));
  head += " |" + std::string(filled, '#') + std::string(cells - filled, '-') + "|";
  return tail.empty() ? head : head + " " + tail;
}

}  // namespace

Terminal detect_terminal() { return {.live = is_live_terminal()}; }

int64_t terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const int64_t columns = parse_int(environment_variable("COLUMNS")).value_or(0);
  return columns > 0 ? columns : 80;
}

std::string render_bar(const Progress& progress, int64_t width) {
  const auto room = static_cast<size_t>(std::max<int64_t>(width - 1, 0));
  BarParts kept;
  const auto keep_if_it_fits = [&](auto BarParts::*part, const auto& value) {
    BarParts with = kept;
    with.*part = value;
    if (compose(progress, with).size() <= room) kept = with;
  };
  keep_if_it_fits(&BarParts::eta, eta_of(progress));
  if (progress.kimg_per_second > 0)
    keep_if_it_fits(&BarParts::speed, grouped(1e3 * progress.kimg_per_second) + " images/s");
  keep_if_it_fits(&BarParts::losses, joined(progress.losses, " "));
  keep_if_it_fits(&BarParts::cells, progress.total_kimg > 0 ? kLeastBar : 0);
  keep_if_it_fits(&BarParts::watched, watched_of(progress));
  keep_if_it_fits(&BarParts::memory, memory_of(progress));
  if (kept.cells > 0) {
    const auto spare = static_cast<int64_t>(room - compose(progress, kept).size());
    kept.cells = std::min(kMostBar, kept.cells + spare);
  }
  return compose(progress, kept).substr(0, room);
}

std::string render_tick(const Progress& p) {
  const std::string speed = p.kimg_per_second > 0 ? "sec/kimg " + brief(1 / p.kimg_per_second) : "";
  return join_filled({fmt::format("tick {}", p.tick),
                      kimg_of(p),
                      "time " + short_duration(p.seconds),
                      eta_of(p),
                      speed,
                      joined(p.losses, "  "),
                      watched_of(p),
                      memory_of(p)});
}

std::string paint_bar(const std::string& bar) {
  const size_t first = bar.find("|#");
  if (first == std::string::npos) return bar;
  const size_t end = bar.find_first_not_of('#', first + 1);
  const size_t size = std::min(end, bar.size()) - first - 1;
  return bar.substr(0, first + 1) +
         painted(std::string_view(bar).substr(first + 1, size), Color::kGreen) +
         bar.substr(first + 1 + size);
}

void Speed::add(const Progress& tick) {
  if (!points_.empty() && tick.kimg <= points_.back().kimg) return;
  points_.push_back({tick.kimg, tick.seconds});
  if (points_.size() > kRecentTicks + 1) points_.pop_front();
}

double Speed::kimg_per_second(const Progress& now) const {
  if (points_.empty() || now.seconds <= points_.front().seconds) return 0;
  return (now.kimg - points_.front().kimg) / (now.seconds - points_.front().seconds);
}

Console::~Console() {
  if (drawn_at_ >= 0) set_live_line("");
}

void Console::observe(Progress& progress) {
  if (speed_.empty()) speed_.add(progress);
  if (progress.kimg_per_second <= 0) progress.kimg_per_second = speed_.kimg_per_second(progress);
}

void Console::update(Progress progress) {
  observe(progress);
  if (!terminal_.live) return;
  if (drawn_at_ >= 0 && progress.seconds - drawn_at_ < kRedraw) return;
  draw(progress);
}

std::string Console::tick(Progress progress) {
  observe(progress);
  speed_.add(progress);
  if (terminal_.live) {
    draw(progress);
  } else if (printed_at_ < 0 || progress.seconds - printed_at_ >= kPrint) {
    print(progress);
  } else {
    unprinted_ = progress;
  }
  return render_tick(progress);
}

void Console::finish() {
  if (terminal_.live) set_live_line("");
  drawn_at_ = -1;
  if (unprinted_) print(*unprinted_);
}

void Console::draw(const Progress& progress) {
  // Asked for each time: the window may have another size by now.
  const int64_t width = terminal_.width > 0 ? terminal_.width : terminal_width();
  const std::string bar = render_bar(progress, width);
  set_live_line(shows_colors() ? paint_bar(bar) : bar);
  drawn_at_ = progress.seconds;
}

void Console::print(const Progress& progress) {
  info("{}", render_tick(progress));
  printed_at_ = progress.seconds;
  unprinted_.reset();
}

namespace {

std::string cut_to_terminal(const std::string& line) {
  return line.substr(0, static_cast<size_t>(std::max<int64_t>(terminal_width() - 1, 0)));
}

}  // namespace

StartLine::StartLine(double began, bool wanted)
    : began_(began), live_(wanted && detect_terminal().live) {}

StartLine::~StartLine() {
  if (live_) set_live_line("");
}

void StartLine::show(const std::string& phase) {
  if (!live_) return;
  const std::string passed = short_duration(monotonic_seconds() - began_);
  set_live_line(cut_to_terminal(fmt::format(" starting {}  {}", passed, phase)));
}

WorkProgress::WorkProgress(std::string what, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      start_(monotonic_seconds()),
      shown_at_(start_) {}

WorkProgress::~WorkProgress() {
  if (terminal_.live) set_live_line("");
}

void WorkProgress::show(int64_t done, int64_t all) {
  const double now = monotonic_seconds();
  if (first_ < 0) first_ = done - 1;
  if (now - shown_at_ < (terminal_.live ? kRedraw : kPrint)) return;
  shown_at_ = now;
  const std::string text = line(done, all, now - start_);
  if (terminal_.live) {
    set_live_line(cut_to_terminal(text));
  } else {
    info("{}", text);
  }
}

std::string WorkProgress::line(int64_t done, int64_t all, double seconds) const {
  const double rate = static_cast<double>(done - first_) / std::max(seconds, 1e-9);
  const auto filled = static_cast<size_t>(done * kWorkBar / std::max<int64_t>(all, 1));
  return fmt::format("{} {}/{} {:3}% |{}{}| {:.0f} {}/s  eta {}",
                     what_,
                     done,
                     all,
                     100 * done / std::max<int64_t>(all, 1),
                     std::string(filled, '#'),
                     std::string(kWorkBar - filled, '-'),
                     rate,
                     unit_,
                     short_duration(static_cast<double>(all - done) / std::max(rate, 1e-9)));
}

}  // namespace gantrain
